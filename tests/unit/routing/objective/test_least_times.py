"""Least times by prices of links, against the linear program, on fabrics whose cables differ."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.model.traffic import Collective, Traffic
from controller.planning.make_plan import make_plan
from controller.routing import warm_up
from controller.routing.objective.bounds import bound
from controller.routing.problem.demand import NETWORK, Demand
from controller.routing.relaxation import concurrent, least_times
from controller.routing.relaxation.least_times import LeastTimes
from controller.routing.relaxation.priced import PricedTimes
from controller.routing.warm_up_instances import FabricKind
from tests.unit.laws import examples
from tests.unit.routing.compiled_kernels import compiled
from tests.unit.routing.instances import random_fabric, random_traffic, traffic_of
from tests.unit.routing.pod_fabrics import fat_tree, random_pods

SPEEDS = (10.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0)
"""Gbit/s of cables that do not have 100."""


def damaged(rng: np.random.Generator, fabric: Fabric) -> Fabric:
    """The fabric with up to a third of its cables slow, a few of them down, and perhaps a switch drained."""
    cables = list(fabric.cables)
    for c in rng.choice(len(cables), rng.integers(0, len(cables) // 3 + 1), replace=False).tolist():
        cables[c] = dataclasses.replace(cables[c], gbps=float(rng.choice(SPEEDS)), up=bool(rng.random() > 0.3))
    changed = dataclasses.replace(fabric, cables=tuple(cables))
    above = [switch.name for layer in fabric.layers[1:] for switch in layer]
    return changed.without_links([str(rng.choice(above))] if rng.random() < 0.3 else [])


def permutation(rng: np.random.Generator, fabric: Fabric) -> Traffic:
    """Every host sends to another one, in one collective."""
    order = rng.permutation(fabric.n_hosts).tolist()
    flows = [(a, b, 10**9, 0) for a, b in zip(order, order[1:] + order[:1], strict=True)]
    return traffic_of(flows, [Collective("a", "c")])


@st.composite
def uneven(draw: st.DrawFn, *, phases: bool = False) -> tuple[Fabric, Traffic]:
    """A fabric of two or three layers whose cables differ, and a traffic on it."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["leaves", "pods", "leaf-spine", "fat tree", "planes"]))
    if kind in ("leaves", "pods"):
        fabric = random_fabric(rng) if kind == "leaves" else random_pods(rng, most=4)
        return fabric, random_traffic(rng, fabric, phases=phases)
    if kind == "leaf-spine":
        healthy = clos(*(int(n) for n in rng.integers(2, 7, 3)))
    elif kind == "planes":
        healthy = pod_clos(2, 2, 2, 2, 2, planes=2) if rng.random() < 0.5 else clos(3, 4, 3, planes=2)
    else:
        healthy = pod_clos(*(int(n) for n in rng.integers(2, 5, 5)))
    fabric = damaged(rng, healthy)
    if kind == "planes" or rng.random() < 0.5:
        return fabric, random_traffic(rng, fabric, phases=phases)
    return fabric, permutation(rng, fabric)


def network(demand: Demand) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """The ends and loads of the flows that cross the fabric."""
    moving = np.flatnonzero((demand.fixed == NETWORK) & (demand.load > 0))
    return demand.leaf_src[moving], demand.leaf_dst[moving], demand.load[moving]


LAW = settings(max_examples=examples(30, 4000), deadline=None, suppress_health_check=list(HealthCheck))


@LAW
@given(uneven(), st.sampled_from([3, 40, 600]))
def test_the_time_of_the_program_is_between_the_proved_times(instance: tuple[Fabric, Traffic], rounds: int) -> None:
    fabric, traffic = instance
    flows = network(Demand.of(fabric, traffic))
    solved = concurrent.least_time(fabric, *flows)
    assert solved is not None
    known = PricedTimes(fabric).least_time(*flows, rounds=rounds)
    assert known.at_least <= solved.seconds * (1 + 1e-6)
    assert solved.seconds <= known.at_most * (1 + 1e-6)
    if known.exact:
        assert known.at_least == pytest.approx(solved.seconds, rel=1e-6)


@LAW
@given(uneven(phases=True))
def test_bounds_and_ideal_times_without_the_program_are_weaker_and_say_so(instance: tuple[Fabric, Traffic]) -> None:
    fabric, traffic = instance
    exact = Demand.of(fabric, traffic)
    limit = bound(fabric, traffic, demand=exact, exact=True)
    assert limit.split_exact
    assert not exact.ideal_within.any()
    assert limit.split is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(least_times, "MOST_VARIABLES", 0)
        quick = Demand.of(fabric, traffic)
        weaker = bound(fabric, traffic, demand=exact)
    levels = np.flatnonzero(exact.in_game)
    most = quick.ideal_seconds[levels] * (1 + quick.ideal_within[levels])
    assert (quick.ideal_seconds[levels] <= exact.ideal_seconds[levels] * (1 + 1e-6)).all()
    assert (exact.ideal_seconds[levels] <= most * (1 + 1e-6)).all()
    assert weaker.split is not None
    assert weaker.split >= limit.split * (1 - 1e-6)
    if weaker.split_exact:
        assert weaker.split == pytest.approx(limit.split, rel=1e-6)


@pytest.mark.parametrize(("k", "count"), [(8, 8), (8, 20), (16, 8), (16, 64)])
@pytest.mark.parametrize("tier", [0, 1, None])
def test_a_permutation_over_slow_cables_takes_as_long_as_the_cuts_require(k: int, count: int, tier: int | None) -> None:
    """On these sizes the linear program takes from a tenth of a second to hours."""
    rng, fabric = np.random.default_rng(1), fat_tree(k)
    cables = list(fabric.cables)
    some = np.flatnonzero((fabric.cable_tier == tier) | (tier is None))
    for c in rng.choice(some, count, replace=False).tolist():
        cables[c] = dataclasses.replace(cables[c], gbps=float(rng.choice(SPEEDS)))
    slow = dataclasses.replace(fabric, cables=tuple(cables))
    traffic = permutation(rng, slow)
    plan = make_plan(slow, traffic, policy="fair", clock=lambda: 0.0)
    assert plan.objective.ideal_within == 0.0
    assert plan.bound.split_exact
    assert plan.bound.split == 1.0


def test_a_program_that_is_too_large_is_solved_only_when_an_exact_bound_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pod 1 has planes 2 and 3, pod 2 planes 1 and 3: only plane 3 is left between them, though each cut has two."""
    monkeypatch.setattr(least_times, "MOST_VARIABLES", 0)
    searched = PricedTimes.least_time
    monkeypatch.setattr(
        PricedTimes, "least_time", lambda self, src, dst, gbit, at_least: searched(self, src, dst, gbit, at_least, 1)
    )
    fabric = pod_clos(2, 3, 3, 3, 3).without_links(["agg1", "agg5"])
    rows = [Collective("a", "c"), Collective("b", "c")]
    traffic = traffic_of([(h, h + 9, 10**9, h % 2) for h in range(9)], rows)
    flows = network(Demand.of(fabric, traffic))
    quick, exact = (LeastTimes(fabric, exact=exact).of(*flows, 0.0) for exact in (False, True))
    assert exact.exact
    assert quick.at_least < exact.at_least * (1 - 1e-6)
    assert not quick.exact
    plans = [make_plan(fabric, traffic, policy="fair", exact_bound=asked, clock=lambda: 0.0) for asked in (False, True)]
    assert [plan.bound.split_exact for plan in plans] == [False, True]
    assert (plans[0].bound.split or 0) > (plans[1].bound.split or 0)
    np.testing.assert_array_equal(plans[0].assignment.path, plans[1].assignment.path)
    assert plans[0].objective.levels == plans[1].objective.levels


@pytest.mark.parametrize("turned", [False, True])
def test_demands_of_a_single_leaf_need_no_kernel_of_their_own(turned: bool) -> None:
    """A table of one row is in both orders of memory: a kernel for each order would be compiled amid a request."""
    whole = clos(3, 4, 2)
    # No choice is like another one, so tables of several leaves have several columns.
    cables = tuple(dataclasses.replace(cable, gbps=SPEEDS[c % 10]) for c, cable in enumerate(whole.cables))
    fabric = dataclasses.replace(whole, cables=cables)
    warm_up([FabricKind.of(fabric)])
    before = compiled()
    one, others = np.zeros(3, dtype=np.int32), np.arange(1, 4, dtype=np.int32)
    src, dst = (others, one) if turned else (one, others)
    assert PricedTimes(fabric).least_time(src, dst, np.ones(3)).at_least > 0
    assert compiled() == before
