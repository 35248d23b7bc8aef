"""One launch of all jobs on a network that runs, under a plan, or hashed; and what launches have in common."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from emulation.experiments.networks.network import ExperimentNetwork
from emulation.training.ranks import RunningJobs
from emulation.training.tcp_library import preloaded
from emulation.training.training_outcome import JobSteps, LaunchMeasured
from emulation.training.training_request import TrainingScenario

START_SECONDS = 240.0
"""Until all ranks have taken their first step: frameworks are imported, connect, and compile."""

SLACK = 15.0
"""Time limit of the other steps, as a multiple of their ideal time."""

STEP_SECONDS = 2.0
"""Added to the ideal time of a step for that limit: computing."""


def jobs_on(
    network: ExperimentNetwork, scenario: TrainingScenario, mark: str, *, planned: bool = True, steps: int = 0
) -> RunningJobs:
    """Return the jobs of a scenario, which are not started.

    Args:
        network: it runs.
        scenario: the jobs.
        mark: part of the names of their logs.
        planned: whether agents choose the ports of their connections, if they can.
        steps: that each job takes at most; 0: those of the request.
    """
    more = preloaded() if planned and scenario.hosts_choose_ports else {}
    addresses = {host.name: host.ip for host in scenario.emulated.fabric.hosts}
    steps = steps or scenario.request.steps
    return RunningJobs(network.lab, scenario.jobs, addresses, steps=steps, mark=mark, more=more)


def launch(
    network: ExperimentNetwork, scenario: TrainingScenario, policy: str, number: int, plan: Mapping[str, Any] | None
) -> LaunchMeasured:
    """Launch all jobs on a network that follows a plan, or that hashes (``None``), and wait for their end.

    Raises:
        LabError: a rank has failed, or the jobs take too long.
    """
    began, before = time.monotonic(), network.sent()
    with jobs_on(network, scenario, f"{policy}-{number}", planned=plan is not None) as running:
        running.wait_for(1, START_SECONDS)
        start_seconds = time.monotonic() - began
        running.wait_for_end(time_limit(scenario, scenario.request.steps))
        jobs = steps_of(running, scenario, began)
    sent = sent_since(before, network.sent())
    planned = None if plan is None else _over_links(plan, scenario.request.steps)
    return LaunchMeasured(policy, number, jobs, sent, planned, start_seconds)


def time_limit(scenario: TrainingScenario, steps: int) -> float:
    """Return the seconds in which all jobs have to take so many steps."""
    return SLACK * steps * (STEP_SECONDS + max(scenario.ideal.values()))


def steps_of(running: RunningJobs, scenario: TrainingScenario, since: float) -> tuple[JobSteps, ...]:
    """Return the steps of all jobs; compared are those that began after some time, while all jobs trained."""
    names = [job.name for job in scenario.jobs]
    times = {name: running.times(name) for name in names}
    # After the first step, which compiles, and while none had ended.
    first, last = max(since, *(each[0] for each in times.values())), min(each[-1] for each in times.values())
    return tuple(
        JobSteps(
            name,
            tuple(running.seconds(name)),
            tuple(running.losses(name)),
            tuple(step for step in range(1, len(ends)) if first <= ends[step - 1] and ends[step] <= last),
        )
        for name, ends in times.items()
    )


def sent_since(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return what links have sent between two readings of their counters."""
    return {link: after[link] - before[link] for link in after}


def _over_links(plan: Mapping[str, Any], steps: int) -> dict[str, float]:
    """Return the bytes that a plan of pushed jobs leads over each link in so many steps."""
    planned: dict[str, float] = {}
    for flow in plan["flows"]:
        for path in flow["paths"]:
            for link in path["links"]:
                planned[link] = planned.get(link, 0.0) + flow["bytes"] * path["share"] * steps
    return planned
