"""By which NICs flows leave and enter servers of several: ranks' own, PXN, and channels."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.workload.collectives import ALGORITHMS, flows_of
from controller.workload.expand import JobTraffic, expand
from controller.workload.job_file import parse_job

# Four servers of four NICs; rail r of each is on leaf r + 1.
RAILS = clos(2, 4, 4, nics_per_server=4, rail_optimized=True)
SERVERS = sorted({host.server for host in RAILS.hosts})
NICS = {server: [host.name for host in RAILS.hosts if host.server == server] for server in SERVERS}
ALL = [name for server in SERVERS for name in NICS[server]]
PAIRWISE = ("direct", "halving_doubling")


def job(op: str, hosts: list[str], *, pxn: bool = True, **changes: Any) -> dict[str, Any]:
    row = {"name": "c", "op": op, "ranks": list(range(len(hosts))), "bytes": 960} | changes
    return {"name": "a", "hosts": hosts, "pxn": pxn, "collectives": [row]}


def sent(traffic: JobTraffic, fabric: Fabric = RAILS) -> list[tuple[str, str]]:
    return [
        (fabric.hosts[src].name, fabric.hosts[dst].name)
        for src, dst in zip(traffic.src.tolist(), traffic.dst.tolist(), strict=True)
    ]


OPERATIONS = [(op, algorithm) for op, algorithms in ALGORITHMS.items() for algorithm in algorithms]


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A collective of some hosts, with or without channels and PXN."""
    op, algorithm = draw(st.sampled_from(OPERATIONS))
    n = 2 if op == "send_recv" else draw(st.integers(2, len(ALL)))
    hosts = list(draw(st.permutations(ALL)))[:n]
    row = {} if draw(st.booleans()) else {"channels": draw(st.integers(1, 9))}
    return job(op, hosts, algorithm=algorithm, pxn=draw(st.booleans()), **row)


@given(documents())
def test_with_pxn_no_flow_changes_rails_and_all_end_where_they_did(document: dict[str, Any]) -> None:
    document["collectives"][0].pop("channels", None)
    own = expand(RAILS, parse_job(document | {"pxn": False}))
    moved = expand(RAILS, parse_job(document | {"pxn": True}))
    for column in ("dst", "bytes", "collective", "number"):
        assert np.array_equal(getattr(own, column), getattr(moved, column))
    for (before, _), (src, dst) in zip(sent(own), sent(moved), strict=True):
        hosts = [RAILS.hosts[RAILS.host_index[name]] for name in (before, src, dst)]
        assert hosts[0].server == hosts[1].server
        assert hosts[1].rail == hosts[2].rail


@given(documents())
def test_without_pxn_and_channels_flows_are_between_the_ranks_own_nics(document: dict[str, Any]) -> None:
    document["collectives"][0].pop("channels", None)
    read = parse_job(document | {"pxn": False})
    number = {host.name: SERVERS.index(host.server) for host in RAILS.hosts}
    servers = np.array([number[name] for name in document["hosts"]], dtype=np.int32)
    flows = flows_of(read.collectives[0], servers)
    wanted = [
        (document["hosts"][src], document["hosts"][dst])
        for src, dst in zip(flows.src.tolist(), flows.dst.tolist(), strict=True)
        if servers[src] != servers[dst]
    ]
    assert sent(expand(RAILS, read)) == wanted


def test_a_server_without_a_nic_on_the_rail_sends_from_the_ranks_own() -> None:
    hosts = tuple(
        dataclasses.replace(host, server=f"{host.server}-{host.rail}") if host.server == "node1" else host
        for host in RAILS.hosts
    )
    apart = dataclasses.replace(RAILS, hosts=hosts)
    ends = NICS["node1"][0], NICS["node2"][3]
    assert sent(expand(apart, parse_job(job("send_recv", list(ends)))), apart) == [ends]
    assert sent(expand(RAILS, parse_job(job("send_recv", list(ends))))) == [(NICS["node1"][3], ends[1])]


def test_a_nic_that_is_down_is_still_that_of_its_rail() -> None:
    """Which flows there are does not depend on what has failed."""
    ends = [NICS["node1"][0], NICS["node2"][3]]
    document = parse_job(job("send_recv", ends))
    failed = RAILS.without_links([f"{NICS['node1'][3]}-leaf4"])
    assert sent(expand(failed, document)) == sent(expand(RAILS, document))


@given(documents())
def test_flows_and_the_matrix_are_sent_between_the_hosts_that_they_name(document: dict[str, Any]) -> None:
    src, dst = NICS["node1"][0], NICS["node2"][3]
    own: dict[str, Any] = {"flows": [{"src": src, "dst": dst, "bytes": 5}]}
    own["matrix"] = {"hosts": [src, dst], "bytes": [[0, 7], [0, 0]]}
    traffic = expand(RAILS, parse_job(document | own))
    assert sent(traffic)[-2:] == [(src, dst)] * 2
    assert traffic.bytes[-2:].tolist() == [5, 7]


@given(documents(), st.integers(1, 9))
def test_channel_k_leaves_and_enters_a_server_by_the_kth_of_its_nics_in_the_collective(
    document: dict[str, Any], channels: int
) -> None:
    row = document["collectives"][0] | {"channels": channels}
    document["collectives"] = [row]
    read = parse_job(document)
    hosts = [RAILS.hosts[RAILS.host_index[name]] for name in document["hosts"]]
    own = {
        server: [host.name for host in sorted(hosts, key=lambda host: host.rail) if host.server == server]
        for server in SERVERS
    }
    servers = np.array([SERVERS.index(host.server) for host in hosts], dtype=np.int32)
    flows = flows_of(read.collectives[0], servers)
    per_channel = len(flows.src) // channels
    stays = not document["pxn"] and row["algorithm"] in PAIRWISE
    wanted = []
    for i, (src, dst) in enumerate(zip(flows.src.tolist(), flows.dst.tolist(), strict=True)):
        if servers[src] == servers[dst]:
            continue
        if stays:
            wanted.append((hosts[src].name, hosts[dst].name))
        else:
            k = i // per_channel
            ends = own[hosts[src].server], own[hosts[dst].server]
            wanted.append((ends[0][k % len(ends[0])], ends[1][k % len(ends[1])]))
    assert sent(expand(RAILS, read)) == wanted


def test_a_ring_over_whole_servers_loads_every_nic_alike_with_a_channel_a_rail() -> None:
    ring = job("all_reduce", ALL, channels=4, bytes=16 * 4 * 100)
    traffic = expand(RAILS, parse_job(ring))
    assert traffic.n_flows == len(SERVERS) * 4
    for ends in (traffic.src, traffic.dst):
        assert np.bincount(ends, weights=traffic.bytes, minlength=16).tolist() == [2 * 15 * 100.0] * 16
    alone = expand(RAILS, parse_job(job("all_reduce", ALL, bytes=16 * 4 * 100)))
    assert alone.n_flows == len(SERVERS)
    assert alone.bytes.sum() == traffic.bytes.sum()


def test_flows_of_one_collective_between_the_same_two_nics_have_ports_of_their_own() -> None:
    traffic = expand(RAILS, parse_job(job("all_to_all", ALL, bytes=16)))
    # Each of a server's four ranks sends to each rank elsewhere, by the NIC of its rail: four flows a pair of NICs.
    assert traffic.n_flows == 16 * 12
    ends = list(zip(traffic.src.tolist(), traffic.dst.tolist(), traffic.udp_src.tolist(), strict=True))
    assert len(set(ends)) == len(ends)
    assert len({(src, dst) for src, dst, _ in ends}) == 16 * 3


@pytest.mark.parametrize(("channels", "allowed"), [(None, 240), (5, 1200)], ids=["whole", "in channels"])
def test_flows_of_channels_count_before_they_are_made(channels: int | None, allowed: int) -> None:
    row: dict[str, Any] = {} if channels is None else {"channels": channels}
    document = job("all_to_all", ALL, **row)
    expand(RAILS, parse_job(document), max_flows=allowed)
    with pytest.raises(
        ValueError, match=f"the number of its flows is {allowed}; at most {allowed - 1} more are allowed"
    ):
        expand(RAILS, parse_job(document), max_flows=allowed - 1)
