"""Laws of three layers whose long form takes minutes: ``make laws``.

``FAIRSPINE_LAWS=long`` in the environment draws 1,000 sizes and 200 failures of each fat tree, in place of a few.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from benchmarks.plans import contract_draws as drawn
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.fabric_file import parse_fabric
from controller.model.files.pod_clos import pod_clos
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Collective, Traffic
from controller.routing import Options, assign
from controller.routing.objective.bounds import bound, gap
from controller.routing.objective.fairness import evaluate
from controller.routing.problem.demand import Demand
from controller.routing.validate import validate_assignment
from tests.unit.laws import examples
from tests.unit.routing.instances import random_traffic, traffic_of
from tests.unit.routing.objective.least_times import least_seconds
from tests.unit.routing.pod_fabrics import fat_tree

Damage = Callable[[Fabric, np.random.Generator], Fabric]
SEEDS = st.integers(0, 2**32 - 1)
SIZES = settings(max_examples=examples(12, 1000), deadline=None, suppress_health_check=list(HealthCheck))
FAILURES = settings(max_examples=examples(8, 200), deadline=None, suppress_health_check=list(HealthCheck))


def permutations(fabric: Fabric, rng: np.random.Generator, rounds: int) -> Traffic:
    """Every host sends one flow in each round, and receives one, unless a host draws itself."""
    flows = [
        (a, b, 10**9, 0)
        for _ in range(rounds)
        for a, b in enumerate(rng.permutation(fabric.n_hosts).tolist())
        if a != b
    ]
    return traffic_of(flows, [Collective("a", "c")])


@SIZES
@given(SEEDS)
def test_equal_loads_have_gap_0_on_healthy_fabrics_without_oversubscription(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pods, leaves, hosts = (int(rng.integers(2, 17)), int(rng.integers(1, 13)), int(rng.integers(1, 13)))
    aggs, cores = hosts + int(rng.integers(0, 3)), leaves + int(rng.integers(0, 3))
    fabric = pod_clos(pods, leaves, aggs, cores, hosts)
    traffic = permutations(fabric, rng, int(rng.integers(1, 5)))
    made = assign("fair", fabric, traffic).assignment
    validate_assignment(fabric, traffic, made)
    assert gap(evaluate(fabric, traffic, made), bound(fabric, traffic), made) == pytest.approx(0, abs=1e-9)


@SIZES
@given(SEEDS)
def test_equal_loads_in_phases_have_gap_0_on_healthy_fabrics_of_every_kind(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = drawn.fabric_of(str(rng.choice(drawn.KINDS)), int(rng.integers(2, 9)), rng, oversubscribed=False)
    traffic = drawn.equal_loads(fabric, rng)
    made = assign("fair", fabric, traffic).assignment
    validate_assignment(fabric, traffic, made)
    assert gap(evaluate(fabric, traffic, made), bound(fabric, traffic), made) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("damage", [drawn.damaged, drawn.worn])
@FAILURES
@given(SEEDS)
def test_with_failures_the_lowest_level_is_near_the_best_that_an_integer_program_finds(
    damage: Damage, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    fabric = drawn.fabric_of(str(rng.choice(drawn.KINDS)), 2, rng, oversubscribed=True)
    fabric = damage(fabric, rng)
    traffic = drawn.mixed(fabric, rng)
    made = assign("fair", fabric, traffic).assignment
    validate_assignment(fabric, traffic, made)
    level = evaluate(fabric, traffic, made).min_level
    if level < (bound(fabric, traffic).single or 0) * (1 - TOLERANCE):
        best = assign("ilp", fabric, traffic, options=Options(rounds=0, nodes=100)).assignment
        assert level >= 0.95 * evaluate(fabric, traffic, best).min_level


@pytest.mark.parametrize("damage", [drawn.damaged, drawn.worn])
@FAILURES
@given(SEEDS)
def test_split_is_never_below_whole_paths_and_near_the_bound_of_free_splitting(damage: Damage, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = drawn.fabric_of(str(rng.choice(drawn.KINDS)), int(rng.integers(2, 5)), rng, oversubscribed=True)
    fabric = damage(fabric, rng)
    traffic = drawn.mixed(fabric, rng)
    cut, whole = (assign(policy, fabric, traffic).assignment for policy in ("split", "fair"))
    validate_assignment(fabric, traffic, cut)
    level, limit = evaluate(fabric, traffic, cut).min_level, bound(fabric, traffic).split or 0
    assert level >= evaluate(fabric, traffic, whole).min_level * (1 - TOLERANCE)
    assert level >= 0.99 * limit


@FAILURES
@given(SEEDS)
def test_a_bounded_integer_program_never_lowers_the_lowest_level_and_finds_what_no_search_has(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = drawn.damaged(drawn.fabric_of("three tiers", 2, rng, oversubscribed=True), rng)
    traffic = drawn.mixed(fabric, rng)
    best = assign("ilp", fabric, traffic, options=Options(nodes=100))
    alone, helped = (
        evaluate(fabric, traffic, assign("fair", fabric, traffic, options=options).assignment).min_level
        for options in (Options(rounds=0), Options(rounds=0, exact_ms=60_000))
    )
    assert helped >= alone * (1 - TOLERANCE)
    if best.status == "optimal":
        assert helped >= 0.99 * evaluate(fabric, traffic, best.assignment).min_level


@pytest.mark.parametrize("damage", [drawn.damaged, drawn.worn])
@FAILURES
@given(SEEDS)
def test_the_order_of_jobs_and_flows_changes_the_lowest_level_by_at_most_a_hundredth(damage: Damage, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = drawn.fabric_of(str(rng.choice(drawn.KINDS)), int(rng.integers(2, 4)), rng, oversubscribed=True)
    fabric = damage(fabric, rng)
    traffic = drawn.mixed(fabric, rng)
    levels = [
        evaluate(fabric, each, assign("fair", fabric, each).assignment).min_level
        for each in (traffic, drawn.reordered(traffic, rng))
    ]
    assert min(levels) >= 0.99 * max(levels)


def damaged(fabric: Fabric, rng: np.random.Generator) -> Fabric:
    """The fabric with some dead cores, aggregation switches (each in a pod and plane of its own choice) and cables."""
    aggs, cores = ([switch.name for switch in layer] for layer in fabric.layers[1:])
    down = [
        *rng.choice(cores, int(rng.integers(0, 1 + len(cores) // 4)), replace=False).tolist(),
        *rng.choice(aggs, int(rng.integers(0, 4)), replace=False).tolist(),
        *rng.choice(fabric.cable_names, int(rng.integers(0, 4)), replace=False).tolist(),
    ]
    return fabric.without_links(down)


@pytest.mark.parametrize("k", [4, 6, 8])
@FAILURES
@given(seed=SEEDS)
def test_the_bound_for_splitting_is_the_linear_program_over_paths_whatever_has_failed(k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = damaged(fat_tree(k), rng)
    # A collective of its own for each flow: those that no path is left for do not take others out.
    order = enumerate(rng.permutation(fabric.n_hosts).tolist())
    ends = [(a, b, 10**9, n) for n, (a, b) in enumerate((a, b) for a, b in order if a != b)]
    demand = Demand.of(fabric, traffic_of(ends, [Collective("a", f"c{n}") for n in range(len(ends))]))
    flows = np.flatnonzero(demand.load > 0)
    assume(len(flows) > 0)
    wanted = 1 / least_seconds(fabric, demand, flows, demand.load[flows])
    assert bound(fabric, demand.traffic).split == pytest.approx(wanted, rel=1e-6)


@settings(max_examples=examples(20, 500), deadline=None)
@given(SEEDS)
def test_any_cabling_is_planned_or_refused_in_one_line_that_names_a_switch(seed: int) -> None:
    """Cores that reach one pod, planes of unlike widths, pods that share an aggregation switch, parallel cables."""
    rng = np.random.default_rng(seed)
    leaves, aggs, cores = (
        [f"{role}{i + 1}" for i in range(int(rng.integers(1, 6)))] for role in ("leaf", "agg", "core")
    )
    switches = [
        {"name": name, "role": role, "dpid": dpid}
        for dpid, (name, role) in enumerate(
            [*((n, "leaf") for n in leaves), *((n, "aggregation") for n in aggs), *((n, "core") for n in cores)], 1
        )
    ]
    links = [
        {"a": low, "b": high, "gbps": float(rng.choice([40, 100]))}
        for lower, upper in ((leaves, aggs), (aggs, cores))
        for low in lower
        for high in upper
        for _ in range(int(rng.choice([0, 1, 1, 2])))
    ]
    hosts = [{"name": f"h{i}-{n}", "leaf": leaf} for i in range(2) for n, leaf in enumerate(leaves)]
    try:
        fabric = parse_fabric({"switches": switches, "links": links, "hosts": hosts}, source="F")
    except InputError as error:
        assert "\n" not in str(error)
        assert any(name in str(error) for name in (*leaves, *aggs, *cores)), str(error)
        return
    traffic = random_traffic(rng, fabric)
    for policy in ("fair", "ecmp"):
        validate_assignment(fabric, traffic, assign(policy, fabric, traffic, options=Options(rounds=500)).assignment)
