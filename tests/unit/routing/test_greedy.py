"""The guarantee of arXiv 2503.05324: with equal loads, greedy has at least half of the best lowest level."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.clos import clos
from controller.model.traffic import Collective
from controller.routing import assign
from controller.routing.objective import evaluate
from tests.unit.routing.instances import traffic_of


@given(st.integers(2, 4), st.integers(2, 4), st.integers(1, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_with_equal_loads_the_lowest_level_is_at_least_half_of_the_optimum(
    spines: int, leaves: int, hosts: int, seed: int
) -> None:
    fabric = clos(spines, leaves, hosts)
    drawn = np.random.default_rng(seed)
    # A permutation of the hosts, each flow a collective of its own: all loads are those of a host's link.
    flows = [(src, int(dst), 10**9, src) for src, dst in enumerate(drawn.permutation(fabric.n_hosts)) if src != dst]
    flows = [(src, dst, size, i) for i, (src, dst, size, _) in enumerate(flows)]
    traffic = traffic_of(flows, [Collective("j", f"c{i}") for i in range(len(flows))])
    best = assign("ilp", fabric, traffic)
    level = [evaluate(fabric, traffic, each.assignment).min_level for each in (assign("greedy", fabric, traffic), best)]
    assert best.status == "optimal"
    assert level[0] >= level[1] / 2 * (1 - 1e-6)
