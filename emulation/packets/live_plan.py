"""Answers to the packet engine: the paths, paces and classes of the plans for the jobs that are present."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from controller.model.assignment import LOCAL, UNROUTABLE, Assignment
from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.timing import IterationGrid, Schedule
from controller.model.tolerances import ROUNDING
from controller.model.traffic import Traffic
from controller.routing import PreviousPlan
from controller.routing.base import DEFAULT_PACES, PaceRule
from emulation.fluid.host_rates import in_turns, paces_of
from emulation.fluid.replanning import merged, part_of, unrouted
from emulation.fluid.schedule import SimulatedJob, joined
from emulation.fluid.simulator import LinkChange, Planner
from emulation.packets.input_file import PacketSpread
from emulation.packets.settings import BITS


@dataclass(frozen=True)
class SentRow:
    """A connection of a flow: its part of the bytes, the links of each of its paths, and its pace (0: none)."""

    share: float
    paths: tuple[tuple[int, ...], ...]
    pace_bps: float


@dataclass(eq=False)
class LivePlan:
    """Plans when jobs come and when links change, as the fluid simulator does; paces are new when jobs end, too.

    Attributes:
        fabric: at the start.
        jobs: of the simulation.
        planner: of the paths; ``None``: packets are spread over all live paths.
        paced: whether hosts keep the paces of the plan.
        spread: of packets, where there is no planner.
        changes: of links.
        rule: how rates are divided among jobs that share links.
        at_end: plan when a job ends, too, as the controller does.
    """

    fabric: Fabric
    jobs: Sequence[SimulatedJob]
    planner: Planner | None
    paced: bool = False
    spread: PacketSpread = PacketSpread.PINNED
    changes: Sequence[LinkChange] = ()
    rule: PaceRule = DEFAULT_PACES
    at_end: bool = False
    plans: int = field(default=0, init=False)
    paced_rows: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Begin without any path."""
        self.traffic: Traffic = joined(self.jobs)[0]
        self._assignment: Assignment = unrouted(self.traffic.n_flows)
        self._previous: PreviousPlan | None = None
        self._sent: dict[tuple[int, int], SentRow] = {}
        self._grids: dict[int, IterationGrid] = {}
        # Policies choose classes for jobs that state none: they are asked with what jobs state.
        self._stated = self.traffic
        self._classes: IntArray = self.traffic.priority[self.traffic.collective]
        self._varying = in_turns(self.jobs)
        first = np.cumsum([0, *(job.traffic.n_flows for job in self.jobs)])
        self._flows = [np.arange(a, b, dtype=np.int64) for a, b in itertools.pairwise(first)]

    def answer(self, cause: str, seconds: float, present: Sequence[int]) -> list[str]:
        """Return the lines that change rows, paces, classes and begins of iterations (docs/reference/referee.md).

        Args:
            cause: ``arrival``, ``end`` or ``links``.
            seconds: of the simulation.
            present: numbers of the jobs that are present.
        """
        fabric = self._fabric_at(seconds)
        if self.planner is None:
            return self._changed(self._all_paths(fabric, present) if cause != "end" else {})
        flows = np.concatenate([self._flows[j] for j in present]) if present else np.zeros(0, dtype=np.int64)
        schedule = None
        if (cause != "end" or self.at_end) and len(flows):
            made = self.planner(fabric, part_of(self._stated, flows), self._previous)
            self.plans += 1
            schedule = made.schedule
            self.traffic = self._stated.with_classes(made.classes)
            self._assignment = merged(unrouted(self.traffic.n_flows), made.assignment, flows)
            self._previous = PreviousPlan.of(fabric, self.traffic, self._assignment, schedule, made.classes)
        elif self._previous is not None:
            schedule = self._previous.schedule
        limit = np.full(self._assignment.n_rows, np.inf)
        if self.paced and len(flows):
            limit = paces_of(fabric, self.traffic, self._assignment, flows, schedule, self._varying, self.rule)
            self.paced_rows = max(self.paced_rows, int(np.isfinite(limit).sum()))
        return [
            *self._changed_classes(),
            *self._changed(self._planned_rows(limit, set(flows.tolist()))),
            *self._changed_grids(schedule, present),
        ]

    def _fabric_at(self, seconds: float) -> Fabric:
        failed: dict[str, None] = {}
        for change in sorted(self.changes, key=lambda each: each.at):
            if change.at > seconds * (1 + ROUNDING):
                break
            for name in change.names:
                if change.up:
                    failed.pop(name, None)
                else:
                    failed[name] = None
        return self.fabric.without_links(list(failed)) if failed else self.fabric

    def _planned_rows(self, limit: FloatArray, present: set[int]) -> dict[tuple[int, int], SentRow]:
        rows = {}
        plan = self._assignment
        last, number = -1, 0
        columns = zip(plan.flow.tolist(), plan.path.tolist(), plan.share.tolist(), limit.tolist(), strict=True)
        for flow, path, share, gbps in columns:
            last, number = flow, number + 1 if flow == last else 0
            if path == UNROUTABLE or flow not in present:
                continue
            links = self.fabric.flow_links(int(self.traffic.src[flow]), int(self.traffic.dst[flow]), path)
            rows[flow, number] = SentRow(share, (links,), 0.0 if np.isinf(gbps) else gbps * BITS)
        return rows

    def _all_paths(self, fabric: Fabric, present: Sequence[int]) -> dict[tuple[int, int], SentRow]:
        rows = {}
        for flow in (flow for j in present for flow in self._flows[j].tolist()):
            src, dst = int(self.traffic.src[flow]), int(self.traffic.dst[flow])
            a, b = int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])
            paths = [LOCAL] if a == b else fabric.live_paths(a, b).tolist()
            if not paths:
                continue
            rows[flow, 0] = SentRow(1.0, tuple(fabric.flow_links(src, dst, path) for path in paths), 0.0)
        return rows

    def _changed_classes(self) -> Iterator[str]:
        """Yield a line for each flow whose class of priority is another one than before."""
        now = self.traffic.priority[self.traffic.collective]
        for flow in np.flatnonzero(now != self._classes).tolist():
            yield f"class {flow} {int(now[flow])}"
        self._classes = now

    def _changed_grids(self, schedule: Schedule | None, present: Sequence[int]) -> Iterator[str]:
        """Yield a line for each job whose iterations begin by another grid than before; as they come without one."""
        for j in present:
            shift = None if schedule is None else schedule.shift_of(self.jobs[j].name)
            before = self._grids.pop(j, None)
            if shift is not None:
                self._grids[j] = grid = shift.grid
                if grid != before:
                    yield f"grid {j} {grid.period_seconds!r} {grid.shift_seconds!r} {int(grid.hold)}"
            elif before is not None:
                yield f"grid {j} 0 0 0"

    def _changed(self, rows: dict[tuple[int, int], SentRow]) -> list[str]:
        """Return the lines for rows that differ from those that were sent, and remember these."""
        lines = []
        for (flow, number), row in rows.items():
            before = self._sent.get((flow, number))
            if before is None or before.share != row.share or before.paths != row.paths:
                paths = " ".join(f"{len(path)} {' '.join(map(str, path))}" for path in row.paths)
                lines.append(f"row {flow} {number} {row.share!r} {row.pace_bps!r} {len(row.paths)} {paths}")
            elif before.pace_bps != row.pace_bps:
                lines.append(f"pace {flow} {number} {row.pace_bps!r}")
            self._sent[flow, number] = row
        flows = {flow for flow, _ in rows}
        for flow, number in [key for key in self._sent if key[0] in flows and key not in rows]:
            lines.append(f"row {flow} {number} 0 0 0")
            del self._sent[flow, number]
        return lines
