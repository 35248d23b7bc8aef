"""The guarantee of arXiv 2503.05324: with equal loads, greedy has at least half of the best lowest level."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.files.clos import clos
from controller.model.traffic import Collective
from controller.routing import assign
from controller.routing.objective.fairness import evaluate
from tests.unit.laws import examples
from tests.unit.routing.instances import traffic_of


@given(
    st.integers(2, 4),
    st.integers(2, 4),
    st.integers(1, 5),
    st.sampled_from([50.0, 100.0, 400.0]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=examples(40, 240), deadline=None)
def test_with_equal_loads_the_lowest_level_is_at_least_half_of_the_optimum(
    spines: int, leaves: int, hosts: int, uplink_gbps: float, is_permutation: bool, seed: int
) -> None:
    fabric = clos(spines, leaves, hosts, uplink_gbps=uplink_gbps)
    drawn = np.random.default_rng(seed)
    n = fabric.n_hosts
    # Each flow is a collective of its own, so that all loads are the rate of one flow alone.
    src = np.arange(n) if is_permutation else drawn.integers(0, n, int(drawn.integers(1, 25)))
    dst = drawn.permutation(n) if is_permutation else drawn.integers(0, n, len(src))
    pairs = [(int(a), int(b)) for a, b in zip(src, dst, strict=True) if fabric.host_leaf[a] != fabric.host_leaf[b]]
    traffic = traffic_of(
        [(a, b, 10**9, i) for i, (a, b) in enumerate(pairs)], [Collective("j", f"c{i}") for i in range(len(pairs))]
    )
    best = assign("ilp", fabric, traffic)
    level = [evaluate(fabric, traffic, each.assignment).min_level for each in (assign("greedy", fabric, traffic), best)]
    assert best.status == "optimal"
    assert level[0] >= level[1] / 2 * (1 - 1e-6)
