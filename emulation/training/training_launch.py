"""One launch of all jobs on a network that runs: under a plan, hashed, or learned while the jobs train."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from emulation.experiments.control import ExperimentController
from emulation.experiments.networks.network import ExperimentNetwork
from emulation.training.learned_jobs import compare, edges_of
from emulation.training.ranks import RunningJobs
from emulation.training.tcp_feeder import TcpFeeder
from emulation.training.tcp_library import preloaded
from emulation.training.training_outcome import JobSteps, LaunchMeasured
from emulation.training.training_request import HASHED, LEARNED, TrainingScenario

START_SECONDS = 240.0
"""Until all ranks have taken their first step: frameworks are imported, connect, and compile."""

SLACK = 15.0
"""Time limit of the other steps, as a multiple of their ideal time."""

STEP_SECONDS = 2.0
"""Added to the ideal time of a step for that limit: computing."""

ASK_SECONDS = 0.5
"""Between two questions for what has been learned."""

READINGS = 8
"""Of counters, at most, until no step of any job ends while they are read."""


def jobs_on(network: ExperimentNetwork, scenario: TrainingScenario, mark: str, *, planned: bool = True) -> RunningJobs:
    """Return the jobs of a scenario, which are not started.

    Args:
        network: it runs.
        scenario: the jobs.
        mark: part of the names of their logs.
        planned: whether agents choose the ports of their connections, if they can.
    """
    more = preloaded() if planned and scenario.hosts_choose_ports else {}
    addresses = {host.name: host.ip for host in scenario.emulated.fabric.hosts}
    return RunningJobs(network.lab, scenario.jobs, addresses, steps=scenario.request.steps, mark=mark, more=more)


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
        running.wait_for_end(_limit(scenario))
        jobs = _steps(running, scenario, began)
    steps = scenario.request.steps
    planned = None if plan is None else _over_links(plan, {job.name: float(steps) for job in scenario.jobs})
    return LaunchMeasured(policy, number, jobs, _since(before, network.sent()), planned, start_seconds)


def learned_launch(network: ExperimentNetwork, scenario: TrainingScenario) -> LaunchMeasured:
    """Launch all jobs, none of which is pushed: the hosts say what they send, and the controller plans that meanwhile.

    Steps and links are compared from then on at which the network follows a plan for all jobs.

    Raises:
        LabError: as for ``launch``.
    """
    fabric, steps = scenario.emulated.fabric, scenario.request.steps
    draw = next(draw for draw in scenario.emulated.draws if draw.policy != HASHED)
    sent = edges_of(fabric, scenario.emulated.traffic)
    names = [job.name for job in scenario.jobs]
    processes = {host.name: network.lab.host(host.name).pid for host in fabric.hosts}
    with network.learning(draw) as controller:
        began = time.monotonic()
        planned_at, before = began, network.sent()
        done, plan, documents = dict.fromkeys(names, 0), None, list[dict[str, Any]]()
        question = _Question(controller, sent)
        with (
            TcpFeeder(fabric, processes, controller.see),
            jobs_on(network, scenario, LEARNED) as running,
        ):
            running.wait_for(1, START_SECONDS)
            start_seconds = time.monotonic() - began
            running.wait_for(steps, _limit(scenario), is_enough=question.are_all_planned)
            documents = question.documents
            if question.planned:
                plan = controller.wait_active()
                planned_at, done, before = _so_far(network, running, names)
            running.wait_for_end(_limit(scenario))
            jobs = _steps(running, scenario, planned_at)
            after = network.sent()
    left = {name: float(steps - done[name]) for name in names}
    links = _since(before, after)
    of_edge = {edge: name for name, edges in sent.items() for edge in edges}
    return LaunchMeasured(
        LEARNED,
        1,
        jobs,
        links,
        # The step that was in progress is counted by half, and may have been sent or not.
        None if plan is None else _over_links(plan, {name: count - 0.5 for name, count in left.items()}, of_edge),
        start_seconds,
        {} if plan is None else _over_links(plan, dict.fromkeys(names, 0.5), of_edge),
        tuple(compare(name, sent[name], documents, done[name]) for name in names),
        max(left.values()),
    )


def _so_far(
    network: ExperimentNetwork, running: RunningJobs, names: Sequence[str]
) -> tuple[float, dict[str, int], dict[str, int]]:
    """Return the time, the steps that jobs have done, and the bytes on links, all within the same steps.

    Counters are read once more if a step has ended meanwhile: on a busy machine, reading them takes long.
    """
    for _ in range(READINGS):
        at, done = time.monotonic(), {name: running.done(name) for name in names}
        sent = network.sent()
        if done == {name: running.done(name) for name in names}:
            break
    return at, done, sent


class _Question:
    """Asks a controller from time to time whether it has planned all jobs; ``planned``: it has."""

    def __init__(self, controller: ExperimentController, sent: Mapping[str, Mapping[tuple[str, str], float]]) -> None:
        self._controller, self._sent = controller, sent
        self._asked = 0.0
        self.planned = False
        self.documents: list[dict[str, Any]] = []

    def are_all_planned(self) -> bool:
        if time.monotonic() - self._asked < ASK_SECONDS:
            return False
        self.documents = self._controller.learned()
        whole = all(compare(name, edges, self.documents, 1).is_whole for name, edges in self._sent.items())
        self.planned = whole and self._controller.all_planned()
        self._asked = time.monotonic()
        return self.planned


def _limit(scenario: TrainingScenario) -> float:
    return SLACK * (scenario.request.steps - 1) * (STEP_SECONDS + max(scenario.ideal.values()))


def _steps(running: RunningJobs, scenario: TrainingScenario, since: float) -> tuple[JobSteps, ...]:
    """Return the steps of all jobs; compared are those that began after some time, while all jobs trained."""
    names, steps = [job.name for job in scenario.jobs], scenario.request.steps
    times = {name: running.times(name) for name in names}
    # After the first step, which compiles, and while none had ended.
    first, last = max(since, *(each[0] for each in times.values())), min(each[-1] for each in times.values())
    return tuple(
        JobSteps(
            name,
            tuple(running.seconds(name)),
            tuple(running.losses(name)),
            tuple(step for step in range(1, steps) if first <= times[name][step - 1] and times[name][step] <= last),
        )
        for name in names
    )


def _since(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {link: after[link] - before[link] for link in after}


def _over_links(
    plan: Mapping[str, Any], steps: Mapping[str, float], of_edge: Mapping[tuple[str, str], str] | None = None
) -> dict[str, float]:
    """Return the bytes that a plan leads over each link in so many steps of each job.

    ``of_edge``: the job of the flow of two hosts, where the plan has other names of jobs.
    """
    planned: dict[str, float] = {}
    for flow in plan["flows"]:
        job = flow["job"] if of_edge is None else of_edge[flow["src"], flow["dst"]]
        for path in flow["paths"]:
            for link in path["links"]:
                planned[link] = planned.get(link, 0.0) + flow["bytes"] * path["share"] * steps[job]
    return planned
