"""Combination of ranks' operations to one graph: each send with its receive."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.model.dag import Dag
from controller.model.errors import InputError
from controller.model.texts.byte_sizes import MAX_BYTES
from controller.model.units import NANOSECOND
from controller.workload.importers.base import Source
from controller.workload.importers.dags import DagBuilder
from controller.workload.importers.fields import MAX_RANKS

MAX_NS = 2**62


class _Open(NamedTuple):
    """A send or a receive without its match yet: task, bytes, and place."""

    task: int
    bytes: int
    where: str


@dataclass
class GoalSchedule:
    """A collector of the operations of all ranks."""

    source: Source
    n_ranks: int = 0
    build: DagBuilder = field(default_factory=DagBuilder)
    sends: dict[tuple[int, int, int], deque[_Open]] = field(default_factory=dict)
    receives: dict[tuple[int, int, int], deque[_Open]] = field(default_factory=dict)
    starts: list[tuple[int, int]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def error(self, reason: str, where: str, value: object = None) -> InputError:
        """Return an error for a place in the schedule."""
        return InputError(reason, source=self.source.name, field=where, value=value)

    def ranks(self, number: int, where: str) -> None:
        """Set the number of ranks.

        Raises:
            InputError: the number is out of bounds.
        """
        if not 1 <= number <= MAX_RANKS:
            raise self.error(f"is not in 1 .. {MAX_RANKS}", where, number)
        self.n_ranks = number

    def calc(self, rank: int, ns: int, cpu: int, where: str) -> int:
        """Add a computation in nanoseconds on a processor and return its task."""
        if not 0 <= ns <= MAX_NS:
            raise self.error("is not a time in nanoseconds", where, ns)
        return self.build.computation(rank, ns * NANOSECOND, cpu)

    def send(self, rank: int, peer: int, size: int, tag: int, where: str) -> int:
        """Add a message and return its task; its receive is a separate task, which ends with it."""
        self._check(peer, size, where)
        task = self.build.message(rank, peer, size)
        self.sends.setdefault((rank, peer, tag), deque()).append(_Open(task, size, where))
        return task

    def receive(self, rank: int, peer: int, size: int, tag: int, where: str) -> int:
        """Add a receive and return its task; ``peer`` and ``tag`` may be ``ANY``."""
        self._check(0 if peer == ANY else peer, size, where)
        task = self.build.computation(rank, 0.0, NO_LANE)
        self.receives.setdefault((peer, rank, tag), deque()).append(_Open(task, size, where))
        return task

    def requires(self, task: int, other: int) -> None:
        """Let a task begin after the end of another."""
        self.build.edge(other, task)

    def irequires(self, task: int, other: int) -> None:
        """Let a task begin after the start of another."""
        self.starts.append((task, other))

    def dag(self) -> Dag:
        """Return the whole graph.

        A send without a receive ends when it has arrived, a receive without a send at once, both with a warning.

        Raises:
            InputError: a send and its receive have different sizes.
        """
        self._match_any()
        for key in sorted(self.sends.keys() | self.receives.keys()):
            sent, taken = self.sends.get(key, deque()), self.receives.get(key, deque())
            for one, other in zip(sent, taken, strict=False):
                self._match(one, other)
            if len(sent) != len(taken):
                rows, what = (sent, "receive") if len(sent) > len(taken) else (taken, "send")
                src, dst, tag = key
                who, which = "any rank" if src == ANY else f"rank {src}", "any tag" if tag == ANY else f"tag {tag}"
                self.warnings.append(
                    f"{self.source.name}: {rows[min(len(sent), len(taken))].where} has no matching {what}: {who} "
                    f"sends rank {dst} {len(sent)} messages with {which}, and {len(taken)} are received"
                )
        self._start_edges()
        return self.build.dag(self.n_ranks)

    def _match(self, one: _Open, other: _Open) -> None:
        if one.bytes != other.bytes:
            raise self.error(f"sends {one.bytes} bytes, and {other.where} receives {other.bytes}", one.where)
        self.build.edge(one.task, other.task)

    def _match_any(self) -> None:
        """Match receives from any rank or of any tag with sends that no other receive names, in the order of ranks."""
        wild = {key: rows for key, rows in self.receives.items() if ANY in (key[0], key[2])}
        if not wild:
            return
        left: dict[int, list[tuple[tuple[int, int, int], _Open]]] = {}
        for key, rows in sorted(self.sends.items()):
            named = len(self.receives.get(key, ()))
            left.setdefault(key[1], []).extend((key, row) for row in list(rows)[named:])
        for (src, dst, tag), rows in sorted(
            wild.items(), key=lambda item: (item[0][0] == ANY, item[0][2] == ANY, item[0])
        ):
            kept: deque[_Open] = deque()
            there = left.get(dst, [])
            for other in rows:
                at = next(
                    (
                        i
                        for i, (key, one) in enumerate(there)
                        if src in (ANY, key[0]) and tag in (ANY, key[2]) and one.bytes == other.bytes
                    ),
                    None,
                )
                if at is None:
                    kept.append(other)
                    continue
                key, one = there.pop(at)
                self.sends[key].remove(one)
                self._match(one, other)
            self.receives[src, dst, tag] = kept

    def _start_edges(self) -> None:
        """Add the dependencies of a task to each task that waits for its start."""
        if not self.starts:
            return
        needs: dict[int, list[int]] = {}
        for before, after in zip(self.build.before, self.build.after, strict=True):
            needs.setdefault(after, []).append(before)
        for task, other in self.starts:
            for before in needs.get(other, ()):
                self.build.edge(before, task)

    def _check(self, peer: int, size: int, where: str) -> None:
        if not 0 <= peer < self.n_ranks:
            raise self.error(f"there are {self.n_ranks} ranks", where, peer)
        if not 0 <= size <= MAX_BYTES:
            raise self.error("is not a number of bytes", where, size)


ANY = -1
"""The sender or tag of a receive from any: -1 in LogGOPSim's text, the largest number of 32 bits in its binary."""

NO_LANE = -1
"""The lane of tasks that take no time and no processor."""
