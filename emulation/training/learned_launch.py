"""One launch of all jobs of which nobody tells the controller: it learns and plans them while they train."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from emulation.errors import LabError
from emulation.experiments.control import ExperimentController
from emulation.experiments.networks.network import ExperimentNetwork
from emulation.training.learned_jobs import Edge, compare, edges_of
from emulation.training.ranks import RunningJobs
from emulation.training.tcp_feeder import TcpFeeder
from emulation.training.training_launch import START_SECONDS, jobs_on, sent_since, steps_of, time_limit
from emulation.training.training_outcome import LaunchMeasured
from emulation.training.training_request import HASHED, LEARNED, TrainingScenario

PLAN_STEPS = 60
"""Steps within which jobs are learned and the network follows their plan: three are enough, on a busy machine not."""

LEAST_STEPS = 8
"""Under a plan: what is learned of five iterations stays, so later ones show it."""

ASK_SECONDS = 0.5
"""Between two questions for what has been learned."""

READINGS = 8
"""Of counters, at most, until no step of any job ends while they are read."""


@dataclass(frozen=True)
class _Reading:
    """The time, the steps that jobs had done, and the bytes that links had sent."""

    at: float
    done: dict[str, int]
    sent: dict[str, int]


def learned_launch(network: ExperimentNetwork, scenario: TrainingScenario) -> LaunchMeasured:
    """Launch all jobs, none of which is pushed: the hosts say what they send, and the controller plans that meanwhile.

    Jobs train until the network follows a plan for all of them, and then the steps of the request, ``LEAST_STEPS`` at
    least: these are compared with those of pushed jobs, and what links carry with the plan. Then they are ended.

    Raises:
        LabError: as for ``launch``; or the plan changes too often.
    """
    fabric, steps = scenario.emulated.fabric, max(scenario.request.steps, LEAST_STEPS)
    draw = next(draw for draw in scenario.emulated.draws if draw.policy != HASHED)
    sent = edges_of(fabric, scenario.emulated.traffic)
    processes = {host.name: network.lab.host(host.name).pid for host in fabric.hosts}
    with network.learning(draw) as controller:
        began, question = time.monotonic(), _Question(controller, sent)
        with (
            TcpFeeder(fabric, processes, controller.see),
            jobs_on(network, scenario, LEARNED, steps=PLAN_STEPS + steps) as running,
        ):
            running.wait_for(1, START_SECONDS)
            start_seconds = time.monotonic() - began
            running.wait_for(PLAN_STEPS, time_limit(scenario, PLAN_STEPS), is_enough=question.are_all_planned)
            plan = None
            if question.planned:
                plan, first, last = _under_one_plan(network, scenario, controller, running, steps)
            else:
                first = last = _reading(network, running, sent)
            # By now, more is known than when the jobs were planned. On a busy machine, a look may miss an edge.
            running.wait_for(PLAN_STEPS + steps, time_limit(scenario, steps), is_enough=question.are_all_learned)
            jobs = steps_of(running, scenario, first.at)
    counted = {name: last.done[name] - first.done[name] for name in sent}
    planned_after = dict.fromkeys(sent, 0) if plan is None else first.done
    return LaunchMeasured(
        LEARNED,
        1,
        jobs,
        sent_since(first.sent, last.sent),
        None if plan is None else over_links(plan, sent, counted),
        start_seconds,
        # Counters are read within steps: as much as one may be missing, or there besides.
        {} if plan is None else over_links(plan, sent, dict.fromkeys(sent, 1)),
        tuple(compare(name, edges, question.documents, planned_after[name]) for name, edges in sent.items()),
        max(counted.values()),
    )


def over_links(
    plan: Mapping[str, Any], sent: Mapping[str, Mapping[Edge, float]], steps: Mapping[str, int]
) -> dict[str, float]:
    """Return the bytes that jobs send over each link in so many steps of each, on the paths of a plan.

    Args:
        plan: of learned jobs, with their names and bytes; paths are taken from it, and how several flows of one edge
            share its bytes.
        sent: the bytes of each edge of each job in a step, as its file says.
        steps: of each job.
    """
    learned: dict[Edge, float] = {}
    for flow in plan["flows"]:
        learned[flow["src"], flow["dst"]] = learned.get((flow["src"], flow["dst"]), 0.0) + flow["bytes"]
    bytes_of = {edge: size * steps[name] for name, edges in sent.items() for edge, size in edges.items()}
    planned: dict[str, float] = {}
    for flow in plan["flows"]:
        edge = flow["src"], flow["dst"]
        size = bytes_of.get(edge, 0.0) * flow["bytes"] / learned[edge]
        for path in flow["paths"]:
            for link in path["links"]:
                planned[link] = planned.get(link, 0.0) + size * path["share"]
    return planned


def _under_one_plan(
    network: ExperimentNetwork,
    scenario: TrainingScenario,
    controller: ExperimentController,
    running: RunningJobs,
    steps: int,
) -> tuple[dict[str, Any], _Reading, _Reading]:
    """Wait until all jobs have taken so many steps while no path changed.

    Return the plan, and what was read at the begin and at the end of these steps.
    """
    names = [job.name for job in scenario.jobs]
    while True:
        plan = controller.wait_active()
        first = _reading(network, running, names)
        ends = {name: done + steps for name, done in first.done.items()}
        if max(ends.values()) > PLAN_STEPS + steps:
            raise LabError(f"the plan of the learned jobs changes too often: within {steps} steps, until {PLAN_STEPS}")
        running.wait_for(PLAN_STEPS + steps, time_limit(scenario, steps), is_enough=partial(_have_done, running, ends))
        last = _reading(network, running, names)
        if _paths(controller.wait_active()) == _paths(plan):
            return plan, first, last


def _have_done(running: RunningJobs, steps: Mapping[str, int]) -> bool:
    return all(running.done(name) >= wanted for name, wanted in steps.items())


def _paths(plan: Mapping[str, Any]) -> set[tuple[str, str, float, tuple[str, ...]]]:
    """Return the paths of a plan, whose jobs may get other names, and other bytes."""
    return {
        (flow["src"], flow["dst"], path["share"], tuple(path["links"]))
        for flow in plan["flows"]
        for path in flow["paths"]
    }


def _reading(network: ExperimentNetwork, running: RunningJobs, names: Iterable[str]) -> _Reading:
    """Read everything within the same steps.

    Counters are read once more if a step has ended meanwhile: on a busy machine, reading them takes long.
    """
    for _ in range(READINGS):
        read = _Reading(time.monotonic(), {name: running.done(name) for name in names}, network.sent())
        if read.done == {name: running.done(name) for name in names}:
            break
    return read


class _Question:
    """Asks a controller from time to time what it has learned.

    ``documents``: of learned jobs. ``planned``: all jobs were learned and planned when this was asked.
    """

    def __init__(self, controller: ExperimentController, sent: Mapping[str, Mapping[Edge, float]]) -> None:
        self._controller, self._sent = controller, sent
        self._asked = 0.0
        self.documents: list[dict[str, Any]] = []
        self.planned = False

    def are_all_learned(self) -> bool:
        if time.monotonic() - self._asked < ASK_SECONDS:
            return False
        self._asked = time.monotonic()
        self.documents = self._controller.learned()
        return all(compare(name, edges, self.documents, 1).is_whole for name, edges in self._sent.items())

    def are_all_planned(self) -> bool:
        self.planned = self.are_all_learned() and self._controller.all_planned()
        return self.planned
