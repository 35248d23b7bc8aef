"""Jobs on the servers that a scheduler allocated: laws over drawn fabrics, allocations and jobs."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.workload.job_file import parse_job
from controller.workload.placement.host_lists import read_names
from controller.workload.placement.placement import crossing_of
from controller.workload.placement.server_placement import (
    host_file,
    hosts_by_server,
    hosts_of_servers,
    on_hosts,
    reordered,
)

SEEDS = st.integers(0, 2**32 - 1)


def drawn_fabric(draw: random.Random) -> Fabric:
    nics = draw.choice((1, 2, 4))
    if draw.random() < 0.3:
        return pod_clos(2, 2, 2, 2, 4 * nics, nics_per_server=nics)
    leaves = draw.choice((4, 8))
    planes = draw.choice((1, 1, 2))
    return clos(leaves * planes, 2 * planes, 4 * nics, nics_per_server=nics, planes=planes)


def drawn_document(draw: random.Random, ranks: int) -> dict[str, object]:
    size = draw.choice([size for size in (2, 3, 4, 8) if size <= ranks])
    groups = [list(range(first, min(first + size, ranks))) for first in range(0, ranks, size)]
    if draw.random() < 0.5:
        groups.append(list(range(0, ranks, size)))
    collectives = [
        {"name": f"c{i}", "op": "all_reduce", "algorithm": "ring", "ranks": group, "bytes": draw.randint(1, 10**6) * 8}
        for i, group in enumerate(groups)
        if len(group) > 1
    ]
    return {"name": "job", "collectives": collectives}


@given(SEEDS)
def test_another_order_of_ranks_is_on_the_same_hosts_and_sends_no_more_between_pods_and_leaves(seed: int) -> None:
    draw = random.Random(seed)
    fabric = drawn_fabric(draw)
    there = hosts_by_server(fabric)
    servers = draw.sample(sorted(there), draw.randint(2, len(there)))
    hosts = hosts_of_servers(there, servers)
    given_order = parse_job(on_hosts(drawn_document(draw, len(hosts)), hosts, "job"), source="job")
    chosen = reordered(fabric, given_order)
    assert sorted(chosen.hosts) == sorted(given_order.hosts)
    before, after = crossing_of(fabric, given_order), crossing_of(fabric, chosen)
    assert (after.cross_pod, after.cross_leaf) <= (before.cross_pod, before.cross_leaf)
    assert reordered(fabric, given_order).hosts == chosen.hosts
    # A server's ranks stay together and on their rails, so a launcher that starts nodes can be told their order.
    lines = host_file(fabric, chosen).split()
    order = host_file(fabric, chosen, 1).split()
    assert lines == [server for server in order for _ in there[server]]
    assert list(chosen.hosts) == [name for server in order for name in there[server]]


def test_ranks_that_a_scheduler_scattered_are_brought_together() -> None:
    fabric = clos(4, 4, 4)
    servers = ["h1", "h5", "h9", "h13", "h2", "h6", "h10", "h14"]
    groups = [[0, 1], [2, 3], [4, 5], [6, 7]]
    collectives = [
        {"name": f"c{i}", "op": "all_reduce", "algorithm": "ring", "ranks": group, "bytes": 8}
        for i, group in enumerate(groups)
    ]
    document = on_hosts({"name": "job", "collectives": collectives}, servers, "job")
    job = parse_job(document, source="job")
    assert crossing_of(fabric, job).cross_leaf > 0
    assert crossing_of(fabric, reordered(fabric, job)).cross_leaf == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "--servers: '': has no names"),
        (",", "--servers: ',': is not a list of names"),
        ("n[3-1]", "--servers: '3-1': is not a range"),
        ("n[1-2", "--servers: 'n.1-2': is not a list of names"),
    ],
)
def test_what_is_no_list_of_servers_names_the_option(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_names(text, "--servers")


def test_a_server_that_is_not_there_or_twice_is_named() -> None:
    there = {"a": ["a-0"], "b": ["b-0"]}
    for servers, reason in (
        (["a", "c"], "--servers: 'c': the fabric has no server"),
        (["a", "a"], "'a': is named twice"),
    ):
        with pytest.raises(InputError, match=reason):
            hosts_of_servers(there, servers)
