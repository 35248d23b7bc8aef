"""Rings of groups on duplex circuits: each port has one circuit, and groups gain by them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.circuits.demand import RingGroup, ShardDemand
from controller.circuits.kernels.routes import LOOSE
from controller.circuits.planning.group_rings import group_rings
from controller.circuits.planning.layers import circuits_of, ends_of, layers_of
from controller.workload.job_file import parse_job
from tests.unit.circuits.drawn import optical, planned
from tests.unit.laws import examples


@settings(deadline=None, max_examples=examples(40, 300))
@given(
    sizes=st.lists(st.integers(2, 6), min_size=1, max_size=4),
    nics=st.integers(2, 5),
    apart=st.booleans(),
    whole_last=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_rings_of_groups_are_duplex_circuits_with_ports_of_their_own(
    sizes: list[int], nics: int, apart: bool, whole_last: bool, seed: int
) -> None:
    n = max(sum(sizes), nics + 1)
    fabric = optical(servers=n + n % 2, nics=nics, duplex=True, switches="per_nic" if apart else "one")
    rng = np.random.default_rng(seed)
    order, servers = rng.permutation(n).tolist(), tuple(range(n))
    groups = tuple(
        RingGroup("a", f"c{i}", tuple(order[sum(sizes[:i]) : sum(sizes[: i + 1])]), 100.0) for i in range(len(sizes))
    )
    layers = layers_of(fabric, servers)
    succ = group_rings(layers, ShardDemand(np.zeros((1, n, n)), groups), rng, whole_last=whole_last)
    assert (succ is None) == layers.pairs_only
    if succ is None:
        return
    circuits = circuits_of(fabric, servers, succ, ends_of(fabric, servers, layers, succ))
    assert len({(each.switch, each.in_port) for each in circuits}) == len(circuits)
    assert len({(each.switch, each.out_port) for each in circuits}) == len(circuits)
    for each in circuits:
        assert each._replace(in_port=each.out_port, out_port=each.in_port) in circuits


def test_groups_of_a_duplex_job_get_rings_of_their_own() -> None:
    ranks = np.random.default_rng(3).permutation(16).tolist()
    calls = [{"name": f"c{i}", "op": "all_reduce", "ranks": ranks[i : i + 4], "bytes": 10**9} for i in range(0, 16, 4)]
    job = parse_job({"name": "a", "hosts": [f"h{i + 1}" for i in range(16)], "collectives": calls})
    (shard,) = planned(optical(servers=16, nics=4, duplex=True), job, effort=0.1).shards
    assert all(len(ring.order) == 4 for ring in shard.routes.rings)
    assert any(ring.layer != LOOSE for ring in shard.routes.rings)
    assert shard.seconds < 1.9 * shard.bound_seconds
