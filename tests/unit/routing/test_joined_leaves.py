"""Which flows need a path, and which have none: the quick answers are those of all paths of two leaves."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.assignment import LOCAL, UNROUTABLE
from controller.model.files.pod_clos import pod_clos
from controller.routing.problem.demand import NETWORK, Demand
from tests.unit.laws import examples
from tests.unit.routing.instances import random_traffic


@settings(max_examples=examples(40, 1000), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_flow_needs_a_path_where_some_live_path_joins_its_leaves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pods, leaves, aggs, cores = (int(rng.integers(1, 4)) for _ in range(4))
    fabric = pod_clos(pods + 1, leaves, aggs, cores, 2)
    names = [*fabric.cable_names, *(switch.name for layer in fabric.layers for switch in layer)]
    fabric = fabric.without_links(rng.choice(names, min(len(names), int(rng.integers(0, 5))), replace=False).tolist())
    traffic = random_traffic(rng, fabric, most_flows=60)
    demand = Demand.of(fabric, traffic)
    for flow in range(traffic.n_flows):
        src, dst = int(demand.leaf_src[flow]), int(demand.leaf_dst[flow])
        joined = NETWORK if len(fabric.live_ways.between(src, dst)) else UNROUTABLE
        ends = fabric.link_up[[traffic.src[flow], traffic.dst[flow]]].all()
        assert demand.fixed[flow] == ((LOCAL if src == dst else joined) if ends else UNROUTABLE)
