"""Results of a simulation: epochs, runs of groups, flows, plans, and the traffic of the links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.traffic import Int64Array, Traffic
from emulation.fluid.schedule import JobSchedule
from emulation.fluid.state import Movers, State


@dataclass(frozen=True)
class Planning:
    """One call of the planner.

    Attributes:
        at: seconds of the simulation.
        cause: the trigger.
        seconds: real seconds that it took.
        flows: flows that were planned.
        moved: flows that had a live path and got another.
        moved_sending: those among them that sent at that time, whose packets may be reordered.
    """

    at: float
    cause: str
    seconds: float
    flows: int
    moved: int
    moved_sending: int = 0


@dataclass(frozen=True)
class Epoch:
    """The communication of one epoch of a job, in seconds of the simulation.

    Attributes:
        before: time between the end of the previous epoch and ``began``: computing, and waiting for the begin of the
            iteration where its period is held. Of the first epoch: computing.
    """

    job: str
    number: int
    began: float
    ended: float
    before: float = 0.0

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return self.ended - self.began


@dataclass(frozen=True, eq=False)
class Runs:
    """N runs of groups: a ring's step, an all-to-all. ``collective`` [N] indexes the traffic's."""

    group: IntArray
    collective: IntArray
    epoch: IntArray
    run: Int64Array
    began: FloatArray
    ended: FloatArray


@dataclass(frozen=True, eq=False)
class FlowTimes:
    """N pieces of transfers that came through. ``owner`` [N]: the transfer, or the group where groups move as one."""

    owner: IntArray
    group: IntArray
    epoch: IntArray
    run: Int64Array
    began: FloatArray
    ended: FloatArray


@dataclass(frozen=True, eq=False)
class Results:
    """All results of a simulation.

    Attributes:
        came, went: seconds of arrival and departure by job; a job that did not end has no entry in ``went``.
        bin_end: [B] seconds, the last bin may be short; ``gbit`` [B, E]: what each link carried in each bin.
        carried: [E] Gbit that each link carried in all.
        ended: time of the end of the simulation in seconds.
        stalled: whether some job waited for a path until the end.
    """

    fabric: Fabric
    traffic: Traffic
    schedule: JobSchedule
    epochs: tuple[Epoch, ...]
    runs: Runs
    flows: FlowTimes
    plannings: tuple[Planning, ...]
    came: dict[str, float]
    went: dict[str, float]
    bin_end: FloatArray
    gbit: FloatArray
    carried: FloatArray
    ended: float
    stalled: bool


@dataclass(eq=False)
class Recorder:
    """Collects while the simulation runs."""

    fabric: Fabric
    traffic: Traffic
    schedule: JobSchedule
    names: Sequence[str]
    epochs: list[Epoch] = field(default_factory=list)
    plannings: list[Planning] = field(default_factory=list)
    came: dict[str, float] = field(default_factory=dict)
    went: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Create the empty logs."""
        self._runs: list[tuple[Any, ...]] = []
        self._flows: list[tuple[Any, ...]] = []
        self._bins: list[tuple[float, FloatArray]] = []
        self._carried = np.zeros(self.fabric.n_links + 1)

    def job_came(self, job: int, now: float) -> None:
        """Record the arrival of a job."""
        self.came[self.names[job]] = now

    def job_went(self, job: int, now: float) -> None:
        """Record the departure of a job."""
        self.went[self.names[job]] = now

    def epoch_ended(self, job: int, number: int, began: float, ended: float, before: float) -> None:
        """Record an epoch of a job."""
        self.epochs.append(Epoch(self.names[job], number, began, ended, before))

    def transfers_begun(self) -> FloatArray:
        """Return the seconds at which the transfers that have ended began, ascending."""
        return np.sort(np.concatenate([np.zeros(0), *(block[4] for block in self._flows)]))

    def planned(self, planning: Planning) -> None:
        """Record a call of the planner."""
        self.plannings.append(planning)

    def bin_ended(self, now: float, gbit: FloatArray) -> None:
        """``gbit`` [E+1]: carried since the beginning."""
        self._bins.append((now, (gbit - self._carried)[:-1]))
        self._carried = gbit.copy()

    def last_bin_ended(self, now: float, gbit: FloatArray) -> None:
        """Record the incomplete bin after the last whole one."""
        if now > (self._bins[-1][0] if self._bins else 0.0):
            self.bin_ended(now, gbit)

    def fetch(self, state: State, movers: Movers, group_job: IntArray, epoch: Sequence[int]) -> None:
        """Take the engine's logs, and empty them; all entries are of the epochs that the jobs [J] are in."""
        now_in = np.asarray(epoch, dtype=np.int32)
        n = int(state.n_ended[0])
        if n:
            group = state.ended_group[:n].copy()
            self._runs.append(
                (
                    group,
                    now_in[group_job[group]],
                    state.ended_run[:n].copy(),
                    state.group_began[:n].copy(),
                    state.group_ended[:n].copy(),
                )
            )
            state.n_ended[0] = 0
        n = int(state.n_done[0])
        if n:
            mover = state.done_mover[:n]
            group = movers.group[mover]
            self._flows.append(
                (
                    movers.owner[mover],
                    group,
                    now_in[group_job[group]],
                    state.done_run[:n].copy(),
                    state.mover_began[:n].copy(),
                    state.mover_ended[:n].copy(),
                )
            )
            state.n_done[0] = 0

    def results(self, now: float, gbit: FloatArray, *, stalled: bool) -> Results:
        """All of it; ``gbit`` as for ``bin_ended``."""
        group, epoch, run, began, ended = _columns(self._runs, 5)
        return Results(
            fabric=self.fabric,
            traffic=self.traffic,
            schedule=self.schedule,
            epochs=tuple(self.epochs),
            runs=Runs(group, self.schedule.collective[group], epoch, run, began, ended),
            flows=FlowTimes(*_columns(self._flows, 6)),
            plannings=tuple(self.plannings),
            came=self.came,
            went=self.went,
            bin_end=np.array([at for at, _ in self._bins]),
            gbit=np.array([gbit for _, gbit in self._bins]).reshape(-1, self.fabric.n_links),
            carried=gbit[:-1].copy(),
            ended=now,
            stalled=stalled,
        )


def _columns(blocks: list[tuple[Any, ...]], n: int) -> tuple[Any, ...]:
    """Concatenate the columns of all blocks: integer columns first, then two of seconds."""
    if blocks:
        return tuple(np.concatenate(column) for column in zip(*blocks, strict=True))
    return tuple(np.zeros(0, dtype=np.float64 if at >= n - 2 else np.int32) for at in range(n))
