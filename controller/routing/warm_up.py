"""Compile every kernel once, so that nothing is compiled inside a request."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence

import numpy as np

from controller.model.clos import clos
from controller.model.fabric import Fabric, IntArray
from controller.model.queue_pairs import QueuePairs
from controller.model.timing import JobTiming
from controller.model.traffic import ANY_PORT, Collective, Int64Array, Traffic
from controller.routing.base import Options, Policy
from controller.routing.bounds import bound
from controller.routing.demand import Demand
from controller.routing.flow_estimate import plan_times
from controller.routing.objective import evaluate
from controller.routing.previous_plan import PreviousPlan
from controller.routing.registry import BUILT_IN


@functools.cache
def warm_up() -> None:
    """Run every policy on small instances that together reach every kernel, at the first call in a process.

    It takes about a second, and about a minute if nothing is cached on disk yet.

    Compiled code is cached on disk, beside the package or, if that is read-only, in the user's cache folder
    (``NUMBA_CACHE_DIR`` overrides both).
    """
    for timed in (False, True):
        warm_up_plans(timed=timed)


def warm_up_plans(*, timed: bool) -> None:
    """Do the part of ``warm_up`` for jobs that state when they compute (``timed``), or that for jobs that do not."""
    every = Options(hash="toeplitz", estimate_demand=True, ethereal_by="leaf", max_splits=9, shifts="advise")
    instances = [(fabric, traffic) for fabric, traffic in _instances() if _is_timed(traffic) == timed]
    _run(BUILT_IN.values(), (Options(), every), instances, replan=True)


def warm_up_for(policies: Iterable[str], options: Options, traffic: Traffic, *, replan: bool = False) -> None:
    """Compile or load what plans of this traffic need: a part of what ``warm_up`` does.

    Args:
        policies: names; those that are not built in are left out.
        options: the options of the policies.
        traffic: decides whether the kernels of jobs with a timing are needed.
        replan: whether plans stay near an earlier one.
    """
    timed = _is_timed(traffic)
    instances = [(fabric, flows) for fabric, flows in _instances() if timed or not _is_timed(flows)]
    _run([BUILT_IN[name] for name in policies if name in BUILT_IN], [options], instances, replan=replan)


def _run(
    policies: Iterable[Policy],
    variants: Sequence[Options],
    instances: Sequence[tuple[Fabric, Traffic]],
    *,
    replan: bool,
) -> None:
    """Plan each instance, evaluate the plan, and plan again after a failure if ``replan``."""
    quick = [dataclasses.replace(options, rounds=200, annealing_rounds=20, nodes=1) for options in variants]
    policies = list(policies)
    for fabric, traffic in instances:
        bound(fabric, traffic)
        for policy in policies:
            for options in quick:
                made = policy.assign(fabric, traffic, options=options)
                first = made.assignment
                evaluate(fabric, traffic, first)
                plan_times(Demand.of(fabric, traffic), first)
                if replan:
                    failed = fabric.without_links([fabric.cable_names[0]])
                    previous = PreviousPlan.of(fabric, traffic, first, made.schedule)
                    policy.assign(failed, traffic, previous=previous, options=options)


def _is_timed(traffic: Traffic) -> bool:
    return any(collective.timing is not None for collective in traffic.collectives)


def _instances() -> list[tuple[Fabric, Traffic]]:
    """Return instances with equal and unequal loads, tight and irregular fabrics, phases, shared units, and QPs."""
    even = clos(3, 3, 3)
    ring = np.arange(9, dtype=np.int32)
    equal = _traffic(ring, (ring + 3) % 9, np.full(9, 10**9), ring * 0, [Collective("a", "c")])
    phases = [Collective("a", "c"), Collective("a", "d", phase=1), Collective("b", "c", weight=2.0)]
    sizes = (1 + ring.astype(np.int64)) * 10**8
    unequal = _traffic(np.tile(ring, 2), np.tile((ring + 4) % 9, 2), np.tile(sizes, 2), np.tile(ring % 3, 2), phases)
    odd = dataclasses.replace(
        even,
        cables=tuple(
            dataclasses.replace(cable, gbps=40.0 + 10 * (c % 2), up=c != 4) for c, cable in enumerate(even.cables)
        ),
    )
    narrow = clos(2, 3, 3)
    computing = JobTiming(((0, 0.1),))
    timed = dataclasses.replace(
        unequal, collectives=tuple(dataclasses.replace(row, timing=computing) for row in unequal.collectives)
    )
    qps = dataclasses.replace(equal, collectives=(Collective("a", "c", qps=QueuePairs(3)),))
    return [
        (even, equal),
        (even, qps),
        (even, unequal),
        (narrow, equal),
        (narrow, unequal),
        (odd, equal),
        (odd, unequal),
        (narrow, timed),
    ]


def _traffic(
    src: IntArray,
    dst: IntArray,
    size: Int64Array,
    collective: IntArray,
    collectives: list[Collective],
) -> Traffic:
    order = np.argsort(collective, kind="stable")
    number = np.arange(len(src), dtype=np.int32)
    port = np.where(number % 9 == 8, ANY_PORT, 49152 + number).astype(np.int32)
    columns = (src[order], dst[order], size[order], collective[order], number, port[order])
    return Traffic(*columns, tuple(collectives))
