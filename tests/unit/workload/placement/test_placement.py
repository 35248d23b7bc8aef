"""Placement of ranks."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.model.job import CollectiveCall, FlowList, Job, Matrix
from controller.workload.expand import expand
from controller.workload.job_file import parse_job
from controller.workload.placement.placement import (
    METHODS,
    Method,
    crossing_of,
    moved,
    participants,
    place,
    rename_hosts,
)
from tests.unit.workload.documents import jobs


def servers_of(fabric: Fabric, nics: int) -> Fabric:
    """The same with servers of so many NICs, all on one leaf."""
    hosts = tuple(
        dataclasses.replace(host, server=f"node{i // nics}", rail=i % nics) for i, host in enumerate(fabric.hosts)
    )
    return dataclasses.replace(fabric, hosts=hosts)


def rails(servers: int, nics: int, groups: int = 1) -> Fabric:
    """Rail r of each server of a group on the group's leaf r: no two NICs of a server share a leaf."""
    fabric = clos(2, nics * groups, servers)
    hosts = tuple(
        dataclasses.replace(host, server=f"node{(i // servers) // nics}-{i % servers}", rail=(i // servers) % nics)
        for i, host in enumerate(fabric.hosts)
    )
    return dataclasses.replace(fabric, hosts=hosts)


FABRICS = [
    clos(2, 4, 4),
    servers_of(clos(2, 4, 4), 2),
    servers_of(clos(2, 2, 8), 4),
    servers_of(clos(2, 4, 4), 3),  # some servers hang on two leaves, one has a single NIC
    rails(4, 2, 2),
    pod_clos(4, 2, 2, 2, 2),
    pod_clos(2, 2, 2, 2, 4, nics_per_server=2, rail_optimized=True),
]
PODS = FABRICS[-2]

methods = pytest.mark.parametrize("method", METHODS)


def job_of(n: int, *calls: CollectiveCall) -> Job:
    return Job("a", hosts=tuple(f"rank{i}" for i in range(n)), collectives=calls)


@st.composite
def talkative(draw: st.DrawFn, most: int = 16) -> Job:
    """Rings, all-to-alls and messages among random ranks."""
    n = draw(st.integers(1, most))
    calls = []
    for k in range(draw(st.integers(0, 4))):
        op: Any = draw(st.sampled_from(["all_reduce", "all_to_all", "send_recv"]))
        size = 2 if op == "send_recv" else draw(st.integers(1, n))
        if size <= n:
            ranks = tuple(draw(st.permutations(range(n)))[:size])
            algorithm: Any = draw(st.sampled_from([None, "tree"])) if op == "all_reduce" else None
            sizes, channels = st.sampled_from([1, 1000, 10**6]), st.sampled_from([None, 1, 2, 3])
            calls.append(CollectiveCall(f"c{k}", op, ranks, draw(sizes), algorithm, channels=draw(channels)))
    return job_of(n, *calls)


@methods
@given(job=talkative(), fabric=st.sampled_from(FABRICS), seed=st.integers(0, 5))
def test_each_rank_has_a_host_of_its_own_and_the_job_can_be_expanded(
    method: Method, job: Job, fabric: Fabric, seed: int
) -> None:
    hosts = place(fabric, job, method, seed)
    assert len(set(hosts)) == len(hosts) == len(job.hosts)
    assert set(hosts) <= set(fabric.host_index)
    assert expand(fabric, moved(job, hosts)).n_flows >= 0


@given(job=talkative(), fabric=st.sampled_from(FABRICS))
def test_packed_never_sends_more_between_pods_and_leaves_than_scattered(job: Job, fabric: Fabric) -> None:
    packed = crossing_of(fabric, moved(job, place(fabric, job, "packed")))
    scattered = crossing_of(fabric, moved(job, place(fabric, job, "scattered")))
    assert (packed.cross_pod, packed.cross_leaf) <= (scattered.cross_pod, scattered.cross_leaf)
    assert packed.network >= packed.cross_leaf >= packed.cross_pod


@given(data=st.data(), groups=st.integers(1, 4), size=st.integers(1, 4))
def test_groups_that_fit_under_a_leaf_do_not_cross_however_their_ranks_are_numbered(
    data: st.DataObject, groups: int, size: int
) -> None:
    ranks = data.draw(st.permutations(range(groups * size)))
    calls = [
        CollectiveCall(f"c{g}", "all_reduce", tuple(ranks[g * size : g * size + size]), 1000) for g in range(groups)
    ]
    job = job_of(groups * size, *calls)
    assert crossing_of(FABRICS[0], moved(job, place(FABRICS[0], job, "packed"))).cross_leaf == 0


@given(ranks=st.integers(2, 16).flatmap(lambda n: st.permutations(range(n))))
def test_a_ring_fills_pods_before_it_crosses_and_leaves_each_pod_and_leaf_once(ranks: list[int]) -> None:
    job = job_of(len(ranks), CollectiveCall("c", "all_gather", tuple(ranks), 16 * len(ranks)))
    edge = 16 * (len(ranks) - 1)
    pods, leaves = (-(-len(ranks) // many) for many in (4, 2))
    crossing = crossing_of(PODS, moved(job, place(PODS, job, "packed")))
    assert crossing.cross_pod == (edge * pods if pods > 1 else 0)
    assert crossing.cross_leaf == (edge * leaves if leaves > 1 else 0)


@given(data=st.data())
def test_groups_that_fit_into_a_pod_do_not_leave_it_beside_hosts_that_are_taken(data: st.DataObject) -> None:
    ranks = data.draw(st.permutations(range(8)))
    calls = [CollectiveCall(f"c{g}", "all_reduce", tuple(ranks[4 * g : 4 * g + 4]), 1000) for g in range(2)]
    job = job_of(8, *calls)
    taken = data.draw(st.sets(st.sampled_from([host.name for host in PODS.hosts[:8]]), min_size=1, max_size=4))
    free = [name for name in PODS.host_names if name not in taken]
    assert crossing_of(PODS, moved(job, place(PODS, job, "packed", free=free))).cross_pod == 0


@given(ranks=st.integers(2, 16).flatmap(lambda n: st.permutations(range(n))))
def test_a_ring_leaves_each_leaf_once_however_its_ranks_are_numbered(ranks: list[int]) -> None:
    job = job_of(len(ranks), CollectiveCall("c", "all_gather", tuple(ranks), 16 * len(ranks)))
    edge = 16 * (len(ranks) - 1)
    leaves = -(-len(ranks) // 4)
    crossing = crossing_of(FABRICS[0], moved(job, place(FABRICS[0], job, "packed")))
    assert crossing == (edge * len(ranks), edge * leaves if leaves > 1 else 0, 0)


def test_the_heavier_groups_get_the_leaf_to_themselves() -> None:
    # Rows of a 4 x 4 grid talk much, columns little.
    rows = [CollectiveCall(f"r{i}", "all_reduce", tuple(range(i, 16, 4)), 10**6) for i in range(4)]
    columns = [CollectiveCall(f"c{i}", "all_reduce", tuple(range(4 * i, 4 * i + 4)), 10) for i in range(4)]
    job = job_of(16, *rows, *columns)
    fabric = FABRICS[0]
    after = moved(job, place(fabric, job, "packed"))
    leaf = [fabric.hosts[fabric.host_index[name]].leaf for name in after.hosts]
    assert all(len({leaf[rank] for rank in call.ranks}) == 1 for call in rows)
    assert crossing_of(fabric, after).cross_leaf == sum(4 * 15 for _ in columns)


@methods
@pytest.mark.parametrize("fabric", [servers_of(clos(2, 2, 8), 4), rails(4, 4)])
def test_consecutive_ranks_share_a_server_and_rank_i_of_a_server_is_on_its_rail_i(
    method: Method, fabric: Fabric
) -> None:
    hosts = [fabric.hosts[fabric.host_index[name]] for name in place(fabric, job_of(12), method, seed=3)]
    for start in range(0, 12, 4):
        assert len({host.server for host in hosts[start : start + 4]}) == 1
        assert [host.rail for host in hosts[start : start + 4]] == [0, 1, 2, 3]
    assert len({host.server for host in hosts}) == 3


def test_servers_on_the_same_leaves_are_neighbours_because_flows_keep_to_their_rail() -> None:
    fabric = rails(4, 2, 2)
    job = job_of(8, CollectiveCall("c", "all_to_all", tuple(range(8)), 800))
    # Each rank sends 100 to each of six ranks on other servers, half of them on its own rail.
    assert crossing_of(fabric, moved(job, place(fabric, job, "packed"))) == (4800, 0, 0)
    without = dataclasses.replace(job, pxn=False)
    assert crossing_of(fabric, moved(without, place(fabric, without, "packed"))) == (4800, 2400, 0)


def test_scattered_takes_leaves_in_turn_and_packed_fills_them() -> None:
    fabric = FABRICS[0]
    ring = job_of(4, CollectiveCall("c", "all_reduce", (0, 1, 2, 3), 8))

    def leaves(method: Method) -> list[str]:
        return [fabric.hosts[fabric.host_index[name]].leaf for name in place(fabric, ring, method)]

    assert leaves("scattered") == ["leaf1", "leaf2", "leaf3", "leaf4"]
    assert len(set(leaves("packed"))) == 1


def test_random_depends_only_on_the_seed() -> None:
    job = job_of(16)
    assert place(FABRICS[0], job, "random", 1) == place(FABRICS[0], job, "random", 1)
    assert place(FABRICS[0], job, "random", 1) != place(FABRICS[0], job, "random", 2)


@methods
def test_hosts_that_are_not_free_or_down_are_not_used(method: Method) -> None:
    fabric = FABRICS[0].without_links(["h3-leaf1"])
    free = [f"h{i}" for i in range(1, 9)]
    assert set(place(fabric, job_of(7), method, free=free)) == set(free) - {"h3"}


@methods
def test_too_few_hosts_is_an_error_with_both_numbers(method: Method) -> None:
    with pytest.raises(InputError, match="17 ranks; 16 hosts are free"):
        place(FABRICS[0], job_of(17), method)
    with pytest.raises(InputError, match="2 ranks; 1 hosts are free"):
        place(FABRICS[0], job_of(2), method, free=["h1"])
    with pytest.raises(InputError, match="free: 'x': the fabric has no host of this name"):
        place(FABRICS[0], job_of(1), method, free=["x"])


def test_a_job_of_flows_and_a_matrix_is_placed_by_the_hosts_that_they_name() -> None:
    flows = FlowList(("a", "b"), ("b", "c"), np.array([5, 6]), ("x", "x"), np.zeros(2, dtype=np.int32))
    matrix = Matrix(("c", "d"), np.array([[0, 7], [0, 0]]), "y")
    job = Job("j", flows=flows, matrix=matrix)
    assert participants(job) == ("a", "b", "c", "d")
    after = moved(job, place(FABRICS[0], job, "scattered"))
    assert crossing_of(FABRICS[0], after) == (18, 18, 0)
    assert crossing_of(FABRICS[0], moved(job, place(FABRICS[0], job, "packed"))) == (18, 0, 0)


@given(document=jobs(), data=st.data())
def test_renaming_hosts_back_gives_the_job_that_was(document: dict[str, Any], data: st.DataObject) -> None:
    job = parse_job(document)
    names = participants(job)
    there = {name: f"x{i}" for i, name in enumerate(data.draw(st.permutations(names)))}
    after = rename_hosts(job, there)
    assert set(participants(after)) == set(there.values())
    back = rename_hosts(after, {new: old for old, new in there.items()})
    assert (back.hosts, back.flows.src, back.flows.dst) == (job.hosts, job.flows.src, job.flows.dst)
    assert (back.matrix and back.matrix.hosts) == (job.matrix and job.matrix.hosts)
