"""Planned circuits as a network of the fluid simulator.

A server's way to another one depends on the channel: trees have a channel each, and so have layers of circuits, on
which pinned rings send. A rank of a graph on circuits is a server and a channel: server + channel * m.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.circuits.kernels.routes import LOOSE
from controller.circuits.planning.circuit_plan import ShardPlan
from controller.circuits.planning.routes import ChosenRing
from controller.model.dag import Dag
from controller.model.fabric import FloatArray
from controller.workload.importers.dags import DagBuilder
from emulation.fluid.dag import NO_LINK, DagNetwork


@dataclass(frozen=True)
class Part:
    """A part of a message: the ranks (server and channel) that send and receive it, and its bytes."""

    rank: int
    peer: int
    bytes: float


class CircuitNetwork:
    """The circuits, trees and rings of a shard of m servers with d layers of circuits."""

    def __init__(self, plan: ShardPlan) -> None:
        """Give numbers to the channels, those of trees first."""
        self.plan = plan
        self.d, self.m = plan.succ.shape
        self.n_ranks = self.m * (len(plan.routes.trees) + self.d)

    def message(self, src: int, dst: int, size: float, phase: int) -> list[Part]:
        """Return the parts of a message of a phase, one for each tree that gets some of it."""
        routes = self.plan.routes
        shares = routes.shares[phase if len(routes.shares) > 1 else 0, :, dst]
        return [
            Part(src + tree * self.m, dst + tree * self.m, size * share)
            for tree, share in enumerate(shares.tolist())
            if share > 0
        ]

    def along(self, ring: ChosenRing, position: int, size: float, phase: int) -> list[Part]:
        """Return the parts of what one member of a ring, by its position, sends to the next one."""
        src, dst = ring.order[position], ring.order[(position + 1) % len(ring.order)]
        if ring.layer == LOOSE:
            return self.message(src, dst, size, phase)
        channel = (len(self.plan.routes.trees) + ring.layer) * self.m
        return [Part(src + channel, dst + channel, size)]

    def ways(self, gbps: float) -> DagNetwork:
        """Return the circuits of every pair and channel; circuit k, u is link k m + u."""
        trees, succ = self.plan.routes.trees, self.plan.succ
        pair: dict[tuple[int, int], int] = {}
        rows: list[list[int]] = []
        for tree, dst, src in np.argwhere(trees >= 0).tolist():
            links, at = [], src
            while at != dst:
                layer = int(trees[tree, dst, at])
                links.append(layer * self.m + at)
                at = int(succ[layer, at])
            pair[src + tree * self.m, dst + tree * self.m] = len(rows)
            rows.append(links)
        for layer, src in np.argwhere(succ != np.arange(self.m)).tolist():
            channel = (len(trees) + layer) * self.m
            pair[src + channel, int(succ[layer, src]) + channel] = len(rows)
            rows.append([layer * self.m + src])
        longest = max(map(len, rows), default=1)
        table = np.full((len(rows), longest), NO_LINK, dtype=np.int32)
        for i, row in enumerate(rows):
            table[i, : len(row)] = row
        return DagNetwork(table, np.full(succ.size, gbps), pair)


def loads_of(plan: ShardPlan, gbit: FloatArray) -> FloatArray:
    """Return what links carried as [d, m] circuits."""
    return gbit.reshape(plan.succ.shape)


def iteration(plan: ShardPlan) -> Dag:
    """Return one iteration: all messages of a phase begin at once, and those of the next phase when these have ended.

    Rings count as messages from each member to the next one.
    """
    network, demand = CircuitNetwork(plan), plan.shard.demand
    build = DagBuilder()
    before: list[int] = []
    for phase, matrix in enumerate(demand.messages):
        parts = [
            part
            for src, dst in np.argwhere(matrix > 0).tolist()
            for part in network.message(src, dst, float(matrix[src, dst]), phase)
        ]
        for ring in plan.routes.rings:
            group = demand.groups[ring.group]
            for position in range(len(ring.order) if group.slot == phase else 0):
                parts += network.along(ring, position, ring.share * group.edge_bytes, phase)
        now = [build.message(part.rank, part.peer, round(part.bytes)) for part in parts]
        ended = build.computation(0, 0.0)
        for task in now:
            for last in before:
                build.edge(last, task)
            build.edge(task, ended)
        for last in before if not now else ():
            build.edge(last, ended)
        before = [ended]
    return build.dag(network.n_ranks)
