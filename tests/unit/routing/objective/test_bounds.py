from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.traffic import Collective, Traffic
from controller.routing.kernels.levels import spread
from controller.routing.objective.bounds import bound, cut_bound, single_bound, split_bound
from controller.routing.objective.fairness import evaluate
from controller.routing.problem.demand import NETWORK, Demand
from controller.routing.relaxation import concurrent, ideal
from controller.routing.relaxation.priced import LeastTime, PricedTimes
from tests.unit.laws import examples
from tests.unit.routing.instances import instances, random_fabric, random_traffic, traffic_of


@settings(max_examples=examples(30, 180), deadline=None)
@given(instances(symmetric=True))
def test_the_closed_form_equals_the_linear_program_on_symmetric_fabrics(instance: tuple[Fabric, Traffic]) -> None:
    fabric, traffic = instance
    demand = Demand.of(fabric, traffic)
    moving = np.flatnonzero((demand.fixed == NETWORK) & (demand.gbps > 0))
    if not len(moving):
        return
    group = demand.group[traffic.collective[moving]]
    solved = concurrent.least_time(
        fabric, demand.leaf_src[moving], demand.leaf_dst[moving], demand.load[moving], group, demand.group_job
    )
    assert solved is not None
    nics = cut_bound(demand)
    assert split_bound(demand).level == pytest.approx(min(nics, 1 / solved.seconds), rel=1e-6)


@settings(max_examples=examples(30, 180), deadline=None)
@given(instances(symmetric=False, phases=False))
def test_ideal_times_without_the_linear_program_equal_those_of_it(instance: tuple[Fabric, Traffic]) -> None:
    fabric, traffic = instance
    demand = Demand.of(fabric, traffic)
    flows = (demand.leaf_src, demand.leaf_dst, demand.fixed)
    cuts = ideal.cut_times(fabric, traffic, *flows)
    with pytest.MonkeyPatch.context() as patch:
        # Nothing is taken for reached: every collective goes to the program.
        patch.setattr(spread, "spread_reaches", lambda order, ptr, *rest: np.zeros(len(ptr) - 1, dtype=np.bool_))
        patch.setattr(PricedTimes, "least_time", lambda _, src, dst, gbit, at_least: LeastTime(at_least, np.inf))
        forced = ideal.ideal_times(fabric, traffic, *flows, cuts)
    assert not forced.within.any()
    np.testing.assert_allclose(demand.ideal_seconds, forced.seconds, rtol=1e-6)


@settings(max_examples=examples(30, 180), deadline=None)
@given(instances())
def test_each_bound_is_at_most_the_cheaper_one_before_it(instance: tuple[Fabric, Traffic]) -> None:
    fabric, traffic = instance
    demand = Demand.of(fabric, traffic)
    limit = bound(fabric, traffic)
    assert limit.split is not None
    assert limit.single is not None
    assert limit.single <= limit.split <= cut_bound(demand) * (1 + 1e-6)


@settings(max_examples=examples(40, 240), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_placement_of_a_few_units_beats_the_bound_for_whole_units(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng, most=3)
    traffic = random_traffic(rng, fabric, most_flows=5)
    demand = Demand.of(fabric, traffic)
    choices = [fabric.live_paths(a, b).tolist() for a, b in zip(demand.unit_src, demand.unit_dst, strict=True)]
    if not demand.in_game.any() or np.prod([len(c) for c in choices]) > 300:
        return
    best = max(
        evaluate(fabric, traffic, demand.assignment(np.array(paths, dtype=np.int32)), demand=demand).min_level
        for paths in itertools.product(*choices)
    )
    limit = bound(fabric, traffic).single
    assert limit is not None
    assert best <= limit * (1 + 1e-6)


@pytest.mark.parametrize(("flows", "spines", "expected"), [(4, 4, 1.0), (5, 4, 0.5), (8, 3, 1 / 3), (9, 4, 1 / 3)])
def test_equal_units_are_rounded_up_per_uplink(flows: int, spines: int, expected: float) -> None:
    fabric = clos(spines, 2, flows)
    traffic = traffic_of([(i, flows + i, 10**9, 0) for i in range(flows)], [Collective("a", "c")])
    # A_k is flows / spines transfers long: relative to it, c / ceil(flows / spines) transfers a link.
    alone = max(1.0, flows / spines)
    limit = bound(fabric, traffic)
    assert limit.single == pytest.approx(expected * alone)
    assert limit.split == pytest.approx(1.0)


def test_unequal_uplinks_hold_only_so_many_whole_units() -> None:
    # Three units of 40 Gbit/s into links of 100 and 50: two and one. A fourth would have to share.
    fabric = clos(2, 2, 4, host_gbps=40)
    cables = tuple(c if c.upper == "spine1" else type(c)(c.lower, c.upper, 50.0) for c in fabric.cables)
    uneven = Fabric(fabric.layers, fabric.hosts, cables)
    three = traffic_of([(i, 4 + i, 10**9, i) for i in range(3)], [Collective("a", str(i)) for i in range(3)])
    four = traffic_of([(i, 4 + i, 10**9, i) for i in range(4)], [Collective("a", str(i)) for i in range(4)])
    assert single_bound(Demand.of(uneven, three)) >= 1.0
    # 3 + 1 needs 3 * 40 t <= 100: t = 5/6; 2 + 2 needs 2 * 40 t <= 50: t = 5/8.
    assert single_bound(Demand.of(uneven, four)) == pytest.approx(5 / 6)


def test_two_large_units_on_one_link_are_foreseen() -> None:
    # Two spines, units of 60, 60 and 50: two of them share whatever happens, and 50 + 60 is the least.
    fabric = clos(2, 2, 3, host_gbps=60)
    sizes = [60, 60, 50]
    traffic = traffic_of([(i, 3 + i, s * 10**6, 0) for i, s in enumerate(sizes)], [Collective("a", "c")])
    demand = Demand.of(fabric, traffic)
    best = max(
        evaluate(fabric, traffic, Assignment.single(np.array(p))).min_level
        for p in itertools.product(range(2), repeat=3)
    )
    limit = bound(fabric, traffic, demand=demand).single
    assert limit == pytest.approx(best)
