"""Compile every kernel once, so that nothing is compiled inside a request."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.paths.ways import Tier
from controller.model.traffic import Traffic
from controller.model.units import GBIT
from controller.routing.base import Options, Policy, Result
from controller.routing.kernels.placing import equal_chains
from controller.routing.objective.bounds import bound
from controller.routing.objective.fairness import evaluate
from controller.routing.placing.replan_by_tier import matched_beside_dead
from controller.routing.problem.demand import Demand
from controller.routing.problem.previous_plan import PreviousPlan
from controller.routing.registry import BUILT_IN
from controller.routing.relaxation.priced import PricedTimes
from controller.routing.times.flow_estimate import plan_times
from controller.routing.warm_up_instances import KINDS, FabricKind, instances


def warm_up(forms: Iterable[FabricKind] = KINDS) -> None:
    """Run every policy on small instances that together reach every kernel, at the first call in a process.

    It takes one to two seconds for each form of fabric, and minutes if nothing is cached on disk yet.

    Compiled code is cached on disk, beside the package or, if that is read-only, in the user's cache folder
    (``NUMBA_CACHE_DIR`` overrides both). Where none of them can be written, it is in a temporary one of this process.

    Args:
        forms: what plans on fabrics of these forms need.
    """
    for form in forms:
        _warm_up_form(form)


@functools.cache
def _warm_up_form(form: FabricKind) -> None:
    for timed in (False, True):
        warm_up_plans(timed=timed, forms=(form,))


def warm_up_plans(*, timed: bool, forms: Sequence[FabricKind] = KINDS) -> None:
    """Do the part of ``warm_up`` for jobs that state when they compute (``timed``), or that for jobs that do not."""
    every = Options(hash="toeplitz", estimate_demand=True, ethereal_by="leaf", max_splits=9, shifts="advise")
    for form in forms:
        chosen = [(fabric, traffic) for fabric, traffic in instances(form) if _is_timed(traffic) == timed]
        policies = [policy for policy in BUILT_IN.values() if policy.own_kernels]
        _run(policies, (Options(), every), chosen, replan=True)


def warm_up_for(
    policies: Iterable[str], options: Options, fabric: Fabric, traffic: Traffic, *, replan: bool = False
) -> None:
    """Compile or load what plans of this traffic need: a part of what ``warm_up`` does.

    Loading takes some ten milliseconds a kernel, so a small traffic is planned itself, in place of instances which
    reach every kernel that another one of its form may need.

    Args:
        policies: names; those that are not built in are left out.
        options: the options of the policies.
        fabric: decides by its form which kernels are needed.
        traffic: decides whether the kernels of jobs with a timing are needed.
        replan: whether plans stay near an earlier one.
    """
    timed = _is_timed(traffic)
    if traffic.n_flows <= _FEW_FLOWS and not timed and not replan:
        _plan_quickly([BUILT_IN[name] for name in policies if name in BUILT_IN], options, fabric, traffic)
        return
    chosen = [(place, flows) for place, flows in instances(FabricKind.of(fabric)) if timed or not _is_timed(flows)]
    _run([BUILT_IN[name] for name in policies if name in BUILT_IN], [options], chosen, replan=replan)


_FEW_FLOWS = 10_000
"""Most flows of a traffic that is planned to load kernels: that takes less time than loading all kernels."""


def _plan_quickly(policies: Iterable[Policy], options: Options, fabric: Fabric, traffic: Traffic) -> None:
    """Do what ``planning.make_plan`` does, with as little search as possible."""
    for policy in policies:
        made = policy.assign(fabric, traffic, options=_quick(options))
        demand = made.demand or Demand.of(fabric, traffic)
        reached = evaluate(fabric, traffic, made.assignment, demand=demand).min_level
        bound(fabric, traffic, demand=demand, reached=reached)
        plan_times(demand, made.assignment)


def _quick(options: Options) -> Options:
    return dataclasses.replace(options, rounds=200, annealing_rounds=20, nodes=1)


def _run(
    policies: Iterable[Policy],
    variants: Sequence[Options],
    chosen: Sequence[tuple[Fabric, Traffic]],
    *,
    replan: bool,
) -> None:
    """Plan each instance and evaluate the plan; with ``replan``, plan again after a failure in each tier of cables.

    Evaluation and planning again are the same for all policies: they are run for the first policy on each instance, for
    the others on the first instance. The last one of the variants has all options: a plan near the former one needs no
    more for the others.
    """
    quick = [_quick(options) for options in variants]
    policies = list(policies)
    for place, (fabric, traffic) in enumerate(chosen):
        bound(fabric, traffic)
        for policy in policies:
            for number, options in enumerate(quick, start=1):
                made = policy.assign(fabric, traffic, options=options)
                if policy is policies[0] or (place == 0 and not _is_timed(traffic)):
                    _use(policy, fabric, traffic, made, options, replan=replan and number == len(quick))


def _use(policy: Policy, fabric: Fabric, traffic: Traffic, made: Result, options: Options, *, replan: bool) -> None:
    """Evaluate a plan; with ``replan``, plan near it after a failure in each tier of cables."""
    first = made.assignment
    load = evaluate(fabric, traffic, first).link_load[fabric.first_cable_link :].reshape(-1, 2)
    plan_times(Demand.of(fabric, traffic), first)
    _prove_in_one_round(fabric, traffic, first)
    _match_beside_dead(fabric)
    _exchange_equal_units(fabric)
    for tier in range(len(fabric.tiers)) if replan else ():
        in_tier = fabric.cable_tier == tier
        used = in_tier & (load > 0).any(axis=1)
        cable = int((used if used.any() else in_tier).argmax())
        failed = fabric.without_links([fabric.cable_names[cable]])
        previous = PreviousPlan.of(fabric, traffic, first, made.schedule)
        policy.assign(failed, traffic, previous=previous, options=options)


def _prove_in_one_round(fabric: Fabric, traffic: Traffic, assignment: Assignment) -> None:
    """Prove an ideal time in a single round, after which bounds by prices alone are needed, as on damaged fabrics."""
    flows = np.unique(assignment.flow[assignment.path >= 0])
    leaf = fabric.host_leaf
    gbit = (traffic.bytes[flows] * GBIT).astype(np.float64)
    PricedTimes(fabric).least_time(leaf[traffic.src[flows]], leaf[traffic.dst[flows]], gbit, rounds=1)


def _match_beside_dead(fabric: Fabric) -> None:
    """Choose units by a matching on one choice, which plans need only where several cables are dead or slow."""
    if len(fabric.tiers) > 1:
        one = np.zeros(1, dtype=np.int32)
        matched_beside_dead(one, one, fabric.live_ways.tier(0), np.full(1, -1, dtype=np.int32))


def _exchange_equal_units(fabric: Fabric) -> None:
    """Place and exchange units on links with room for several, which plans need only where cables are dead."""
    if len(fabric.tiers) > 1:
        ways, one = fabric.live_ways, np.zeros(1, dtype=np.int32)
        tier = ways.tier(0)
        above = ways.above[ways.table[0] : ways.table[1]].reshape(tier.up.shape)
        room = np.zeros((2, int(above.max()) + 1), dtype=np.int64)
        equal_chains.insert(one, one, Tier(*(np.ascontiguousarray(links[one]) for links in tier)), 2, one - 1)
        equal_chains.make_room(one, one, one > 0, tier, 2, above, room, np.zeros(1, dtype=np.int64))


def _is_timed(traffic: Traffic) -> bool:
    return any(collective.timing is not None for collective in traffic.collectives)
