"""Simulation of a task graph: tasks begin when all predecessors have ended, and messages share links fairly.

Computations of one rank in one lane run one after the other, in the order in which they could begin; of those that
could begin at one moment, the one with the lowest number goes first. Messages that are under way have max-min fair
rates (Bertsekas and Gallager, Data Networks, 6.5.2), which change when a message begins or ends. There is no latency
and no protocol.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from controller.model.dag import Dag, FloatArray, IntArray
from controller.model.errors import InputError
from controller.model.tolerances import SAME_VALUE
from controller.model.units import GBIT

NO_LINK = -1


@dataclass(frozen=True, eq=False)
class DagNetwork:
    """The paths of messages.

    Attributes:
        links: [P, L] links of each pair of ranks that sends anything, ``NO_LINK`` where there are fewer.
        capacity: Gbit/s of each link.
        pair: row of ``links`` by (sender, receiver).
    """

    links: IntArray
    capacity: FloatArray
    pair: dict[tuple[int, int], int]


@dataclass(frozen=True, eq=False)
class DagRun:
    """The result of a simulation.

    Attributes:
        begin, end: [T] start and end of each task in seconds.
        seconds: time until the last task ended.
        gbit: [links] Gbit carried by each link.
    """

    begin: FloatArray
    end: FloatArray
    seconds: float
    gbit: FloatArray


def ideal_switch(dag: Dag, gbps: float) -> DagNetwork:
    """One switch without any bottleneck: each rank has a link to it and one from it."""
    pairs = _pairs(dag)
    links = np.array([(src, dag.n_ranks + dst) for src, dst in pairs], dtype=np.int32).reshape(len(pairs), 2)
    return DagNetwork(links, np.full(2 * dag.n_ranks, gbps), {pair: i for i, pair in enumerate(pairs)})


def _pairs(dag: Dag) -> list[tuple[int, int]]:
    sends = dag.is_message
    return sorted(set(zip(dag.rank[sends].tolist(), dag.peer[sends].tolist(), strict=True)))


def run(dag: Dag, network: DagNetwork) -> DagRun:
    """Play the graph.

    Raises:
        InputError: tasks wait for each other in a circle, or a pair that sends has no way.
    """
    return _Play(dag, network).run()


class _Play:
    """State of a simulation.

    Messages of one pair have equal rates, so each pair counts the bits that each of its messages has sent since the
    start (``moved``), and orders its messages by the count at which they end.
    """

    def __init__(self, dag: Dag, network: DagNetwork) -> None:
        self.dag, self.net = dag, network
        n = dag.n_tasks
        self.waits = np.bincount(dag.after, minlength=n).tolist()
        order = np.argsort(dag.before, kind="stable")
        self.next = dag.after[order].tolist()
        self.first = np.searchsorted(dag.before[order], np.arange(n + 1)).tolist()
        self.begin, self.end = np.zeros(n), np.zeros(n)
        self.now, self.left = 0.0, n
        self.computing: list[tuple[float, int]] = []
        self.queues: dict[tuple[int, int], list[tuple[float, int]]] = {}
        self.busy: set[tuple[int, int]] = set()
        self.turns: set[tuple[int, int]] = set()
        pairs = len(network.links)
        self.moved = np.zeros(pairs)
        self.rate = np.zeros(pairs)
        self.count = np.zeros(pairs, dtype=np.int64)
        self.under_way: list[list[tuple[float, int]]] = [[] for _ in range(pairs)]
        self.nearest = np.full(pairs, np.inf)
        self.gbit = np.zeros(len(network.capacity))
        self.changed = False

    def run(self) -> DagRun:
        for task in [task for task, waits in enumerate(self.waits) if not waits]:
            self._begin(task)
        while self.left:
            self._take_turns()
            if self.changed:
                self.rate = max_min(self.net.links, self.count, self.net.capacity)
                self.changed = False
            with np.errstate(divide="ignore", invalid="ignore"):
                ahead = np.where(self.count > 0, (self.nearest - self.moved) / self.rate, np.inf)
            message = max(0.0, float(ahead.min())) if len(ahead) else np.inf
            compute = self.computing[0][0] - self.now if self.computing else np.inf
            step = min(message, compute)
            if not np.isfinite(step):
                raise InputError(f"{self.left} tasks wait for each other, or for a way that is not there", field="dag")
            self._pass(step)
            for pair in np.flatnonzero(ahead <= step * (1 + SAME_VALUE) + SAME_VALUE).tolist():
                self._arrive(pair)
            while self.computing and self.computing[0][0] <= self.now:
                self._computed(heapq.heappop(self.computing)[1])
        return DagRun(self.begin, self.end, float(self.end.max(initial=0.0)), self.gbit)

    def _pass(self, seconds: float) -> None:
        self.now += seconds
        if seconds > 0:
            moved = self.rate * seconds
            self.moved += moved
            loads = np.repeat((moved * self.count)[:, None], self.net.links.shape[1], axis=1)
            there = self.net.links != NO_LINK
            np.add.at(self.gbit, self.net.links[there], loads[there])

    def _begin(self, task: int) -> None:
        """Begin a task whose predecessors have ended; chains of tasks without duration are handled iteratively."""
        ready = [task]
        while ready:
            task = ready.pop()
            self.begin[task] = self.now
            if self.dag.peer[task] >= 0 and self.dag.bytes[task] > 0:
                self._send(task)
            elif self.dag.seconds[task] > 0:
                lane = int(self.dag.rank[task]), int(self.dag.lane[task])
                heapq.heappush(self.queues.setdefault(lane, []), (self.now, task))
                self.turns.add(lane)
            else:
                ready += self._ended(task)

    def _send(self, task: int) -> None:
        key = int(self.dag.rank[task]), int(self.dag.peer[task])
        pair = self.net.pair.get(key)
        if pair is None:
            raise InputError(f"no way leads from rank {key[0]} to rank {key[1]}", field="dag")
        target = self.moved[pair] + float(self.dag.bytes[task]) * GBIT
        heapq.heappush(self.under_way[pair], (target, task))
        self.nearest[pair] = self.under_way[pair][0][0]
        self.count[pair] += 1
        self.changed = True

    def _arrive(self, pair: int) -> None:
        under_way = self.under_way[pair]
        while under_way and under_way[0][0] <= self.moved[pair] * (1 + SAME_VALUE) + SAME_VALUE:
            _, task = heapq.heappop(under_way)
            self.count[pair] -= 1
            self.changed = True
            for other in self._ended(task):
                self._begin(other)
        self.nearest[pair] = under_way[0][0] if under_way else np.inf

    def _take_turns(self) -> None:
        """Lanes that are free go on, when all that happens at this moment has happened."""
        for lane in self.turns:
            if lane not in self.busy and self.queues.get(lane):
                _, task = heapq.heappop(self.queues[lane])
                self.busy.add(lane)
                self.begin[task] = self.now
                heapq.heappush(self.computing, (self.now + float(self.dag.seconds[task]), task))
        self.turns.clear()

    def _computed(self, task: int) -> None:
        lane = int(self.dag.rank[task]), int(self.dag.lane[task])
        self.busy.discard(lane)
        self.turns.add(lane)
        for other in self._ended(task):
            self._begin(other)

    def _ended(self, task: int) -> list[int]:
        """Note it; the tasks that may begin now."""
        self.end[task] = self.now
        self.left -= 1
        ready = []
        for other in self.next[self.first[task] : self.first[task + 1]]:
            self.waits[other] -= 1
            if not self.waits[other]:
                ready.append(other)
        return ready


def max_min(links: IntArray, count: IntArray | np.ndarray, capacity: FloatArray) -> FloatArray:
    """Max-min fair Gbit/s of each message of each pair, by progressive filling.

    Args:
        links: [P, L].
        count: [P] messages of each pair.
        capacity: Gbit/s of each link.
    """
    rate = np.zeros(len(links))
    rising = count > 0
    there = links != NO_LINK
    weight = np.where(there, count[:, None], 0).astype(np.float64)
    where = np.where(there, links, 0)
    room = capacity.astype(np.float64).copy()
    load = np.bincount(where.ravel(), weights=(weight * rising[:, None]).ravel(), minlength=len(capacity))
    while rising.any():
        with np.errstate(divide="ignore", invalid="ignore"):
            level = np.where(load > SAME_VALUE, np.maximum(room, 0.0) / load, np.inf)
        least = level.min()
        full = level <= least * (1 + SAME_VALUE)
        held = rising & (full[where] & there).any(axis=1)
        if not held.any():
            break
        rate[held] = least
        taken = np.bincount(where[held].ravel(), weights=weight[held].ravel(), minlength=len(capacity))
        room -= taken * least
        load -= taken
        rising &= ~held
    return rate
