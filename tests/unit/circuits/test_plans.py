"""Laws of plans of circuits: whatever the policy, circuits, routes, rings and figures fit each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.circuits.fabric.optical_fabric import OpticalFabric
from controller.circuits.planning.bounds import bound_seconds
from controller.circuits.planning.circuit_plan import CircuitPlan
from controller.circuits.planning.plan_document import circuit_plan_document
from controller.model.errors import InputError
from controller.workload.job_file import parse_job
from tests.unit.circuits.drawn import drawn_job, optical, optical_fabrics, planned, walked_loads
from tests.unit.laws import examples

LAW = settings(deadline=None, max_examples=examples(20, 120))


def plan_or_none(fabric: OpticalFabric, seed: int, policy: str = "search", phases: int = 1) -> CircuitPlan | None:
    """A plan of a drawn job on all servers; ``None`` where dead ports allow none."""
    try:
        job = drawn_job(seed, list(fabric.servers), phases=phases)
        return planned(fabric, job, policy=policy, seed=seed)
    except InputError as error:
        assert fabric.dead.any() or policy == "totient"
        assert "\n" not in str(error)
        return None


@LAW
@given(fabric=optical_fabrics(), seed=st.integers(0, 10**6), policy=st.sampled_from(["search", "totient"]))
def test_each_port_has_one_circuit_at_most_and_dead_ports_have_none(
    fabric: OpticalFabric, seed: int, policy: str
) -> None:
    plan = plan_or_none(fabric, seed, policy)
    if plan is None:
        return
    circuits = [each for shard in plan.shards for each in shard.circuits]
    assert len({(each.switch, each.in_port) for each in circuits}) == len(circuits)
    assert len({(each.switch, each.out_port) for each in circuits}) == len(circuits)
    for each in circuits:
        ends = [fabric.nic_at[fabric.switch_names.index(each.switch), port] for port in each[1:]]
        assert ends[0][0] != ends[1][0]
        assert not any(fabric.dead[end] for end in ends)
        if fabric.duplex:
            assert each._replace(in_port=each.out_port, out_port=each.in_port) in circuits


@LAW
@given(fabric=optical_fabrics(), seed=st.integers(0, 10**6), policy=st.sampled_from(["search", "totient"]))
def test_every_server_reaches_every_other_one(fabric: OpticalFabric, seed: int, policy: str) -> None:
    plan = plan_or_none(fabric, seed, policy)
    for shard in plan.shards if plan else ():
        m = shard.succ.shape[1]
        for target in range(m):
            for source in range(m):
                at, hops = source, 0
                while at != target:
                    at, hops = int(shard.succ[shard.routes.layer[target, at], at]), hops + 1
                    assert hops < m
                assert shard.hops[target, source] == hops


@LAW
@given(fabric=optical_fabrics(), seed=st.integers(0, 10**6), policy=st.sampled_from(["search", "totient"]))
def test_rings_are_permutations_of_their_groups_and_carry_all_bytes(
    fabric: OpticalFabric, seed: int, policy: str
) -> None:
    plan = plan_or_none(fabric, seed, policy)
    for shard in plan.shards if plan else ():
        for g, group in enumerate(shard.shard.demand.groups):
            rings = [ring for ring in shard.routes.rings if ring.group == g]
            assert sum(ring.share for ring in rings) == pytest.approx(1)
            assert all(sorted(ring.order) == sorted(group.members) and ring.share > 0 for ring in rings)


@LAW
@given(fabric=optical_fabrics(), seed=st.integers(0, 10**6), phases=st.integers(1, 3))
def test_time_is_that_of_the_fullest_circuit_and_never_below_the_bound(
    fabric: OpticalFabric, seed: int, phases: int
) -> None:
    plan = plan_or_none(fabric, seed, phases=phases)
    for shard in plan.shards if plan else ():
        loads = walked_loads(shard)
        np.testing.assert_allclose(loads, shard.loads, atol=1)
        assert shard.seconds == pytest.approx(float(loads.max(axis=(1, 2)).sum()) * 8e-9 / fabric.gbps, abs=1e-15)
        assert shard.ideal_seconds <= shard.bound_seconds * (1 + 1e-9)
        assert shard.bound_seconds <= shard.seconds * (1 + 1e-9)


@LAW
@given(fabric=optical_fabrics(max_dead=0), seed=st.integers(0, 10**6), phases=st.integers(1, 2))
def test_the_search_is_never_worse_than_totient_perms(fabric: OpticalFabric, seed: int, phases: int) -> None:
    totient = plan_or_none(fabric, seed, "totient", phases)
    searched = plan_or_none(fabric, seed, "search", phases)
    assert searched is not None
    for one, other in zip(searched.shards, totient.shards if totient else (), strict=False):
        assert one.seconds <= other.seconds * (1 + 1e-9)


@settings(deadline=None, max_examples=10)
@given(fabric=optical_fabrics(), seed=st.integers(0, 10**6))
def test_equal_arguments_give_equal_plans(fabric: OpticalFabric, seed: int) -> None:
    one, other = plan_or_none(fabric, seed), plan_or_none(fabric, seed)
    assert (one is None) == (other is None)
    if one and other:
        assert circuit_plan_document(one) == circuit_plan_document(other)


@settings(deadline=None, max_examples=examples(10, 60))
@given(seed=st.integers(0, 10**6), nics=st.integers(1, 3), sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_jobs_have_servers_and_circuits_of_their_own(seed: int, nics: int, sizes: list[int]) -> None:
    fabric = optical(servers=15, nics=nics)
    names = np.random.default_rng(seed).permutation(fabric.servers).tolist()
    jobs = []
    for i, size in enumerate(sizes):
        jobs.append(drawn_job(seed + i, names[:size], f"job{i}"))
        del names[:size]
    plan = planned(fabric, *jobs)
    assert [shard.shard.jobs for shard in plan.shards] == [(job.name,) for job in jobs]
    home = {server: i for i, shard in enumerate(plan.shards) for server in shard.shard.servers}
    for i, shard in enumerate(plan.shards):
        for each in shard.circuits:
            switch = fabric.switch_names.index(each.switch)
            assert {home[fabric.nic_at[switch, port][0]] for port in each[1:]} == {i}


def test_jobs_with_common_servers_are_planned_as_one() -> None:
    ring = {"name": "r", "op": "all_reduce", "ranks": [0, 1, 2], "bytes": 300}
    jobs = [
        parse_job({"name": name, "hosts": hosts, "collectives": [ring]})
        for name, hosts in (("a", ["h1", "h2", "h3"]), ("b", ["h4", "h5", "h6"]), ("c", ["h3", "h7", "h8"]))
    ]
    shards = planned(optical(servers=9, nics=2), *jobs).shards
    assert [shard.shard.jobs for shard in shards] == [("a", "c"), ("b",)]
    # h3 sends 2 (n - 1) / n of the bytes of both jobs.
    assert shards[0].ideal_seconds == pytest.approx(2 * 400 / 2 * 8e-9 / 100)


def test_a_second_plan_keeps_the_circuits_of_the_first() -> None:
    fields = {"servers": 8, "nics": 2}
    job = drawn_job(3, [f"h{i}" for i in range(1, 9)])
    first = planned(optical(**fields), job)
    assert (len(first.added), len(first.removed), first.changed_nics) == (16, 0, 2)
    rows = [each._asdict() for each in first.added]
    again = planned(optical(**fields, circuits=rows), job)
    assert (again.added, again.removed, again.changed_nics) == ((), (), 0)
    shifted = [row | {"out_port": row["out_port"] % 8 + 1} for row in rows if row["switch"] == "ocs1"]
    apart = [row for row in shifted if row["in_port"] != row["out_port"]]
    changed = planned(optical(**fields, circuits=[*apart, *(r for r in rows if r["switch"] == "ocs2")]), job)
    assert changed.changed_nics == 1
    assert circuit_plan_document(changed)["changes"]["seconds_by_nic"] == 120


def test_two_servers_have_one_ring() -> None:
    ring = {"name": "r", "op": "all_reduce", "ranks": [0, 1], "bytes": 100}
    job = parse_job({"name": "a", "hosts": ["h1", "h2"], "collectives": [ring]})
    (shard,) = planned(optical(servers=5, nics=3), job).shards
    assert shard.succ.tolist() == [[1, 0]] * 3
    assert shard.seconds == pytest.approx(100 / 3 * 8e-9 / 100, abs=1e-18)
    assert shard.ideal_seconds == pytest.approx(shard.seconds, abs=1e-18)


def test_a_job_on_one_server_sends_nothing() -> None:
    (shard,) = planned(optical(servers=5, nics=3), parse_job({"name": "a", "hosts": ["h2"]})).shards
    assert (shard.seconds, shard.circuits, shard.tax) == (0.0, (), None)


@settings(deadline=None, max_examples=examples(20, 120))
@given(n=st.integers(3, 9), nics=st.integers(1, 3), seed=st.integers(0, 10**6))
def test_without_forwarding_every_pair_has_a_circuit_or_is_named(n: int, nics: int, seed: int) -> None:
    """d NICs suffice exactly where no server sends to, or receives from, more than d others (König)."""
    rng = np.random.default_rng(seed)
    n = max(n, nics + 1)
    pairs = {tuple(rng.permutation(n)[:2].tolist()) for _ in range(int(rng.integers(1, 2 * n)))}
    flows = [{"src": f"h{u + 1}", "dst": f"h{v + 1}", "bytes": int(rng.integers(1, 99))} for u, v in sorted(pairs)]
    job = parse_job({"name": "a", "flows": flows})
    degree = max(max(sum(pair[side] == u for pair in pairs) for u in range(n)) for side in (0, 1))
    fabric = optical(servers=n, nics=nics, forwarding=False)
    if degree > nics:
        with pytest.raises(InputError, match=r"optical.forwarding: False: h\d+ to h\d+ has no circuit"):
            planned(fabric, job)
        return
    (shard,) = planned(fabric, job).shards
    hops, index = shard.hops, {server: i for i, server in enumerate(shard.shard.servers)}
    assert all(hops[index[v], index[u]] == 1 for u, v in pairs)
    np.testing.assert_allclose(walked_loads(shard), shard.loads)


@settings(deadline=None, max_examples=examples(15, 90))
@given(n=st.integers(2, 7), nics=st.integers(1, 3), seed=st.integers(0, 10**6), duplex=st.booleans())
def test_the_bound_grows_with_what_is_sent(n: int, nics: int, seed: int, duplex: bool) -> None:
    fabric = optical(servers=12, nics=nics)
    job = drawn_job(seed, list(fabric.servers[:n]))
    (shard,) = planned(fabric, job).shards
    demand = shard.shard.demand
    more = type(demand)(demand.messages + np.ones((n, n)) - np.eye(n), demand.groups)
    small, large = (bound_seconds(each, nics, 100.0, duplex=duplex) for each in (demand, more))
    assert small < large
