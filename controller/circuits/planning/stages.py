"""The way from the circuits of now to those of a plan in stages, in which jobs go on by the circuits that stay.

In a stage the changed circuits of one NIC number are dark, at all servers (or of two numbers, where circuits join
these). The order is such that whoever reached each other before does so in every stage. Where the circuits of a number
cannot be changed at once, its stage is divided: circuits that have no port in common need not change together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import networkx as nx
import numpy as np

from controller.circuits.demand import RingGroup, Shard, ShardDemand
from controller.circuits.fabric.optical_fabric import Circuit, OpticalFabric
from controller.circuits.planning.circuit_plan import CircuitPlan, ShardPlan, plan_circuits, shard_plan
from controller.circuits.planning.given import routed
from controller.model.errors import InputError
from controller.model.fabric import IntArray
from controller.model.job import Job

_PASSES = 8
"""Of the routes of a stage."""
_MOST_TRIES = 4000
"""Of orders of NIC numbers."""


@dataclass(frozen=True, eq=False)
class CircuitStage:
    """One step of a change.

    Attributes:
        nics: the NIC numbers whose circuits change.
        removed, added: the circuits that are taken away, and those that are set then.
        during: how servers send while the NICs are dark, for each set of servers that reach each other then. Their
            shards have the jobs that could run before the change.
    """

    nics: tuple[int, ...]
    removed: tuple[Circuit, ...]
    added: tuple[Circuit, ...]
    during: tuple[ShardPlan, ...]


class StagesError(InputError):
    """No order of stages keeps all pairs of servers connected."""


@dataclass(frozen=True)
class _Unit:
    """Circuits that change together."""

    nics: frozenset[int]
    removed: frozenset[Circuit]
    added: frozenset[Circuit]

    @classmethod
    def of(cls, fabric: OpticalFabric, circuits: Sequence[Circuit], new: frozenset[Circuit]) -> _Unit:
        numbers = frozenset(nic for each in circuits for _, nic in fabric.ends(each))
        return cls(numbers, frozenset(circuits) - new, frozenset(circuits) & new)

    def __or__(self, other: _Unit) -> _Unit:
        return _Unit(self.nics | other.nics, self.removed | other.removed, self.added | other.added)


def stages_of(plan: CircuitPlan, seed: int = 0) -> tuple[CircuitStage, ...]:
    """Return the stages from the circuits of now to those of a plan.

    Jobs whose servers cannot all reach each other now are not running, and are not served before the last stage.

    Args:
        plan: the circuits to reach.
        seed: of the routes of stages.

    Raises:
        StagesError: there is no such order; it names a pair.
        InputError: servers do not forward for each other.
    """
    fabric = plan.fabric
    if not fabric.forwarding:
        raise InputError(
            "servers that do not forward cannot send for each other while circuits change",
            field="optical.forwarding",
            value=False,
        )
    return _Change(plan, seed).stages()


def staged_plan(
    fabric: OpticalFabric, jobs: Sequence[tuple[str, Job]], *, seed: int = 0, **options: Any
) -> tuple[CircuitPlan, tuple[CircuitStage, ...]]:
    """Plan circuits (``plan_circuits``) that stages lead to, and the stages.

    If none lead to the best circuits that are seen, each NIC gets one ring of all servers: all reach each other by any
    one of these.

    Raises:
        InputError: as for ``plan_circuits`` and ``stages_of``.
    """
    plan = plan_circuits(fabric, jobs, seed=seed, **options)
    try:
        return plan, stages_of(plan, seed)
    except StagesError:
        plan = plan_circuits(fabric, jobs, seed=seed, **options, whole_rings=True)
        return plan, stages_of(plan, seed)


class _Change:
    def __init__(self, plan: CircuitPlan, seed: int) -> None:
        self.plan, self.fabric, self.seed = plan, plan.fabric, seed
        self.now = frozenset(plan.fabric.circuits)
        self.changed = (*plan.removed, *plan.added)
        parts = _strongly_connected(self.fabric, self.now)
        self.running = [
            each.shard
            for each in plan.shards
            if each.shard.demand.n > 1 and len(set(parts[list(each.shard.servers)].tolist())) == 1
        ]

    def stages(self) -> tuple[CircuitStage, ...]:
        if not self.changed:
            return ()
        units = self._units(self._same_nics)
        if not self.running:
            # Nobody sends yet.
            units = [reduce(or_, units)]
        order = self._order(units)
        if order is None:
            order = self._divided()
        lit, stages = self.now, []
        for unit in order:
            dark = lit - unit.removed
            removed, added = tuple(sorted(unit.removed)), tuple(sorted(unit.added))
            stages.append(CircuitStage(tuple(sorted(unit.nics)), removed, added, self._during(dark)))
            lit = dark | unit.added
        return tuple(stages)

    def _units(self, joined: Callable[[], Iterator[tuple[int, int]]]) -> list[_Unit]:
        new = frozenset(self.plan.added)
        parts = nx.connected_components(nx.Graph(joined()))
        units = [_Unit.of(self.fabric, [self.changed[i] for i in part], new) for part in parts]
        return sorted(units, key=lambda unit: (sorted(unit.nics), sorted(unit.removed | unit.added)))

    def _same_nics(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of changed circuits that have a NIC number in common."""
        last: dict[int, int] = {}
        for i, each in enumerate(self.changed):
            for _, nic in self.fabric.ends(each):
                yield last.setdefault(nic, i), i

    def _same_ports(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of changed circuits that have a port in common."""
        last: dict[tuple[str, int, bool], int] = {}
        for i, each in enumerate(self.changed):
            for port, out in ((each.in_port, False), (each.out_port, not self.fabric.duplex)):
                yield last.setdefault((each.switch, port, out), i), i

    def _lost(self, circuits: frozenset[Circuit]) -> tuple[int, int] | None:
        """Return a pair of servers of a running job that do not reach each other."""
        parts = _strongly_connected(self.fabric, circuits)
        for shard in self.running:
            first = shard.servers[0]
            for server in shard.servers:
                if parts[server] != parts[first]:
                    return first, server
        return None

    def _order(self, units: Sequence[_Unit]) -> list[_Unit] | None:
        """Return an order of whole units; ``None``: no such order is seen."""
        refused: set[frozenset[int]] = set()

        def after(done: frozenset[int], lit: frozenset[Circuit]) -> list[_Unit] | None:
            if len(done) == len(units):
                return []
            if done in refused or len(refused) > _MOST_TRIES:
                return None
            for i, unit in enumerate(units):
                dark = lit - unit.removed
                if i not in done and self._lost(dark) is None:
                    rest = after(done | {i}, dark | unit.added)
                    if rest is not None:
                        return [unit, *rest]
            refused.add(done)
            return None

        return after(frozenset(), self.now)

    def _divided(self) -> list[_Unit]:
        """Return an order of parts of units, each with as many circuits as can be dark at once.

        Raises:
            StagesError: no part can be changed.
        """
        left, lit, order = self._units(self._same_ports), self.now, []
        while left:
            stage: _Unit | None = None
            for unit in left:
                joined = unit if stage is None else stage | unit
                same = stage is None or unit.nics <= stage.nics
                if same and self._lost(lit - joined.removed) is None:
                    stage = joined
            if stage is None:
                lost = self._lost(lit - left[0].removed)
                assert lost is not None
                one, other = (self.fabric.servers[server] for server in lost)
                numbers = " and ".join(str(nic) for nic in sorted(left[0].nics))
                raise StagesError(
                    f"in no order of stages all servers reach each other: {one} and {other} do not while NIC {numbers} "
                    "changes"
                )
            order.append(stage)
            lit = (lit - stage.removed) | stage.added
            left = [unit for unit in left if not unit.removed <= stage.removed or not unit.added <= stage.added]
        return order

    def _during(self, circuits: frozenset[Circuit]) -> tuple[ShardPlan, ...]:
        parts = _strongly_connected(self.fabric, circuits)
        together_with: dict[int, list[Shard]] = {}
        for shard in self.running:
            together_with.setdefault(int(parts[shard.servers[0]]), []).append(shard)
        return tuple(
            self._routed(np.flatnonzero(parts == part).tolist(), shards, circuits)
            for part, shards in together_with.items()
        )

    def _routed(self, servers: list[int], shards: Sequence[Shard], circuits: frozenset[Circuit]) -> ShardPlan:
        """Return how the jobs of shards send over the circuits among some servers."""
        demand = _joined(shards, {server: i for i, server in enumerate(servers)})
        made = routed(self.fabric, servers, demand, circuits, _PASSES, self.seed)
        assert made is not None, "strongly connected servers reach each other"
        shard = Shard(tuple(servers), tuple(name for shard in shards for name in shard.jobs), demand)
        return shard_plan(self.fabric, shard, made.succ, made.ends, made.routes, made.circuits)


def _strongly_connected(fabric: OpticalFabric, circuits: frozenset[Circuit]) -> IntArray:
    """Return [n] a number for each server; those with one number reach each other."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(fabric.n_servers))
    for each in circuits:
        (u, _), (v, _) = fabric.ends(each)
        graph.add_edge(u, v)
    parts = np.empty(fabric.n_servers, dtype=np.int32)
    for number, servers in enumerate(nx.strongly_connected_components(graph)):
        parts[list(servers)] = number
    return parts


def _joined(shards: Sequence[Shard], index: dict[int, int]) -> ShardDemand:
    """Return what the jobs of shards send; those of several shards have no phases in common."""
    phases = len(shards[0].demand.messages) if len(shards) == 1 else 1
    messages = np.zeros((phases, len(index), len(index)))
    groups: list[RingGroup] = []
    for shard in shards:
        at = [index[server] for server in shard.servers]
        for slot, matrix in enumerate(shard.demand.messages):
            messages[slot if phases > 1 else 0][np.ix_(at, at)] += matrix
        for group in shard.demand.groups:
            members = tuple(at[member] for member in group.members)
            slot = group.slot if phases > 1 else 0
            groups.append(RingGroup(group.job, group.collective, members, group.edge_bytes, slot))
    return ShardDemand(messages, tuple(groups))
