"""Short cuts of ``fair`` agree with what they replace: levels from loads, flows that switches can tell apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.model.traffic import Collective, Traffic
from controller.routing import assign
from controller.routing.kernels import units
from controller.routing.objective.incidence import Incidence
from controller.routing.placing.improve_levels import Goal, levels_of
from controller.routing.problem.demand import Demand

FABRICS = {
    "leaf-spine": clos(3, 4, 3),
    "planes": clos(2, 3, 2, planes=2),
    "three layers": pod_clos(3, 2, 2, 2, 2),
    "with a dead core": pod_clos(3, 2, 2, 2, 2).without_links(["core1"]),
    "oversubscribed": pod_clos(3, 2, 2, 1, 2),
}


def drawn(fabric: Fabric, seed: int, n_flows: int) -> Traffic:
    """Flows between ports of one plane, of a few collectives, some of them alike."""
    rng = np.random.default_rng(seed)
    plane = fabric.planes.of_host
    src = rng.integers(0, fabric.n_hosts, n_flows)
    dst = np.array([rng.choice(np.flatnonzero((plane == plane[a]) & (np.arange(fabric.n_hosts) != a))) for a in src])
    number = np.arange(n_flows)
    jobs = tuple(Collective(f"job{k}", "c", weight=float(1 + k % 2)) for k in range(3))
    size = np.full(n_flows, 10**9) if rng.random() < 0.5 else rng.integers(1, 5, n_flows) * 10**8
    port = 49152 + rng.integers(0, 3, n_flows)
    kinds = np.sort(rng.integers(0, 3, n_flows))
    columns = [each.astype(np.int32) for each in (src, dst, kinds, number, port)]
    return Traffic(columns[0], columns[1], size.astype(np.int64), columns[2], columns[3], columns[4], jobs)


@pytest.mark.parametrize("name", FABRICS)
@given(seed=st.integers(0, 10**6), n_flows=st.integers(1, 12))
def test_levels_from_loads_are_those_of_filling(name: str, seed: int, n_flows: int) -> None:
    fabric = FABRICS[name]
    traffic = drawn(fabric, seed, n_flows)
    demand = Demand.of(fabric, traffic)
    goal = Goal(demand)
    np.testing.assert_allclose(goal.relaxed, Incidence.relaxed(demand).levels(demand)[0], rtol=1e-6)
    for policy in ("fair", "ecmp"):
        path = assign(policy, fabric, traffic).assignment.path
        of_units = path[demand.part_flow[demand.part_ptr[:-1]]]
        found = goal.levels(of_units)
        np.testing.assert_allclose(found, levels_of(demand, of_units), rtol=1e-6)
        # The bounds without the short cut of ``reached`` say the same.
        assert goal.reached(found) == goal.reached(found.copy())


@given(seed=st.integers(0, 10**6), n_flows=st.integers(0, 80), n_hosts=st.integers(1, 9))
def test_flows_are_distinct_if_no_two_have_the_same_ends_and_port(seed: int, n_flows: int, n_hosts: int) -> None:
    rng = np.random.default_rng(seed)
    ends = [rng.integers(0, n_hosts, n_flows).astype(np.int32) for _ in range(2)]
    port = rng.integers(0, 2**16 if seed % 2 else 300, n_flows).astype(np.int32)
    distinct = len(set(zip(*(each.tolist() for each in (*ends, port)), strict=True))) == n_flows
    assert units.all_distinct(ends[0], ends[1], port, n_hosts) == distinct


@pytest.mark.parametrize("name", FABRICS)
def test_flows_are_classified_alike_with_and_without_a_dead_cable(name: str) -> None:
    fabric = FABRICS[name]
    src, dst = (each.reshape(-1).astype(np.int32) for each in np.meshgrid(*[np.arange(fabric.n_hosts)] * 2))
    up = fabric.link_up[: fabric.n_hosts]
    a, b, fixed = units.classify_on_ways(src, dst, fabric.host_leaf, up, fabric.live_ways)
    joined = np.array([x == y or len(fabric.live_paths(x, y)) > 0 for x, y in zip(a.tolist(), b.tolist(), strict=True)])
    assert np.array_equal(fixed == 0, joined & (a != b))
    assert np.array_equal(fixed == -1, a == b)
    met = fabric.live_ways.meet(a, b)
    assert np.array_equal(units.meet(a, b, fabric.live_ways.group), met)
