"""The simulation: jobs arrive, compute, communicate and end; links fail and recover; a policy plans at some events."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric, FloatArray
from controller.model.priority import JobClass, shares
from controller.model.timing import IterationGrid, Schedule
from controller.model.traffic import Int64Array, Traffic
from controller.routing import PreviousPlan, Result
from controller.routing.base import DEFAULT_PACES, PaceRule
from emulation.fluid import engine
from emulation.fluid.adaptive import Adaptive, Choice, choice_of, first_paths
from emulation.fluid.carry import carry_over
from emulation.fluid.host_rates import (
    NSCC,
    HostConnections,
    HostSharing,
    in_classes,
    in_turns,
    limited,
    paces_of,
    rates_alone,
    shared_rows,
    windows_of,
)
from emulation.fluid.movers import Allocation, Transfers, movers_of, pieces_of, seconds_alone
from emulation.fluid.receipts import receipts_of
from emulation.fluid.records import Planning, Recorder, Results
from emulation.fluid.replanning import (
    PlannedFlows,
    in_hash_order,
    is_same,
    merged,
    moved_flows,
    part_of,
    sending_since,
    unrouted,
    without_path,
)
from emulation.fluid.schedule import SimulatedJob, joined, program_of
from emulation.fluid.state import Movers, Program, State, initial_state, no_receipts, no_windows

Trigger = Literal["arrival", "end", "epoch", "epoch_end", "failure", "period"]
"""An event at which the planner is called; ``epoch`` and ``epoch_end``: begin and end of an epoch's communication."""

ARRIVAL, COMPUTED, LINKS, TICK, BIN = range(5)


class Planner(Protocol):
    """Function that plans the paths, and when iterations begin: a policy with its options and seed."""

    def __call__(self, fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result: ...


@dataclass(frozen=True)
class LinkChange:
    """At ``at`` seconds, these switches and links (names as in a fabric file) fail or come back."""

    at: float
    names: tuple[str, ...]
    up: bool = False


@dataclass(frozen=True)
class Simulation:
    """The input of a simulation.

    Attributes:
        planner: has no state: it is not called where it would be asked the same as the last time.
        triggers: events at which the planner is called; the first arrival is always one.
        planned: flows that a plan is made for. With ``sending``, the others keep their paths, ``epoch`` has to be among
            the triggers, and a plan because of a failure is made for all flows nevertheless.
        first: plans the flows that have no live path, at arrivals and failures, in place of ``planner``, which then
            plans at each ``period`` alone: flows keep their first paths until they send at such a time.
        period: seconds between two calls if ``period`` is among the triggers.
        until: time in seconds at which the simulation stops.
        bins: length in seconds of the bins of link utilisation; 0: it is not recorded.
        adaptive: transfers choose their paths themselves, and the planner is not called.
        jitter: standard deviation of the computing time before each epoch, as a part of it (normal, at least 0).
        clock_error: standard deviation of each job's clock in seconds (normal, constant): its grid is shifted by it.
        seed: the seed of the jitter, of the clocks, and of windows.
        sharing: how unevenly hosts share links, with the allocation ``hosts``.
        paces: how rates are divided among jobs that share links, with the allocation ``planned``.
        varying: jobs of which it is not known when they send, for paces; ``None``: as their schedules say.
        taken: [E] part of each link that flows do not have, unknown to the planner; ``None``: nothing.
    """

    fabric: Fabric
    jobs: Sequence[SimulatedJob]
    planner: Planner
    allocation: Allocation = Allocation.FLOW
    triggers: frozenset[Trigger] = frozenset({"arrival", "epoch", "failure"})
    planned: PlannedFlows = "present"
    first: Planner | None = None
    period: float = 0.0
    changes: Sequence[LinkChange] = ()
    until: float = float("inf")
    bins: float = 0.0
    adaptive: Adaptive | None = None
    jitter: float = 0.0
    clock_error: float = 0.0
    seed: int = 0
    sharing: HostSharing = NSCC
    paces: PaceRule = DEFAULT_PACES
    varying: frozenset[str] | None = None
    taken: FloatArray | None = None
    clock: Callable[[], float] = time.perf_counter


@dataclass(frozen=True, eq=False)
class Question:
    """What a planner is asked: paths of these flows on a fabric, after the previous plan."""

    fabric: Fabric
    flows: Int64Array
    previous: PreviousPlan | None

    def is_same(self, other: Question | None) -> bool:
        """Return whether both ask for the same, so that a planner, which has no state, gives the same answer."""
        return (
            other is not None
            and self.fabric is other.fabric
            and self.previous is other.previous
            and np.array_equal(self.flows, other.flows)
        )


def simulate(simulation: Simulation) -> Results:
    """Run a simulation and return its results.

    The flows of all present jobs are planned together, with the last plan as ``previous``; flows under way continue on
    their new paths with their remaining bytes.

    Raises:
        KeyError: a link change names a part that the fabric does not have.
    """
    return _Run(simulation).run()


@dataclass(eq=False)
class _Run:
    """One simulation under way."""

    what: Simulation
    fabric: Fabric = field(init=False)
    traffic: Traffic = field(init=False)
    program: Program = field(init=False)
    transfers: Transfers = field(init=False)
    movers: Movers = field(init=False)
    state: State = field(init=False)
    assignment: Assignment = field(init=False)

    def __post_init__(self) -> None:
        if self._by_windows:
            # What windows do is chaotic, and the order of jobs, which decides about rounding, must not matter.
            self.what = replace(self.what, jobs=sorted(self.what.jobs, key=lambda job: job.name))
        self.fabric = self.what.fabric
        self.traffic, schedule, first_group = joined(self.what.jobs)
        # Policies choose classes for jobs that state none: they are asked with what jobs state.
        self.stated = self.traffic
        self.classes: tuple[JobClass, ...] = ()
        self.program = program_of(schedule, first_group)
        self.transfers = Transfers(schedule.group, schedule.flow, schedule.bytes, schedule.n_groups)
        self.assignment = unrouted(self.traffic.n_flows)
        if self.what.adaptive is not None:
            self.assignment = first_paths(self.fabric, self.traffic)
        self.present: list[int] = []
        self.schedule: Schedule | None = None
        self.varying = in_turns(self.what.jobs) if self.what.varying is None else self.what.varying
        self.own_limit = self._limits(self.assignment)
        self.connections = self._connections()
        self.movers = self._movers()
        self.state = self._initial_state(0.0)
        self.previous: PreviousPlan | None = None
        self.asked: Question | None = None
        self.answered = False
        self.failed: dict[str, None] = {}
        self.epoch = [0] * len(self.what.jobs)
        self.epoch_began = [0.0] * len(self.what.jobs)
        self.before = [0.0] * len(self.what.jobs)
        self.followed: list[IterationGrid | None] = [None] * len(self.what.jobs)
        self.random = np.random.default_rng(self.what.seed)
        clocks = np.random.default_rng([self.what.seed, 1])
        self.clock: FloatArray = self.what.clock_error * clocks.standard_normal(len(self.what.jobs))
        self.recorder = Recorder(self.fabric, self.traffic, schedule, [job.name for job in self.what.jobs])
        self.agenda: list[tuple[float, int, int, object]] = []
        self.number = itertools.count()

    def run(self) -> Results:
        for j, job in enumerate(self.what.jobs):
            self._note(job.start, ARRIVAL, j)
        for change in self.what.changes:
            self._note(change.at, LINKS, change)
        if self.what.adaptive is None and "period" in self.what.triggers and self.what.period > 0:
            self._note(self.what.period, TICK, None)
        if self.what.bins > 0:
            self._note(self.what.bins, BIN, None)
        left = len(self.what.jobs)
        while left and self._now < self.what.until:
            if (self.state.groups_left == 0).any():  # an epoch without anything that takes time
                self._fetch()
                left -= self._epochs_ended()
                continue
            ahead = min(self.agenda[0][0] if self.agenda else np.inf, self.what.until)
            if self.state.events.size[0] == 0 and self._nothing_will_change():
                break  # whoever is left waits for a path that never comes
            reached = engine.run(self.program, self.movers, self.state, ahead)
            self._fetch()
            left -= self._epochs_ended()
            if reached and left:
                self._happen(ahead)
        engine.settle_all(self.movers, self.state)
        if self.what.bins > 0:
            self.recorder.last_bin_ended(self._now, self._gbit)
        return self.recorder.results(self._now, self._gbit, stalled=left > 0 and self._now < self.what.until)

    def _nothing_will_change(self) -> bool:
        """Return whether the only future events are recordings of links and repeated calls of the planner."""
        ahead = {kind for _, kind, _, _ in self.agenda}
        return ahead <= {BIN} or (ahead <= {BIN, TICK} and self.answered)

    @property
    def _now(self) -> float:
        return float(self.state.now[0])

    @property
    def _gbit(self) -> FloatArray:
        """[E+1] what each link has carried, without those of single movers."""
        return self.state.gbit[: self.fabric.n_links + 1]

    def _note(self, at: float, kind: int, what: object) -> None:
        heapq.heappush(self.agenda, (at, kind, next(self.number), what))

    # -- what happens ---------------------------------------------------------------------------------------------

    def _happen(self, now: float) -> None:
        """Everything that is on the agenda for this moment; then at most one question to the planner."""
        asked: list[str] = []
        arrived: list[int] = []
        launched: list[int] = []
        while self.agenda and self.agenda[0][0] <= now:
            _, kind, _, what = heapq.heappop(self.agenda)
            self.answered = self.answered and kind in (TICK, BIN)
            if kind == ARRIVAL and isinstance(what, int):
                self.present.append(what)
                self.recorder.job_came(what, now)
                asked.append("arrival")
                arrived.append(what)
            elif kind == COMPUTED and isinstance(what, int):
                launched.append(what)
                asked.append("epoch")
            elif kind == LINKS and isinstance(what, LinkChange):
                self._change_links(what)
                asked.append("failure")
            elif kind == TICK:
                asked.append("period")
                self._note(now + self.what.period, TICK, None)
            elif kind == BIN:
                engine.settle_all(self.movers, self.state)
                self.recorder.bin_ended(now, self._gbit)
                self._note(now + self.what.bins, BIN, None)
        answered = self._ask_if_due(asked, launched)
        for j in arrived:
            self._compute(j)
        at_once: list[int] = []
        while self.agenda and self.agenda[0][0] <= now:  # jobs that arrived and need not compute
            _, _, _, what = heapq.heappop(self.agenda)
            if isinstance(what, int):
                at_once.append(what)
        if at_once and not (answered and self.what.planned == "present"):
            self._ask_if_due(["epoch"], at_once)
        for j in launched + at_once:
            self.epoch_began[j] = now
            engine.launch(self.program, self.movers, self.state, j)

    def _ask_if_due(self, causes: list[str], launched: Sequence[int] = ()) -> bool:
        """Plan if one of the causes is a trigger, or nothing was planned yet; return whether it was done.

        ``launched``: jobs whose communication begins now.
        """
        due = [cause for cause in causes if cause in self.what.triggers or self.previous is None]
        if not due or not self.present or self.what.adaptive is not None:
            return False
        if self.what.first is not None and "period" in due and len(due) > 1:
            # A job that arrives just then needs its first paths, too.
            self._ask([cause for cause in due if cause != "period"], launched)
            due = ["period"]
        self._ask(due, launched)
        return True

    def _compute(self, j: int) -> None:
        """Begin an iteration of a job when its schedule says so, at once if it has none."""
        begin = self._iteration_begin(j)
        seconds = self.what.jobs[j].compute_seconds
        if self.what.jitter:
            seconds *= max(0.0, 1.0 + self.what.jitter * self.random.standard_normal())
        self.before[j] = seconds + (begin - self._now if self.epoch[j] else 0.0)
        self._note(begin + seconds, COMPUTED, j)

    def _iteration_begin(self, j: int) -> float:
        """Return the time at which the next iteration of a job begins (``IterationGrid``)."""
        shift = None if self.schedule is None else self.schedule.shift_of(self.what.jobs[j].name)
        if shift is None:
            return self._now
        grid, followed, error = shift.grid, self.followed[j], float(self.clock[j])
        self.followed[j] = grid
        if grid != followed:
            return max(self._now, grid.first(self._now) + error)
        # Its own clock reads this much less.
        return max(self._now, grid.after(self._now - error) + error) if grid.hold else self._now

    def _epochs_ended(self) -> int:
        """Jobs whose epoch has ended compute again, or go; how many went."""
        gone = 0
        ended = np.flatnonzero(self.state.groups_left == 0).tolist()
        for j in ended:
            self.state.groups_left[j] = -1
            self.recorder.epoch_ended(j, self.epoch[j], self.epoch_began[j], self._now, self.before[j])
            self.epoch[j] += 1
            if self.epoch[j] < self.what.jobs[j].epochs:
                self._compute(j)
            else:
                self.present.remove(j)
                self.recorder.job_went(j, self._now)
                gone += 1
        if gone:
            self._adopt(self.assignment)
        causes = [*(["epoch_end"] if ended else []), *(["end"] if gone else [])]
        if self.what.triggers.intersection(causes):
            self._ask_if_due(causes)
        return gone

    def _change_links(self, change: LinkChange) -> None:
        for name in change.names:
            self.what.fabric.without_links([name])  # raises for a name that is not there
            if change.up:
                self.failed.pop(name, None)
            else:
                self.failed[name] = None
        self.fabric = self.what.fabric.without_links(list(self.failed))
        engine.set_capacity(self.movers, self.state, self._capacity())
        if self.what.adaptive is not None:
            engine.rechoose(self.movers, self.state, self.fabric.live_ways)

    def _fetch(self) -> None:
        self.recorder.fetch(self.state, self.movers, self.program.job, self.epoch)

    # -- plans ----------------------------------------------------------------------------------------------------

    def _ask(self, causes: list[str], launched: Sequence[int]) -> None:
        """Plan on the fabric in its present state."""
        since = sending_since(self.transfers, self.movers, self.state, self.what.allocation, self.traffic.n_flows)
        first = None if "period" in causes else self.what.first
        whole = first is None and (self.what.planned == "present" or "failure" in causes)
        flows = self._flows_of(self.present) if whole or first is not None else self._sending(since, launched)
        if first is not None:
            flows = without_path(self.previous, self.fabric, self.traffic, flows)
        self.answered = True
        if not len(flows) and not whole:
            return
        last, question = self.asked, Question(self.fabric, flows, self.previous)
        if question.is_same(last):
            return
        self.asked = question
        traffic = part_of(self.stated, flows)
        began = self.what.clock()
        made = (first or self.what.planner)(self.fabric, traffic, self.previous)
        seconds = self.what.clock() - began
        moved = moved_flows(self.previous, self.fabric, traffic, made.assignment)
        self.recorder.planned(
            Planning(
                self._now,
                causes[0],
                seconds,
                traffic.n_flows,
                int(moved.sum()),
                int((moved & ~np.isnan(since[flows])).sum()),
            )
        )
        assignment = merged(unrouted(self.traffic.n_flows) if whole else self.assignment, made.assignment, flows)
        is_kept = last is not None and last.fabric is self.fabric and is_same(assignment, self.assignment)
        if not is_kept or (made.schedule, made.classes) != (self.schedule, self.classes):
            self.previous = PreviousPlan.of(self.fabric, self.traffic, assignment, made.schedule, made.classes)
        self.schedule = made.schedule
        reclassified = made.classes != self.classes
        if reclassified:
            self.classes, self.traffic = made.classes, self.stated.with_classes(made.classes)
        self._adopt(assignment, reclassified=reclassified)

    def _sending(self, since: FloatArray, launched: Sequence[int]) -> Int64Array:
        """Return the flows that send (``since`` [F] when they began, else NaN) and those of jobs that begin now."""
        begun = since.copy()
        begun[self._flows_of(launched)] = self._now
        flows = np.flatnonzero(~np.isnan(begun))
        return in_hash_order(flows, begun[flows], self.recorder.transfers_begun())

    def _flows_of(self, jobs: Sequence[int]) -> Int64Array:
        """Return the flows of these jobs, ascending."""
        number = {name: k for k, name in enumerate(self.traffic.jobs)}
        traffics = [self.what.jobs[j].traffic for j in jobs]
        numbers = [number[traffic.jobs[0]] for traffic in traffics if traffic.jobs]
        return np.flatnonzero(np.isin(self.traffic.job_index[self.traffic.collective], numbers))

    def _adopt(self, assignment: Assignment, *, reclassified: bool = False) -> None:
        """Move the remaining traffic to these paths, and let hosts keep other rates if these or classes change."""
        limit = self._limits(assignment)
        same = is_same(assignment, self.assignment) and np.array_equal(limit, self.own_limit)
        if same and not reclassified:
            return
        if not is_same(assignment, self.assignment):
            self.assignment = assignment
            self.connections = self._connections().after(self.connections)
        self.own_limit = limit
        engine.settle_all(self.movers, self.state)
        before, state = self.movers, self.state
        now = self._now
        self.movers = self._movers()
        self.state = self._initial_state(now)
        if self._by_windows:
            state.left[:] *= before.load
        moving = carry_over(before, state, self.movers, self.state)
        if self._by_windows:
            self.state.left[:] /= self.movers.load
        engine.resume(self.movers, self.state, moving)

    @property
    def _by_windows(self) -> bool:
        """Whether hosts keep no pace, and connections have windows."""
        return self.what.allocation is Allocation.HOSTS and self.what.adaptive is None

    def _initial_state(self, now: float) -> State:
        """Return the state of the present movers at rest."""
        windows, receipts = no_windows(), no_receipts()
        if self._by_windows:
            shared = self.own_limit < np.inf
            windows = windows_of(
                self.fabric, self.movers, self.limited_row, shared, self.connections, self.what.sharing
            )
            flow = self.transfers.flow
            ends = self.traffic.src[flow], self.traffic.dst[flow]
            receipts = receipts_of(self.program, self.transfers, self.movers, *ends)
        self.windows = windows
        return initial_state(self.program, self.movers, self._capacity(), now, self._choice(), windows, receipts)

    def _connections(self) -> HostConnections:
        """Return new connections for the rows of the assignment, none where hosts have no windows."""
        flow = self.assignment.flow if self._by_windows else self.assignment.flow[:0]
        return HostConnections.of(self.fabric, self.traffic, flow, self.what.sharing, self.what.seed)

    def _movers(self) -> Movers:
        pieces = pieces_of(self.fabric, self.traffic, self.assignment, self.transfers)
        alone = np.ones(self.transfers.n_groups)
        if self.what.allocation is Allocation.COLLECTIVE:
            alone = seconds_alone(self.what.fabric, self.traffic, self.transfers)
        movers = movers_of(self.transfers, pieces, self.what.allocation, alone)
        movers = in_classes(movers, self._shares(movers))
        if not len(self.own_limit):
            return movers
        self.limited_row = pieces.row
        if self._by_windows:
            # Of Gbit, since the units of rates change with windows.
            movers = movers._replace(amount=movers.amount * movers.load)
        return limited(movers, self.fabric.n_links + 1)

    def _shares(self, movers: Movers) -> FloatArray:
        """Return the proportions [M] of the rates of movers by their classes of priority; empty where all are equal."""
        priority = self.traffic.priority[self.traffic.collective[self.transfers.flow]]
        if not priority.any():
            return np.zeros(0)
        if self.what.allocation is Allocation.COLLECTIVE:
            # All transfers of a group are of one collective.
            return shares(priority[np.searchsorted(self.transfers.group, movers.owner)])
        return shares(priority[movers.owner])

    def _limits(self, assignment: Assignment) -> FloatArray:
        """Return the limits [R] of the rows of an assignment, empty where hosts share links ideally."""
        if self.what.adaptive is not None:
            return np.zeros(0)
        of = (self.fabric, self.traffic, assignment, self._flows_of(self.present))
        if self.what.allocation is Allocation.PLANNED:
            return paces_of(*of, self.schedule, self.varying, self.what.paces)
        if self.what.allocation is Allocation.HOSTS:
            return np.where(shared_rows(*of), 0.0, np.inf)
        return np.zeros(0)

    def _choice(self) -> Choice | None:
        if self.what.adaptive is None:
            return None
        # One row a transfer: no flow is split, so pieces are transfers.
        return choice_of(self.fabric, self.traffic, self.transfers.flow, self.what.adaptive)

    def _capacity(self) -> FloatArray:
        """Return the capacities [E+1] in Gbit/s: 0 for links that are down, and for the extra link of missing paths."""
        whole = self.fabric.link_gbps if self.what.taken is None else self.fabric.link_gbps * (1.0 - self.what.taken)
        gbps = np.append(np.where(self.fabric.link_up, whole, 0.0), 0.0)
        if not len(self.own_limit):
            return gbps
        limit = self.own_limit[self.limited_row]
        return np.append(gbps, rates_alone(self.windows, limit) if self._by_windows else limit)
