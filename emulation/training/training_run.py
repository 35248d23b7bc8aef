"""The training itself: network, controller, ranks, counters; launch after launch on one lab."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from emulation.errors import LabError
from emulation.experiments.networks.network import ExperimentNetwork, switches_in_words
from emulation.experiments.networks.openflow_network import OpenFlowNetwork
from emulation.experiments.request import Draw
from emulation.processes import Popen
from emulation.training.ranks import RunningJobs
from emulation.training.training_outcome import JobSteps, LaunchMeasured, TrainingOutcome
from emulation.training.training_request import HASHED, TrainingScenario

Say = Callable[[str], None]

START_SECONDS = 240.0
"""Until all ranks have taken their first step: frameworks are imported, connect, and compile."""

SLACK = 15.0
"""Time limit of the other steps, as a multiple of their ideal time."""

STEP_SECONDS = 2.0
"""Added to the ideal time of a step for that limit: computing."""


def run(scenario: TrainingScenario, say: Say, popen: Popen = subprocess.Popen) -> TrainingOutcome:
    """Train under every policy on one lab, which is always removed afterwards.

    Args:
        scenario: the checked request.
        say: called with a line of text on progress.
        popen: starts controllers, called as ``subprocess.Popen`` is.

    Raises:
        LabError: a part did not start, a rank failed, or the logs contain errors.
    """
    request, fabric = scenario.request, scenario.emulated.fabric
    begun = time.monotonic()
    say(f"{fabric.size_in_words}, {fabric.n_hosts} hosts on {switches_in_words(fabric)} ...")
    launches = []
    with network_of(scenario, popen) as network:
        for draw in scenario.emulated.draws:
            with _followed(network, draw) as plan:
                for number in range(1, 1 + (request.launches if plan is None else 1)):
                    done = _launch(network, scenario, draw, number, plan)
                    say(f"{draw.policy}, launch {number}: {_in_words(done)}")
                    launches.append(done)
        problems = network.lab.problems()
    if problems:
        raise LabError("errors in the logs:\n" + "\n".join(problems))
    return TrainingOutcome(scenario, tuple(launches), time.monotonic() - begun)


def network_of(scenario: TrainingScenario, popen: Popen = subprocess.Popen) -> ExperimentNetwork:
    """Return the network of a scenario, which is not started."""
    return OpenFlowNetwork(scenario.emulated, scenario.scale, popen)


def jobs_on(network: ExperimentNetwork, scenario: TrainingScenario, mark: str) -> RunningJobs:
    """Return the jobs of a scenario, which are not started; ``mark``: part of the names of their logs."""
    addresses = {host.name: host.ip for host in scenario.emulated.fabric.hosts}
    return RunningJobs(network.lab, scenario.jobs, addresses, steps=scenario.request.steps, mark=mark)


@contextmanager
def _followed(network: ExperimentNetwork, draw: Draw) -> Iterator[Mapping[str, Any] | None]:
    """Yield the document of the plan that the network follows; ``None``: it hashes connections."""
    if draw.policy == HASHED:
        with network.hashed(draw):
            yield None
    else:
        with network.applied(draw) as applied:
            yield applied.plan


def _launch(
    network: ExperimentNetwork, scenario: TrainingScenario, draw: Draw, number: int, plan: Mapping[str, Any] | None
) -> LaunchMeasured:
    steps, names = scenario.request.steps, [job.name for job in scenario.jobs]
    began = time.monotonic()
    before = network.sent()
    with jobs_on(network, scenario, f"{draw.policy}-{number}") as running:
        running.wait_for(1, START_SECONDS)
        start_seconds = time.monotonic() - began
        running.wait_for_end(SLACK * (steps - 1) * (STEP_SECONDS + max(scenario.ideal.values())))
        times = {name: running.times(name) for name in names}
        # Steps in which all jobs were training: after the first one, which compiles, and while none had ended.
        first, last = max(each[0] for each in times.values()), min(each[-1] for each in times.values())
        jobs = tuple(
            JobSteps(
                name,
                tuple(running.seconds(name)),
                tuple(running.losses(name)),
                tuple(step for step in range(1, steps) if first <= times[name][step - 1] and times[name][step] <= last),
            )
            for name in names
        )
    after = network.sent()
    sent = {link: after[link] - before[link] for link in after}
    planned = None if plan is None else _planned(plan, steps)
    return LaunchMeasured(draw.policy, number, jobs, sent, planned, start_seconds)


def _planned(plan: Mapping[str, Any], steps: int) -> dict[str, float]:
    """Return the bytes of all steps that a plan leads over each link."""
    planned: dict[str, float] = {}
    for flow in plan["flows"]:
        for path in flow["paths"]:
            for link in path["links"]:
                planned[link] = planned.get(link, 0.0) + flow["bytes"] * path["share"] * steps
    return planned


def _in_words(done: LaunchMeasured) -> str:
    jobs = ", ".join(f"{job.job} {job.step_seconds:.2f} s a step" for job in done.jobs)
    return f"{jobs}; first step after {done.start_seconds:.0f} s"
