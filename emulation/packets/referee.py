"""The referee: the same jobs and plans on packets and in the fluid model, each over its own ideal and best spraying."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from controller.model.assignment import Assignment
from controller.model.errors import InputError
from controller.model.fabric import BoolArray, Fabric
from controller.model.traffic import Traffic
from controller.routing import POLICIES, Options, PreviousPlan, Result, assign
from controller.routing.base import DEFAULT_PACES, PaceRule
from emulation.evaluation.cases import Case
from emulation.evaluation.scenario import InitialFailure, NamedPolicy, Scenario
from emulation.fluid.host_rates import DCTCP, in_turns, paces_of
from emulation.fluid.movers import Allocation
from emulation.fluid.records import Epoch, Results
from emulation.fluid.schedule import SimulatedJob, joined
from emulation.fluid.simulator import Planner, Simulation, simulate
from emulation.packets.engine import PacketResults, run_packets
from emulation.packets.expected import latency_seconds, on_the_wire
from emulation.packets.host_steps import as_hosts_go_on, taken_by_acknowledgements
from emulation.packets.input_file import PacketSpread, write_input
from emulation.packets.live_plan import LivePlan
from emulation.packets.settings import PacketSettings, Recovery
from emulation.policy_names import PACED

SPRAYINGS = (PacketSpread.RANDOM, PacketSpread.ROUND_ROBIN, PacketSpread.ADAPTIVE, PacketSpread.REPS)
"""Ways to spread packets over all live paths, of which the best one is what plans are compared with."""

BINS = 100
"""Bins of link load in the ideal time of the slowest job, where the scenario does not say."""

SPRAY = "spray"
"""The policy of the fluid model that stands for all of them: each flow evenly over its paths."""


@dataclass(frozen=True)
class Contender:
    """What is compared: the plans of a policy, with hosts that keep their paces or do not, or a way to spray.

    Attributes:
        name: in tables.
        policy: of the plans; ``None``: packets are sprayed.
        paced: whether flows keep the paces of the plans, by what the settings of the packet engine say.
        spread: of packets.
    """

    name: str
    policy: NamedPolicy | None
    paced: bool = False
    spread: PacketSpread = PacketSpread.PINNED

    @property
    def sprays(self) -> bool:
        """Whether packets are sprayed."""
        return self.policy is None

    @property
    def rule(self) -> PaceRule:
        """How rates are divided among jobs that share links."""
        return DEFAULT_PACES if self.policy is None else self.policy.options.paces


@dataclass(frozen=True)
class JobTimes:
    """Seconds of one iteration of a job, computation included, mean over its epochs.

    Attributes:
        packets: on packets.
        fluid: in the fluid model.
        expected: on packets, if the fluid model were exact: headers and latency included.
        fluid_ideal, packet_ideal: of both, where all flows divide freely over all paths (the fluid ``spray``).
        best_spraying: on packets, under the best way to spray.
    """

    job: str
    packets: float
    fluid: float
    expected: float
    fluid_ideal: float
    packet_ideal: float
    best_spraying: float = float("nan")

    @classmethod
    def slowest(cls, jobs: Sequence[JobTimes]) -> JobTimes:
        """Return the times of the slowest of some jobs: the largest in each column."""
        columns = (field.name for field in fields(cls) if field.name != "job")
        return cls("slowest", *(max(getattr(job, column) for job in jobs) for column in columns))

    @property
    def deviation(self) -> float:
        """Part by which packets take longer than the fluid model says."""
        return self.packets / self.expected - 1

    def document(self) -> dict[str, Any]:
        """Return the times as plain data."""
        return {
            "job": self.job,
            "packets_seconds": self.packets,
            "packets_over_ideal": self.packets / self.packet_ideal,
            "packets_over_best_spraying": self.packets / self.best_spraying,
            "fluid_seconds": self.fluid,
            "fluid_over_ideal": self.fluid / self.fluid_ideal,
            "deviation_from_fluid": self.deviation,
        }


@dataclass(frozen=True, eq=False)
class Bout:
    """One contender in one case.

    Attributes:
        jobs: times of the jobs.
        paced_rows: flows that hosts were asked to pace.
        bin_seconds: length of the bins of link load.
        results: of the packet engine.
    """

    case: Case
    failure: str
    seed: int
    contender: Contender
    jobs: Sequence[JobTimes]
    paced_rows: int
    bin_seconds: float
    results: PacketResults

    @property
    def slowest(self) -> JobTimes:
        """The times of the slowest job."""
        return JobTimes.slowest(self.jobs)

    @property
    def deviation(self) -> float:
        """The deviation of the slowest job from the fluid model."""
        return self.slowest.deviation

    def document(self) -> dict[str, Any]:
        """Return the bout as plain data."""
        results = self.results
        return {
            "kind": self.case.kind,
            "case": self.case.name,
            "failure": self.failure,
            "seed": self.seed,
            "policy": self.contender.name,
            "jobs": [job.document() for job in (*self.jobs, self.slowest)],
            "paced_flows": self.paced_rows,
            "payload_bytes": int(results.delivered_bytes.sum()),
            "most_waiting_bytes": int(results.link_waiting.max()),
            "packets": int(results.sent.sum()),
            "sent_again": int(results.sent_again.sum()),
            "trimmed": int(results.link_trimmed.sum()),
            "dropped": int(results.link_dropped.sum()),
            "marked": int(results.marked.sum()),
            "timeouts": int(results.timeouts.sum()),
            "events": results.events,
        }


def contenders_of(
    scenario: Scenario, sprayings: Sequence[PacketSpread] = SPRAYINGS, kept: str = PACED
) -> list[Contender]:
    """Return the policies of a scenario that plan paths, without and with paces, and the ways to spray.

    Args:
        scenario: its policies.
        sprayings: ways to spray.
        kept: end of the names of those with paces (``PacketSettings.kept``).

    Raises:
        InputError: a policy makes no plans that hosts could follow.
    """
    made = []
    unpaced: set[tuple[str, Options]] = set()
    for policy in scenario.policies:
        if policy.adaptive is not None:
            raise InputError("the packet engine has no such policy", field="policies", value=policy.name)
        if not POLICIES[policy.policy].enforceable:
            continue
        # Policies that differ in the rule of paces only are the same where hosts keep none.
        same = policy.policy, replace(policy.options, paces=DEFAULT_PACES)
        if same not in unpaced:
            made.append(Contender(policy.name, policy))
        unpaced.add(same)
        made.append(Contender(f"{policy.name}{kept}", policy, paced=True))
    return [*made, *(Contender(f"spray {each.replace('_', ' ')}", None, spread=each) for each in sprayings)]


def check(scenario: Scenario) -> None:
    """Refuse what the packet engine does not simulate.

    Raises:
        InputError: names the field.
    """
    for field, value in (("jitter", scenario.jitter), ("clock_error", scenario.clock_error)):
        if value:
            raise InputError("the packet engine has no such deviation of times", field=field, value=value)
    if "period" in scenario.triggers or any(policy.first or policy.triggers for policy in scenario.policies):
        raise InputError("the packet engine plans at arrivals, failures and ends of jobs only", field="triggers")


def referee(
    scenario: Scenario,
    settings: PacketSettings,
    *,
    sprayings: Sequence[PacketSpread] = SPRAYINGS,
    keep: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[list[Bout]]:
    """Run all contenders in all cases of a scenario; yield the bouts of each case, failure and seed.

    Args:
        scenario: the cases, failures, policies and seeds.
        settings: of the packet engine.
        sprayings: ways to spray.
        keep: folder for the inputs of the packet engine.
        progress: called with the number of finished bouts and of all.

    Raises:
        LabError: the packet engine is not built, or has failed.
        InputError: the packet engine cannot simulate the scenario.
    """
    check(scenario)
    contenders = contenders_of(scenario, sprayings, settings.kept)
    rounds = list(itertools.product(scenario.cases, scenario.failures, scenario.seeds))
    done = 0
    for case, failure, seed in rounds:
        own: list[Bout] = []
        fabric = failure.on(scenario.fabric, seed)
        ring = _Round(scenario, case, failure, seed, fabric, settings)
        for contender in contenders:
            folder = None if keep is None else keep / f"{done:04d}"
            own.append(ring.bout(contender, folder))
            done += 1
            if progress is not None:
                progress(done, len(rounds) * len(contenders))
        yield list(_with_best_spraying(own))


def ideal_times(scenario: Scenario, case: Case, seed: int, settings: PacketSettings) -> list[JobTimes]:
    """Return the ideal times of the jobs of a case without failures; not yet those on packets, which are NaN."""
    made = _Round(scenario, case, InitialFailure(), seed, scenario.fabric, settings)
    rows = zip(case.jobs, made.ideal, made.packet_ideal, strict=True)
    return [JobTimes(job.name, float("nan"), fluid, packets, fluid, packets) for job, fluid, packets in rows]


def _with_best_spraying(bouts: Sequence[Bout]) -> Iterator[Bout]:
    """Yield the bouts of one round with the times of its best spraying: that with the fastest slowest job."""
    sprayed = [bout for bout in bouts if bout.contender.sprays]
    best = min(sprayed, key=lambda bout: bout.slowest.packets) if sprayed else None
    for bout in bouts:
        if best is None:
            yield bout
        else:
            pairs = zip(bout.jobs, best.jobs, strict=True)
            yield replace(bout, jobs=[replace(job, best_spraying=other.packets) for job, other in pairs])


class _Round:
    """One case with one failure and seed, in which all contenders run."""

    def __init__(
        self,
        scenario: Scenario,
        case: Case,
        failure: InitialFailure,
        seed: int,
        fabric: Fabric,
        settings: PacketSettings,
    ) -> None:
        self.scenario, self.case, self.failure, self.seed = scenario, case, failure, seed
        self.fabric, self.settings = fabric, settings
        self.wire = [on_the_wire(job, settings) for job in case.jobs]
        # Jobs begin at once under the ideal, and under sprayings.
        spray = _planner(NamedPolicy(SPRAY, SPRAY, replace(scenario.policies[0].options, shifts="off")), seed)
        self.ideal = self._fluid(case.jobs, spray, Allocation.FLOW)
        wire_ideal = self._fluid(self.wire, spray, Allocation.FLOW)
        self.packet_ideal = self._with_latency(wire_ideal, spray)
        if not settings.bin_seconds and max(self.packet_ideal, default=0.0) > 0:
            self.settings = replace(settings, bin_seconds=max(self.packet_ideal) / BINS)

    def bout(self, contender: Contender, keep: Path | None) -> Bout:
        """Run a contender."""
        jobs, changes = self.case.jobs, self.scenario.changes
        planner = None if contender.policy is None else _planner(contender.policy, self.seed)
        # Headers take time that a schedule must know of, or iterations are always late for it.
        advised = contender.policy is not None and contender.policy.options.shifts == "advise"
        planned = self.wire if advised else jobs
        plan = LivePlan(
            self.fabric,
            planned,
            planner,
            contender.paced,
            contender.spread,
            changes,
            contender.rule,
            at_end="end" in self.scenario.triggers,
        )
        text = write_input(
            self.fabric,
            jobs,
            _without_order(self.settings) if contender.sprays else self.settings,
            spread=contender.spread,
            changes=changes,
            seed=self.seed,
            until=self.scenario.until,
        )
        results = run_packets(text, plan, keep, self.settings.core)
        packets = _iteration_seconds(jobs, results.epochs)
        if planner is None:
            fluid, expected = self.ideal, self.packet_ideal
        else:
            # Flows of jobs that compute have mostly no pace: hosts are as they are.
            paced = contender.paced and (plan.paced_rows > 0 or not any(job.compute_seconds for job in jobs))
            allocation = Allocation.PLANNED if paced else Allocation.HOSTS
            fluid = self._fluid(jobs, planner, allocation, contender.rule)
            expected = self._with_packets(planned, planner, allocation, contender.rule)
        times = [
            JobTimes(job.name, *columns)
            for job, *columns in zip(jobs, packets, fluid, expected, self.ideal, self.packet_ideal, strict=True)
        ]
        return Bout(
            self.case,
            self.failure.name,
            self.seed,
            contender,
            times,
            plan.paced_rows,
            self.settings.bin_seconds,
            results,
        )

    def _fluid(
        self,
        jobs: Sequence[SimulatedJob],
        planner: Planner,
        allocation: Allocation,
        rule: PaceRule = DEFAULT_PACES,
        **what: Any,
    ) -> list[float]:
        results: Results = simulate(
            Simulation(
                self.fabric,
                jobs,
                planner,
                allocation=allocation,
                sharing=DCTCP,
                triggers=self.scenario.triggers,
                changes=self.scenario.changes,
                until=self.scenario.until,
                seed=self.seed,
                paces=rule,
                **what,
            )
        )
        return _iteration_seconds(jobs, results.epochs)

    def _with_latency(self, seconds: Sequence[float], planner: Planner) -> list[float]:
        """Return the seconds of jobs with the latency that packets have on the paths of the first plan."""
        rows = self._of_jobs(self.wire, planner(self.fabric, joined(self.wire)[0], None).assignment)
        return [
            took + latency_seconds(self.fabric, job, self.settings, plan)
            for job, took, (plan, _) in zip(self.wire, seconds, rows, strict=True)
        ]

    def _with_packets(
        self, jobs: Sequence[SimulatedJob], planner: Planner, allocation: Allocation, rule: PaceRule
    ) -> list[float]:
        """Return the seconds of jobs with all that packets take on the paths, and at the paces, of the first plan.

        Args:
            jobs: as they are planned.
            planner: of the paths.
            allocation: whether hosts keep paces.
            rule: how rates are divided among jobs that share links.
        """
        traffic = joined(jobs)[0]
        plan = planner(self.fabric, traffic, None)
        flows, varying = np.arange(traffic.n_flows, dtype=np.int64), in_turns(jobs)
        classed = traffic.with_classes(plan.classes)
        limit = np.full(plan.assignment.n_rows, np.inf)
        if allocation is Allocation.PLANNED:
            limit = paces_of(self.fabric, classed, plan.assignment, flows, plan.schedule, varying, rule)
        rows = list(self._of_jobs(jobs, plan.assignment))
        stepwise = [
            as_hosts_go_on(self.fabric, job, self.settings, part, limit[own])
            for job, (part, own) in zip(self.case.jobs, rows, strict=True)
        ]
        taken = taken_by_acknowledgements(self.fabric, self.case.jobs, self.settings, [part for part, _ in rows])
        return self._fluid(stepwise, planner, allocation, rule, varying=varying, taken=taken)

    @staticmethod
    def _of_jobs(jobs: Sequence[SimulatedJob], rows: Assignment) -> Iterator[tuple[Assignment, BoolArray]]:
        """Yield the rows of each job, by the numbers of its own flows, and which they are."""
        first = np.cumsum([0, *(job.traffic.n_flows for job in jobs)])
        for begin, end in itertools.pairwise(first):
            own = (rows.flow >= begin) & (rows.flow < end)
            yield Assignment((rows.flow[own] - begin).astype(np.int32), rows.path[own], rows.share[own]), own


def _without_order(settings: PacketSettings) -> PacketSettings:
    """Return the settings with receivers that take packets in any order, which sprayed packets need."""
    if settings.recovery is not Recovery.GO_BACK_N:
        return settings
    return replace(settings, recovery=Recovery.SELECTIVE)


def _planner(policy: NamedPolicy, seed: int) -> Planner:
    def plan(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        return assign(policy.policy, fabric, traffic, seed=seed, previous=previous, options=policy.options)

    return plan


def _iteration_seconds(jobs: Sequence[SimulatedJob], epochs: Sequence[Epoch]) -> list[float]:
    """Return the mean time of an iteration of each job, computation included; NaN for a job that did not end.

    A job may wait for the begin of its first iteration; that is no part of it.
    """
    ended = {job.name: [epoch.ended for epoch in epochs if epoch.job == job.name] for job in jobs}
    began = {job.name: [epoch.began for epoch in epochs if epoch.job == job.name] for job in jobs}
    return [
        (max(ended[job.name]) - min(began[job.name]) + job.compute_seconds) / job.epochs
        if len(ended[job.name]) == job.epochs
        else float("nan")
        for job in jobs
    ]
