"""Plans that avoid barred paths."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controller.model.assignment import Assignment
from controller.model.files.clos import clos
from controller.model.paths.barred_paths import BarredPaths
from controller.planning.around_barred import around
from controller.routing.problem.demand import Demand
from tests.unit.southbound.plans import assignments, patchy_fabrics, patient, traffic_of, traffics


@patient
@given(data=st.data())
def test_no_flow_is_on_a_barred_path_where_its_hosts_have_another_and_shares_stay(data: st.DataObject) -> None:
    fabric = data.draw(patchy_fabrics().filter(lambda fabric: fabric.cables))
    traffic = data.draw(traffics(fabric, "per_flow"))
    before = data.draw(assignments(fabric, traffic))
    pairs = sorted(set(zip(traffic.src.tolist(), traffic.dst.tolist(), strict=True)))
    paths = st.frozensets(st.integers(0, 11), max_size=8)
    barred = BarredPaths({pair: data.draw(paths) for pair in pairs})
    after = around(fabric, traffic, before, barred, Demand.of(fabric, traffic))
    if after is None:
        assert not barred.rows(fabric, traffic, before)
        return
    assert barred.rows(fabric, traffic, before)
    assert not barred.rows(fabric, traffic, after)
    shares: dict[int, float] = defaultdict(float)
    for flow, share in zip(after.flow.tolist(), after.share.tolist(), strict=True):
        shares[flow] += share
    total = np.bincount(before.flow, weights=before.share, minlength=traffic.n_flows)
    assert np.allclose([shares[flow] for flow in range(traffic.n_flows)], total)
    assert sorted(after.flow.tolist()) == after.flow.tolist()
    live = {
        (src, dst): fabric.live_paths(*map(int, fabric.host_leaf[[src, dst]])).tolist()
        for src, dst in pairs
        if fabric.host_leaf[src] != fabric.host_leaf[dst]
    }
    was = set(zip(before.flow.tolist(), before.path.tolist(), strict=True))
    for flow, path in zip(after.flow.tolist(), after.path.tolist(), strict=True):
        if path >= 0 and (flow, path) not in was:
            assert path in live[int(traffic.src[flow]), int(traffic.dst[flow])]


def test_flows_that_leave_barred_paths_spread_over_the_others() -> None:
    fabric = clos(4, 2, 4)
    traffic = traffic_of([(n, 4 + n, 50000 + n) for n in range(4)])
    barred = BarredPaths({(n, 4 + n): frozenset({0}) for n in range(3)})
    before = Assignment.single(np.zeros(4, dtype=np.int32))
    after = around(fabric, traffic, before, barred, Demand.of(fabric, traffic))
    assert after is not None
    assert sorted(after.path.tolist()) == [0, 1, 2, 3]
    assert after.path[3] == 0
