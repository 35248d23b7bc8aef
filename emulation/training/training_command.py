"""The command of ``fairspine emulate-training``: checks the request, runs it in private namespaces, and reports."""

from __future__ import annotations

import subprocess
from functools import partial

from emulation.isolated_command import IsolatedCommand, Output, timed_lines
from emulation.processes import Popen
from emulation.training.training_request import TrainingRequest, TrainingScenario, load

COMMAND = IsolatedCommand("fairspine emulate-training", "emulation.training")


def run_isolated(request: TrainingRequest, output: Output) -> int:
    """Train in private namespaces; return 0, or 1 if it failed, 130 if it was interrupted.

    Raises:
        InputError: the request is invalid; nothing was created.
    """
    return COMMAND.run_isolated(request, output, lambda: load(request))


def main(arguments: list[str]) -> int:
    """Inside: ``python -m emulation.training REQUEST table|json|none``."""
    return COMMAND.inside(lambda: serve(load(TrainingRequest.from_json(arguments[0])), arguments[1]))


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

    say = timed_lines()
    outcome = run(scenario, say, popen)
    return COMMAND.report(
        scenario.request,
        outcome.document(),
        output,
        partial(print_training, outcome),
        say,
        outcome.failures(),
        draw=partial(training_picture.draw, outcome),
    )
