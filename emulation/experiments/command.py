"""The command of ``fairspine emulate``: checks the request, runs it in private namespaces, and reports progress."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from controller.model.errors import InputError
from controller.whole_file import write_bytes
from emulation import isolate, needs
from emulation.errors import LabError
from emulation.experiments.request import EmulatedScenario, ExperimentRequest, load
from emulation.interrupts import ending_by_exception
from emulation.processes import Popen
from emulation.roce.launcher import EmulationError

if TYPE_CHECKING:
    from emulation.experiments.results import ExperimentOutcome

PROGRAM = "fairspine emulate"
INTERRUPTED = 130

Output = Literal["table", "json", "none"]
"""Content of standard output besides the files: a table for people, the document, or nothing."""


def run_isolated(request: ExperimentRequest, output: Output) -> int:
    """Run an experiment in private namespaces; return 0, or 1 if it failed, 130 if it was interrupted.

    Raises:
        InputError: the request is invalid; nothing was created.
    """
    from emulation.experiments.run import prepare

    arguments = [request.to_json(), output]
    try:
        # Errors in the files are reported first, and without root.
        prepare(load(request))
        lacking = needs.missing()
        if lacking:
            raise LabError(lacking)
        with folder_of_our_own(request.out, request.name):
            return isolate.run([sys.executable, "-m", "emulation.experiments", *arguments])
    except LabError as error:
        return complain(str(error))


def main(arguments: list[str]) -> int:
    """Inside: ``python -m emulation.experiments REQUEST table|json|none``."""
    request = ExperimentRequest.from_json(arguments[0])
    try:
        with ending_by_exception():
            return serve(load(request), arguments[1])
    except (LabError, EmulationError, InputError) as error:
        return complain(str(error))
    except KeyboardInterrupt:
        complain("interrupted; everything has been cleaned up")
        return INTERRUPTED


def serve(scenario: EmulatedScenario, output: str, popen: Popen = subprocess.Popen) -> int:
    """Run an experiment in this process, write its files, and return its exit status.

    Args:
        scenario: the checked request.
        output: content of standard output (``Output``).
        popen: starts controllers, called as ``subprocess.Popen`` is.

    Raises:
        LabError: a part did not start, or the logs contain errors.
        EmulationError: a collective did not finish.
    """
    from emulation.experiments import picture
    from emulation.experiments.results import document
    from emulation.experiments.run import run

    started = time.monotonic()
    request = scenario.request

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:6.1f} s  {text}", file=sys.stderr, flush=True)

    if request.replans:
        return _serve_replans(scenario, output, say, popen)
    if request.learn:
        return _serve_learned(scenario, output, say, popen)
    outcome = run(scenario, say, popen)
    values = document(outcome)
    numbers, drawing = request.out / f"{request.name}.json", request.out / f"{request.name}.png"
    # The numbers last: who finds them finds the picture, too.
    picture.draw(outcome, drawing)
    write_bytes(numbers, [f"{json.dumps(values, indent=1)}\n".encode()])
    _print(outcome, values, output)
    say(f"wrote {drawing} and {numbers}")
    for note in outcome.notes():
        say(f"note: {note}")
    failures = outcome.failures()
    for failure in failures:
        complain(failure)
    return 1 if failures else 0


def _serve_learned(scenario: EmulatedScenario, output: str, say: Callable[[str], None], popen: Popen) -> int:
    from emulation.experiments.learned.learned_run import run_learned
    from emulation.experiments.learned.learned_table import print_learned

    request = scenario.request
    runs = [run_learned(load(replace(request, learn=feeder)), say, popen) for feeder in request.feeders]
    numbers = request.out / f"{request.name}.json"
    values = {"jobs": [row for run in runs for row in run.rows()]}
    write_bytes(numbers, [f"{json.dumps(values, indent=1)}\n".encode()])
    if output == "json":
        print(json.dumps(values))
    elif output == "table":
        print_learned(runs)
    say(f"wrote {numbers}")
    failures = [text for run in runs for text in run.failures(expect_faster=request.expect_faster)]
    for failure in failures:
        complain(failure)
    return 1 if failures else 0


def _serve_replans(scenario: EmulatedScenario, output: str, say: Callable[[str], None], popen: Popen) -> int:
    from emulation.experiments.learned.replan_run import run_replans
    from emulation.experiments.learned.replan_table import print_replans

    request = scenario.request
    outcome = run_replans(scenario, say, popen)
    numbers = request.out / f"{request.name}.json"
    values = outcome.document()
    write_bytes(numbers, [f"{json.dumps(values, indent=1)}\n".encode()])
    if output == "json":
        print(json.dumps(values))
    elif output == "table":
        print_replans(outcome)
    say(f"wrote {numbers}")
    failures = outcome.failures()
    for failure in failures:
        complain(failure)
    return 1 if failures else 0


@contextmanager
def folder_of_our_own(out: Path, name: str) -> Iterator[None]:
    """Make the folder of an experiment, and keep a second one from writing into the same logs meanwhile.

    Raises:
        InputError: it cannot be made.
        LabError: another experiment is running there.
    """
    path = out / name
    try:
        path.mkdir(parents=True, exist_ok=True)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise InputError(error.strerror or str(error), field="--out", value=str(path)) from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise LabError(f"another experiment is running in {path}; choose another --out or --name") from None
    finally:
        os.close(folder)


def _print(outcome: ExperimentOutcome, values: dict[str, Any], output: str) -> None:
    from emulation.experiments import table

    if output == "json":
        print(json.dumps(values))
    elif output == "table":
        table.print_outcome(outcome)


def complain(text: str) -> int:
    """One line on standard error; the exit status of a failure."""
    print(f"{PROGRAM}: {text}", file=sys.stderr, flush=True)
    return 1
