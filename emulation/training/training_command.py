"""The command of ``fairspine emulate-training``: checks the request, runs it in private namespaces, and reports."""

from __future__ import annotations

import json
import subprocess
import sys
import time

from controller.model.errors import InputError
from controller.whole_file import write_bytes
from emulation import isolate, needs
from emulation.errors import LabError
from emulation.experiments.command import INTERRUPTED, Output, folder_of_our_own
from emulation.interrupts import ending_by_exception
from emulation.processes import Popen
from emulation.training.training_request import TrainingRequest, TrainingScenario, load

PROGRAM = "fairspine emulate-training"


def run_isolated(request: TrainingRequest, output: Output) -> int:
    """Train in private namespaces; return 0, or 1 if it failed, 130 if it was interrupted.

    Raises:
        InputError: the request is invalid; nothing was created.
    """
    try:
        # Errors in the files are reported first, and without root.
        load(request)
        lacking = needs.missing()
        if lacking:
            raise LabError(lacking)
        with folder_of_our_own(request.out, request.name):
            return isolate.run([sys.executable, "-m", "emulation.training", request.to_json(), output])
    except LabError as error:
        return _complain(str(error))


def main(arguments: list[str]) -> int:
    """Inside: ``python -m emulation.training REQUEST table|json|none``."""
    try:
        with ending_by_exception():
            return serve(load(TrainingRequest.from_json(arguments[0])), arguments[1])
    except (LabError, InputError) as error:
        return _complain(str(error))
    except KeyboardInterrupt:
        _complain("interrupted; everything has been cleaned up")
        return INTERRUPTED


def serve(scenario: TrainingScenario, output: str, popen: Popen = subprocess.Popen) -> int:
    """Train in this process, write the files, and return the exit status.

    Args:
        scenario: the checked request.
        output: content of standard output (``Output``).
        popen: starts controllers, called as ``subprocess.Popen`` is.

    Raises:
        LabError: a part did not start, a rank failed, or the logs contain errors.
    """
    from emulation.training import training_picture
    from emulation.training.training_run import run
    from emulation.training.training_table import print_training

    started, request = time.monotonic(), scenario.request

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:6.1f} s  {text}", file=sys.stderr, flush=True)

    outcome = run(scenario, say, popen)
    values = outcome.document()
    numbers, drawing = request.out / f"{request.name}.json", request.out / f"{request.name}.png"
    # The numbers last: who finds them finds the picture, too.
    training_picture.draw(outcome, drawing)
    write_bytes(numbers, [f"{json.dumps(values, indent=1)}\n".encode()])
    if output == "json":
        print(json.dumps(values))
    elif output == "table":
        print_training(outcome)
    say(f"wrote {drawing} and {numbers}")
    failures = outcome.failures()
    for failure in failures:
        _complain(failure)
    return 1 if failures else 0


def _complain(text: str) -> int:
    """One line on standard error; the exit status of a failure."""
    print(f"{PROGRAM}: {text}", file=sys.stderr, flush=True)
    return 1
