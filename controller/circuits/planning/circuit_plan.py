"""A plan of circuits, and how to make one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from controller.circuits.demand import Shard, ShardDemand, shards_of
from controller.circuits.fabric.optical_fabric import Circuit, OpticalFabric
from controller.circuits.planning.bounds import bound_seconds, ideal_seconds
from controller.circuits.planning.direct import direct_plan
from controller.circuits.planning.equal_shards import EqualShards, equality
from controller.circuits.planning.given import routed
from controller.circuits.planning.layers import CircuitEnds, Layers, circuits_of, ends_of, layers_of
from controller.circuits.planning.routes import CircuitRoutes, loads_of, seconds_of, tree_hops
from controller.circuits.planning.search import LAST_PASSES, Candidate, one_ring, search, totient
from controller.circuits.planning.split import MOST_PATHS, split_routes
from controller.model.errors import InputError
from controller.model.fabric import FloatArray, IntArray
from controller.model.job import Job

NOW = "now"
POLICIES = {
    "search": "local search of circuits and routes, from several starts; TotientPerms is one of them",
    "totient": "TotientPerms with SelectPermutations and coin change (TopoOpt, NSDI 2023)",
    "ring": "one ring of all servers in their order, on every NIC",
    NOW: "the circuits of now, with routes and rings that are searched for them",
}
"""How circuits may be chosen, by name."""

MOST_EFFORT = 1000.0
WHOLE_SEARCHES = 4
"""As many shards that are unlike each other are searched with the whole effort; more of them share that of so many."""


@dataclass(frozen=True, eq=False)
class ShardPlan:
    """The circuits and routes of a shard of m servers with d NICs.

    Attributes:
        shard: the servers and jobs.
        succ: [d, m] to which server each layer of circuits leads; a server itself: there is no circuit.
        ends: the NICs at both ends of each circuit.
        routes: next hops and rings.
        loads: [P, d, m] bytes on each circuit in each phase.
        circuits: with their ports.
        seconds: the time of an iteration, each phase as long as its fullest circuit sends.
        ideal_seconds: the time on one switch without bottlenecks.
        bound_seconds: no circuits and no routes need less.
    """

    shard: Shard
    succ: IntArray
    ends: CircuitEnds
    routes: CircuitRoutes
    loads: FloatArray
    circuits: tuple[Circuit, ...]
    seconds: float
    ideal_seconds: float
    bound_seconds: float

    @property
    def tax(self) -> float | None:
        """The bytes on all circuits over those that are sent; ``None`` where nothing is."""
        total = self.shard.demand.total_bytes
        return float(self.loads.sum()) / total if total else None

    @property
    def hops(self) -> IntArray:
        """[m, m] the hops by the first tree from each server (second) to each destination (first); 0: no way."""
        return tree_hops(self.succ, self.routes.layer)

    @property
    def rules_per_server(self) -> int:
        """The most rules that a server needs: one for each tree to a destination that it can reach."""
        return int((self.routes.trees >= 0).sum(axis=(0, 1)).max())


@dataclass(frozen=True, eq=False)
class CircuitPlan:
    """The plans of all shards, and what changes.

    Attributes:
        fabric: the optical fabric.
        policy: the name of the policy.
        shards: in order of their first jobs.
        removed, added: the circuits to take away and to set, against those of now.
        planning_seconds: how long planning took.
    """

    fabric: OpticalFabric
    policy: str
    shards: tuple[ShardPlan, ...]
    removed: tuple[Circuit, ...]
    added: tuple[Circuit, ...]
    planning_seconds: float

    @property
    def changed_nics(self) -> int:
        """The number of NIC numbers with a changed circuit: a change in stages concerns one of them after the other."""
        fabric = self.fabric
        changed = {nic for each in (*self.removed, *self.added) for _, nic in fabric.ends(each)}
        return len(changed)


def plan_circuits(
    fabric: OpticalFabric,
    jobs: Sequence[tuple[str, Job]],
    *,
    policy: str = "search",
    seed: int = 0,
    effort: float = 1.0,
    paths: int = 1,
    whole_rings: bool = False,
    clock: Callable[[], float],
) -> CircuitPlan:
    """Plan circuits, next hops and rings of jobs.

    Args:
        fabric: the optical fabric.
        jobs: pairs of the source for errors (a file) and the job.
        policy: one of ``POLICIES``.
        seed: of all that is drawn; equal arguments give an equal plan.
        effort: a factor of the steps of the search; more than ``WHOLE_SEARCHES`` unlike shards share its steps.
        paths: the most trees to a destination, over which the bytes for it are divided.
        whole_rings: whether the search gives each NIC one ring of all servers of a shard.
        clock: for the planning time.

    Raises:
        InputError: no policy has this name, a job does not fit the fabric, or no circuits can serve it.
    """
    if policy not in POLICIES:
        raise InputError(f"there are {', '.join(POLICIES)}", field="policy", value=policy)
    if not 0 <= effort <= MOST_EFFORT:
        raise InputError(f"must be 0 to {MOST_EFFORT:g}", field="effort", value=effort)
    if not 1 <= paths <= MOST_PATHS:
        raise InputError(f"must be 1 to {MOST_PATHS}", field="paths", value=paths)
    if paths > 1 and not fabric.forwarding:
        raise InputError("servers that do not forward have one path for each destination", field="paths", value=paths)
    began = clock()
    shards, equal = shards_of(fabric, jobs), EqualShards()
    unlike = len({equality(layers_of(fabric, shard.servers), shard.demand) for shard in shards})
    effort *= min(1.0, WHOLE_SEARCHES / max(1, unlike))
    plans = tuple(
        plan_shard(fabric, shard, policy, seed, effort, paths, whole_rings=whole_rings, equal=equal) for shard in shards
    )
    removed, added = fabric.changes([circuit for each in plans for circuit in each.circuits])
    return CircuitPlan(fabric, policy, plans, tuple(removed), tuple(added), clock() - began)


def plan_shard(
    fabric: OpticalFabric,
    shard: Shard,
    policy: str,
    seed: int,
    effort: float,
    paths: int,
    *,
    whole_rings: bool = False,
    equal: EqualShards | None = None,
) -> ShardPlan:
    """Plan one shard; the arguments are those of ``plan_circuits``, and what was chosen for equal shards with them.

    Raises:
        InputError: no circuits can serve it.
    """
    layers, demand = layers_of(fabric, shard.servers), shard.demand
    if policy == NOW and demand.n > 1:
        return _plan_of_now(fabric, shard, seed, paths)
    if demand.n == 1:
        succ = np.zeros((fabric.nics, 1), dtype=np.int32)
        routes = CircuitRoutes.single(np.full((1, 1), -1, dtype=np.int32), ())
    elif not fabric.forwarding:
        succ, routes = direct_plan(layers, demand, [fabric.servers[server] for server in shard.servers])
    else:

        def choose() -> tuple[IntArray, CircuitRoutes]:
            candidate = _candidate(policy, layers, demand, seed, effort, whole_rings)
            succ, routes = _checked(candidate, layers, shard, policy)
            return succ, split_routes(succ, demand, routes, paths)

        succ, routes = choose() if equal is None else equal.of(layers, demand, choose)
    ends = ends_of(fabric, shard.servers, layers, succ)
    return shard_plan(fabric, shard, succ, ends, routes, tuple(circuits_of(fabric, shard.servers, succ, ends)))


def shard_plan(
    fabric: OpticalFabric,
    shard: Shard,
    succ: IntArray,
    ends: CircuitEnds,
    routes: CircuitRoutes,
    circuits: tuple[Circuit, ...],
) -> ShardPlan:
    """Return the plan of a shard with its loads and times."""
    demand = shard.demand
    loads = loads_of(succ, demand, routes)
    return ShardPlan(
        shard,
        succ,
        ends,
        routes,
        loads,
        circuits,
        seconds_of(loads, fabric.gbps),
        ideal_seconds(demand, fabric.nics, fabric.gbps),
        bound_seconds(demand, fabric.nics, fabric.gbps, duplex=fabric.duplex),
    )


def _plan_of_now(fabric: OpticalFabric, shard: Shard, seed: int, paths: int) -> ShardPlan:
    """Return how a shard sends by the circuits of now.

    Raises:
        InputError: some servers do not reach each other by them, or would have to forward.
    """
    if not fabric.forwarding:
        raise InputError("servers that do not forward have no other routes", field="optical.forwarding", value=False)
    made = routed(fabric, shard.servers, shard.demand, fabric.circuits, LAST_PASSES, seed)
    if made is None:
        raise InputError(
            f"job {', '.join(shard.jobs)}: some of its servers do not reach each other by them",
            field="optical.circuits",
        )
    routes = split_routes(made.succ, shard.demand, made.routes, paths)
    return shard_plan(fabric, shard, made.succ, made.ends, routes, made.circuits)


def _candidate(
    policy: str, layers: Layers, demand: ShardDemand, seed: int, effort: float, whole_rings: bool
) -> Candidate | None:
    if policy == "search":
        return search(layers, demand, seed, effort, whole_rings=whole_rings)
    return totient(layers, demand, seed) if policy == "totient" else one_ring(layers, demand, seed)


def _checked(chosen: Candidate | None, layers: Layers, shard: Shard, policy: str) -> tuple[IntArray, CircuitRoutes]:
    if chosen is None:
        if policy == "search":
            reason = "the live ports leave servers without a way to all others"
            reason += " (duplex circuits of one NIC join pairs only)"
        elif layers.whole:
            reason = f"the rings that {policy} gives to groups leave servers without a way to all others"
        else:
            reason = f"{policy} needs live ports on all NICs and, if circuits are duplex, an even number of NICs"
            reason += " (and of servers, where each NIC has a switch of its own)"
        raise InputError(f"job {', '.join(shard.jobs)}: {reason}", field="optical")
    return chosen.succ, chosen.routes
