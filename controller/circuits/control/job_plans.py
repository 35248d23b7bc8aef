"""Plans of jobs that come and go: the shards of jobs that stay keep their circuits, unless dead ports cost too much."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from controller.circuits.demand import Shard, shards_of
from controller.circuits.fabric.optical_fabric import Circuit, OpticalFabric
from controller.circuits.planning.circuit_plan import CircuitPlan, ShardPlan, plan_shard, shard_plan
from controller.circuits.planning.equal_shards import EqualShards
from controller.circuits.planning.given import routed
from controller.circuits.planning.search import LAST_PASSES
from controller.circuits.planning.stages import CircuitStage, StagesError, stages_of
from controller.model.errors import InputError
from controller.model.job import Job

POLICY = "search"

WORTH_A_CHANGE = 0.95
"""New circuits without dead ports are worth a change if an iteration then takes this part of its time around them."""

Nic = tuple[int, int]
"""A server and the number of its NIC."""

ShardKey = tuple[tuple[int, ...], tuple[tuple[str, str], ...], tuple[Nic, ...]]
"""Servers of a shard, names and revisions of its jobs, and its dead NICs: equal ones get equal circuits."""


@dataclass(frozen=True)
class NamedJob:
    """A job with the revision of its document."""

    revision: str
    job: Job


@dataclass(frozen=True, eq=False)
class JobPlans:
    """A plan for all jobs, and those of shards by what they follow from."""

    plan: CircuitPlan
    shards: Mapping[ShardKey, ShardPlan] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ServedShards:
    """How servers send by the circuits that there are.

    Attributes:
        shards: those whose servers all reach each other.
        cut_off: those whose servers do not.
    """

    shards: tuple[ShardPlan, ...]
    cut_off: tuple[Shard, ...]


def plan_jobs(
    fabric: OpticalFabric,
    jobs: Sequence[NamedJob],
    before: Mapping[ShardKey, ShardPlan],
    *,
    seed: int,
    effort: float,
    paths: int,
    clock: Callable[[], float],
    dead: frozenset[Nic] = frozenset(),
) -> JobPlans:
    """Return the plan of jobs against the circuits of now, which ``fabric`` has.

    A shard of the same servers and jobs as before keeps its plan. Plans follow from the fabric file, jobs and dead NICs
    alone, not from circuits of now, so a restarted controller makes the same. A shard with NICs in ``dead`` gets other
    circuits if some of its servers do not reach each other without these, or if its iteration gets shorter by as much
    as ``WORTH_A_CHANGE`` asks than by routes around them.

    Raises:
        InputError: a job does not fit the fabric, or no circuits can serve it.
    """
    began = clock()
    revisions = {each.job.name: each.revision for each in jobs}
    equal = EqualShards()
    known: dict[ShardKey, ShardPlan] = {}
    chosen: list[ShardPlan] = []

    def planned(key: ShardKey, shard: Shard, on: OpticalFabric) -> ShardPlan:
        known[key] = before.get(key) or plan_shard(on, shard, POLICY, seed, effort, paths, equal=equal)
        return known[key]

    for shard in shards_of(fabric, [("", each.job) for each in jobs]):
        names = tuple((name, revisions[name]) for name in shard.jobs)
        own = tuple(sorted(nic for nic in dead if nic[0] in shard.servers))
        best = planned((shard.servers, names, ()), shard, fabric)
        if own and _concerned(fabric, best, own):
            with suppress(InputError):
                anew = planned((shard.servers, names, own), shard, without(fabric, own))
                best = anew if _is_worth_it(fabric, best, anew, own, seed) else best
        chosen.append(best)
    removed, added = fabric.changes([circuit for each in chosen for circuit in each.circuits])
    plan = CircuitPlan(fabric, POLICY, tuple(chosen), tuple(removed), tuple(added), clock() - began)
    return JobPlans(plan, known)


def without(fabric: OpticalFabric, nics: Iterable[Nic]) -> OpticalFabric:
    """Return the fabric with these NICs dead, too."""
    dead = fabric.dead.copy()
    for nic in nics:
        dead[nic] = True
    return replace(fabric, dead=dead)


def _concerned(fabric: OpticalFabric, plan: ShardPlan, dead: Iterable[Nic]) -> bool:
    return not {nic for each in plan.circuits for nic in fabric.ends(each)}.isdisjoint(dead)


def _is_worth_it(fabric: OpticalFabric, old: ShardPlan, new: ShardPlan, dead: Iterable[Nic], seed: int) -> bool:
    """Return whether to change from the old circuits, of which those of dead NICs carry nothing, to the new ones."""
    gone = frozenset(dead)
    usable = frozenset(each for each in old.circuits if gone.isdisjoint(fabric.ends(each)))
    around = served(fabric, [old], usable, seed).shards
    return not around or new.seconds <= WORTH_A_CHANGE * around[0].seconds


def way_to(plan: CircuitPlan, seed: int) -> tuple[tuple[CircuitStage, ...], str]:
    """Return the stages to a plan, and why jobs lose packets in them; empty: they do not."""
    if not plan.removed and not plan.added:
        return (), ""
    try:
        return stages_of(plan, seed), ""
    except StagesError as error:
        nics = {nic for each in (*plan.removed, *plan.added) for _, nic in plan.fabric.ends(each)}
        return (CircuitStage(tuple(sorted(nics)), plan.removed, plan.added, ()),), error.reason


def served(fabric: OpticalFabric, plans: Iterable[ShardPlan], usable: frozenset[Circuit], seed: int) -> ServedShards:
    """Return how servers send if only some circuits can be used: as planned, or around those that cannot."""
    shards, cut_off = [], []
    for each in plans:
        if usable.issuperset(each.circuits):
            shards.append(each)
            continue
        shard = each.shard
        made = (
            routed(fabric, shard.servers, shard.demand, sorted(usable), LAST_PASSES, seed)
            if fabric.forwarding and shard.demand.n > 1
            else None
        )
        if made is None:
            cut_off.append(shard)
        else:
            shards.append(shard_plan(fabric, shard, made.succ, made.ends, made.routes, made.circuits))
    return ServedShards(tuple(shards), tuple(cut_off))


def with_circuits(fabric: OpticalFabric, circuits: Iterable[Circuit]) -> OpticalFabric:
    """Return the fabric with other circuits of now."""
    return replace(fabric, circuits=tuple(sorted(circuits)))
