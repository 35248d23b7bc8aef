"""The command of ``fairspine emulate``: checks the request, runs it in private namespaces, and reports progress."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from controller.model.errors import InputError
from emulation.errors import LabError
from emulation.experiments.request import EmulatedScenario, ExperimentRequest, load
from emulation.isolated_command import IsolatedCommand, Output, timed_lines
from emulation.processes import Popen
from emulation.roce.launcher import EmulationError

COMMAND = IsolatedCommand("fairspine emulate", "emulation.experiments")


def run_isolated(request: ExperimentRequest, output: Output) -> int:
    """Run an experiment in private namespaces; return 0, or 1 if it failed, 130 if it was interrupted.

    Raises:
        InputError: the request is invalid; nothing was created.
    """
    from emulation.experiments.run import prepare

    return COMMAND.run_isolated(request, output, lambda: prepare(load(request)))


def main(arguments: list[str]) -> int:
    """Inside: ``python -m emulation.experiments REQUEST table|json|none``."""
    request = ExperimentRequest.from_json(arguments[0])
    return COMMAND.inside(lambda: serve(load(request), arguments[1]), (LabError, EmulationError, InputError))


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
    from emulation.experiments import picture, table
    from emulation.experiments.results import document
    from emulation.experiments.run import run

    say, request = timed_lines(), scenario.request
    if request.replans:
        return _serve_replans(scenario, output, say, popen)
    if request.learn:
        return _serve_learned(scenario, output, say, popen)
    outcome = run(scenario, say, popen)
    return COMMAND.report(
        request,
        document(outcome),
        output,
        partial(table.print_outcome, outcome),
        say,
        outcome.failures(),
        draw=partial(picture.draw, outcome),
        notes=outcome.notes(),
    )


def _serve_learned(scenario: EmulatedScenario, output: str, say: Callable[[str], None], popen: Popen) -> int:
    from emulation.experiments.learned.learned_run import run_learned
    from emulation.experiments.learned.learned_table import print_learned

    request = scenario.request
    runs = [run_learned(load(replace(request, learn=feeder)), say, popen) for feeder in request.feeders]
    values = {"jobs": [row for run in runs for row in run.rows()]}
    failures = [text for run in runs for text in run.failures(expect_faster=request.expect_faster)]
    return COMMAND.report(request, values, output, partial(print_learned, runs), say, failures)


def _serve_replans(scenario: EmulatedScenario, output: str, say: Callable[[str], None], popen: Popen) -> int:
    from emulation.experiments.learned.replan_run import run_replans
    from emulation.experiments.learned.replan_table import print_replans

    outcome = run_replans(scenario, say, popen)
    show = partial(print_replans, outcome)
    return COMMAND.report(scenario.request, outcome.document(), output, show, say, outcome.failures())
