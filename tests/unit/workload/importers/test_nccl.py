"""Logs of clusters that never were are read back as what the clusters sent."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from math import ceil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.model.clos import clos
from controller.model.errors import InputError
from controller.model.job import Job
from controller.workload.expand import expand
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.inventory import parse_inventory
from controller.workload.importers.nccl import read
from controller.workload.importers.nccl.lines import parse
from controller.workload.importers.placing import on_fabric
from controller.workload.importers.streams import text_source
from tests.unit.workload.importers.nccl_logs import (
    STYLES,
    Call,
    Cluster,
    Style,
    clusters,
    log_of,
    logs,
    pointer,
    prefix,
    trees,
)

SIZE_OF = {0: 1, 6: 2, 7: 4, 9: 2}

SMALL = Cluster(2, 2, 2, ((0, 1, 2, 3), (1, 0, 3, 2)), ((-1, 0, 0, 2), (1, -1, 1, 2)))
NEWEST = STYLES[3]

styles = st.sampled_from(STYLES)


def run(texts: list[str], **request: object) -> Imported:
    sources = [text_source(f"rank{i}.log", text) for i, text in enumerate(texts)]
    return read(sources, ImportRequest(**request))  # type: ignore[arg-type]


def sent(job: Job) -> Counter[tuple[str, str, str, int]]:
    """The flows of a job, in no order."""
    given = job.flows
    return Counter(zip(given.src, given.dst, given.collective, given.bytes.tolist(), strict=True))


def played(cluster: Cluster) -> dict[tuple[str, int, int, int], Fraction]:
    """(Operation, channel, sender, receiver) -> bytes, by playing each operation's steps around its rings."""
    total: Counter[tuple[str, int, int, int]] = Counter()
    n, channels = cluster.n, len(cluster.rings)
    for call in cluster.calls:
        part = call.name in ("AllGather", "ReduceScatter")
        whole = Fraction(call.count * SIZE_OF[call.datatype] * call.times * (n if part else 1), channels)
        op = {
            "AllReduce": "all_reduce",
            "AllGather": "all_gather",
            "ReduceScatter": "reduce_scatter",
            "Broadcast": "broadcast",
            "Reduce": "reduce",
        }[call.name]
        for c, ring in enumerate(cluster.rings):
            steps: list[tuple[int, int, Fraction]] = []
            if call.name in ("Broadcast", "Reduce"):
                start = ring.index(call.root)
                chain = [ring[(start + i) % n] for i in range(n)]
                if call.name == "Reduce":
                    chain = [*chain[1:], chain[0]]
                steps = [(src, dst, whole) for src, dst in itertools.pairwise(chain)]
            else:
                rounds = 2 * (n - 1) if call.name == "AllReduce" else n - 1
                steps = [(ring[i], ring[(i + 1) % n], whole / n) for _ in range(rounds) for i in range(n)]
            for src, dst, size in steps:
                if cluster.server(src) != cluster.server(dst):
                    total[op, c, src, dst] += size  # type: ignore[assignment]
    return total  # type: ignore[return-value]


# -- round trips ---------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(cluster=clusters(own_nics=True), style=styles, data=st.data())
def test_what_ranks_with_nics_of_their_own_logged_is_what_they_sent(
    cluster: Cluster, style: Style, data: st.DataObject
) -> None:
    texts = data.draw(st.permutations(logs(cluster, style)))
    imported = run(texts)
    expected = Counter(
        (f"rank{src}", f"rank{dst}", f"c0-{op}", ceil(size)) for (op, _, src, dst), size in played(cluster).items()
    )
    assert sent(imported.job) == expected
    assert (imported.ranks, imported.placed) == (cluster.n, False)
    assert imported.job.hosts == tuple(f"rank{i}" for i in range(cluster.n))
    assert imported.groups == (cluster.n > 1)
    assert imported.collectives == (len({call.name for call in cluster.calls}) if cluster.n > 1 else 0)


@settings(deadline=None, max_examples=40)
@given(cluster=clusters(least=2), style=styles)
def test_flows_begin_and_end_at_the_nics_that_the_log_names(cluster: Cluster, style: Style) -> None:
    inventory = parse_inventory(
        {f"node{s}": {f"mlx5_{i}": f"h{s}.{i}" for i in range(cluster.nics)} for s in range(cluster.servers)}
    )
    imported = run(logs(cluster, style), inventory=inventory)
    expected = Counter(
        (
            f"h{src // cluster.gpus}.{cluster.nic(src, c)}",
            f"h{dst // cluster.gpus}.{cluster.nic(dst, c)}",
            f"c0-{op}",
            ceil(size),
        )
        for (op, c, src, dst), size in played(cluster).items()
    )
    assert imported.placed
    assert sent(imported.job) == expected


@settings(deadline=None, max_examples=30)
@given(cluster=clusters(least=2), style=styles, as_index=st.booleans())
def test_an_inventory_by_number_and_servers_of_the_fabric_say_the_same(
    cluster: Cluster, style: Style, as_index: bool
) -> None:
    fabric = clos(2, cluster.servers, cluster.nics, nics_per_server=max(cluster.nics, 1))
    if cluster.nics == 1:
        fabric = dataclasses.replace(
            fabric,
            hosts=tuple(dataclasses.replace(host, server=f"node{i}") for i, host in enumerate(fabric.hosts)),
        )
    else:
        fabric = dataclasses.replace(
            fabric,
            hosts=tuple(
                dataclasses.replace(host, server=f"node{i // cluster.nics}") for i, host in enumerate(fabric.hosts)
            ),
        )
    nics = {f"node{s}": [f"h{s * cluster.nics + i + 1}" for i in range(cluster.nics)] for s in range(cluster.servers)}
    texts = logs(cluster, style)
    by_inventory = run(texts, inventory=parse_inventory(nics, fabric), fabric=fabric if as_index else None)
    by_fabric = run(texts, fabric=fabric)
    assert by_fabric.placed
    assert sent(by_fabric.job) == sent(by_inventory.job)
    expand(fabric, by_fabric.job)


@settings(deadline=None, max_examples=30)
@given(cluster=clusters(), style=styles, data=st.data())
def test_ranks_may_write_one_file_all_mixed_and_with_a_launchers_text_before(
    cluster: Cluster, style: Style, data: st.DataObject
) -> None:
    texts = logs(cluster, style)
    left = [text.splitlines(keepends=True) for text in texts]
    mixed = ""
    while any(left):
        which = data.draw(st.sampled_from([i for i, rows in enumerate(left) if rows]))
        before = data.draw(st.sampled_from(["", f"[1,{which}]<stdout>:", f"{which}: ", "2025-01-02T03:04:05Z "]))
        mixed += before + left[which].pop(0)
        mixed += data.draw(st.sampled_from(["", "iteration 17 | loss: 3.5\n", "\n"]))
    assert sent(run([mixed]).job) == sent(run(texts).job)


@settings(deadline=None, max_examples=30)
@given(cluster=clusters(least=2, own_nics=True), iterations=st.integers(1, 9))
def test_bytes_are_those_of_one_iteration(cluster: Cluster, iterations: int) -> None:
    expected = Counter(
        (f"rank{src}", f"rank{dst}", f"c0-{op}", ceil(size / iterations))
        for (op, _, src, dst), size in played(cluster).items()
    )
    assert sent(run(logs(cluster, NEWEST), iterations=iterations).job) == expected


# -- algorithms ----------------------------------------------------------------------------------------------------


def choice(rank: int, cluster: Cluster, text: str) -> str:
    return f"{prefix(cluster, rank)}{text}\n"


@pytest.mark.parametrize(
    "line",
    [
        "AllReduce: 4096 Bytes -> Algo TREE proto SIMPLE channel{Lo..Hi}={0..1}",
        "AllReduce: 4096 Bytes -> Algo 0 proto 2 time 2860.208008",
        "4096 Bytes -> Algo 0 proto 2 time 2860.208008",
        "NCCL_ALGO set by environment to Tree.",
    ],
)
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_tree_all_reduce_goes_up_and_down_every_edge(line: str, data: st.DataObject) -> None:
    ways = tuple(data.draw(trees(6)) for _ in range(2))
    cluster = Cluster(3, 2, 2, ((0, 1, 2, 3, 4, 5),) * 2, ways, (Call("AllReduce", 1024),))
    imported = run([*logs(cluster, NEWEST), choice(0, cluster, line)])
    expected: Counter[tuple[str, str, str, int]] = Counter()
    for way in ways:
        for child, above in enumerate(way):
            if above >= 0 and cluster.server(child) != cluster.server(above):
                expected[f"rank{child}", f"rank{above}", "c0-all_reduce-tree", 2048] += 1
                expected[f"rank{above}", f"rank{child}", "c0-all_reduce-tree", 2048] += 1
    assert sent(imported.job) == expected
    assert not imported.notes


def test_an_operation_takes_only_the_channels_that_nccl_chose_for_its_size() -> None:
    line = "AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={1..1}"
    imported = run([*logs(SMALL, NEWEST), choice(0, SMALL, line)])
    assert sent(imported.job) == Counter(
        {("rank0", "rank3", "c0-all_reduce", 6144): 1, ("rank2", "rank1", "c0-all_reduce", 6144): 1}
    )


def test_an_algorithm_without_edges_of_its_own_is_noted() -> None:
    line = "AllReduce: 4096 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..1}"
    imported = run([*logs(SMALL, NEWEST), choice(0, SMALL, line)])
    assert imported.notes == ("c0: AllReduce by nvls is counted as ring",)
    assert sent(imported.job) == sent(run(logs(SMALL, NEWEST)).job)


def test_single_trees_stand_in_where_the_line_of_all_trees_is_cut() -> None:
    texts = [
        "".join(line for line in text.splitlines(keepends=True) if " Trees " not in line)
        for text in logs(SMALL, NEWEST)
    ]
    for rank in range(4):
        rows = ""
        for c, tree in enumerate(SMALL.trees):
            down = [*(child for child, above in enumerate(tree) if above == rank), -1, -1, -1]
            rows += f"{prefix(SMALL, rank)}Tree {c} : {tree[rank]} -> {rank} -> {down[0]}/{down[1]}/{down[2]}\n"
        texts[rank] = texts[rank].replace(f"{prefix(SMALL, rank)}Ring 00", f"{rows}{prefix(SMALL, rank)}Ring 00", 1)
    line = choice(0, SMALL, "AllReduce: 4096 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}")
    assert sent(run([*texts, line]).job) == sent(run([*logs(SMALL, NEWEST), line]).job)


# -- NICs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("via", "nic"),
    [
        ("NET/IB/1/GDRDMA", "1"),
        ("NET/IB/1(2)/GDRDMA", "1"),
        ("NET/IB/1(2)/GDRDMA(PCI)/Shared", "1"),
        ("NET/AWS Libfabric/3", "3"),
        ("NET/IBext_v8/0/GDRDMA/Shared", "0"),
        ("NET/Socket/2", "2"),
    ],
)
def test_the_transports_name_may_be_anything(via: str, nic: str) -> None:
    cluster = Cluster(2, 1, 4, ((0, 1),), ((-1, 0),))
    texts = [text.replace("NET/IB/0/GDRDMA", via) for text in logs(cluster, NEWEST)]
    inventory = parse_inventory({"node0": ["a0", "a1", "a2", "a3"], "node1": ["b0", "b1", "b2", "b3"]})
    job = run(texts, inventory=inventory).job
    assert (job.flows.src, job.flows.dst) == ((f"a{nic}", f"b{nic}"), (f"b{nic}", f"a{nic}"))


def test_ranks_that_share_a_nic_have_flows_of_their_own_between_made_up_nics() -> None:
    cluster = Cluster(2, 2, 1, ((0, 2, 1, 3),), ((-1, 0, 0, 2),), (Call("AllReduce", 1024),))
    job = run(logs(cluster, NEWEST)).job
    assert job.hosts == ("node0.mlx5_0", "node1.mlx5_0")
    assert sent(job) == Counter(
        {
            ("node0.mlx5_0", "node1.mlx5_0", "c0-all_reduce", 6144): 2,
            ("node1.mlx5_0", "node0.mlx5_0", "c0-all_reduce", 6144): 2,
        }
    )
    fabric = clos(1, 2, 1)
    for method in ("in-order", "packed", "scattered", "random"):
        assert set(on_fabric(run(logs(cluster, NEWEST)), fabric, method).flows.src) == {"h1", "h2"}  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"2 NICs need as many hosts, there are 1"):
        on_fabric(run(logs(cluster, NEWEST)), fabric, ["h1"])


def test_a_nic_that_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"inventory: 'node0 mlx5_[01]': neither the inventory nor the fabric has"):
        run(logs(SMALL, NEWEST), inventory=parse_inventory({"node1": "h1"}))


def test_a_fabric_with_some_of_the_servers_is_refused() -> None:
    fabric = clos(1, 2, 2, nics_per_server=2)  # node1 and node2; the log has node0 and node1
    with pytest.raises(InputError, match=r"^rank0.log:3: 'node0': the fabric has some of the log's servers"):
        run(logs(SMALL, NEWEST), fabric=fabric)


def test_a_job_that_nobody_placed_goes_where_a_placement_says() -> None:
    fabric = clos(2, 2, 4)
    imported = run(logs(SMALL, NEWEST), fabric=fabric)
    assert not imported.placed
    in_order = on_fabric(imported, fabric, None)
    assert in_order.hosts == ("h1", "h2", "h3", "h4")
    listed = on_fabric(imported, fabric, ["h8", "h7", "h6", "h5"])
    assert listed.hosts == ("h8", "h7", "h6", "h5")
    move = dict(zip(in_order.hosts, listed.hosts, strict=True))
    assert listed.flows.src == tuple(move[host] for host in in_order.flows.src)
    with pytest.raises(InputError, match=r"4 ranks need as many hosts, there are 3"):
        on_fabric(imported, fabric, ["h8", "h7", "h6"])
    with pytest.raises(InputError, match=r"placement\[1\]: 'h8': this host is listed twice"):
        on_fabric(imported, fabric, ["h8", "h8", "h6", "h5"])
    with pytest.raises(InputError, match=r"placement\[0\]: 'x': the fabric has no host of this name"):
        on_fabric(imported, fabric, ["x", "h8", "h6", "h5"])


# -- communicators -------------------------------------------------------------------------------------------------


def pair(rank: int, other: int, *, style: str, number: int = 0) -> str:
    """Rank ``rank`` of SMALL makes a communicator of two with ``other``, and reduces 100 bytes on it."""
    place = int(rank > other)
    at = f"0x77{number:02d}{rank:02d}"
    color = min(rank, other)
    gpu = f"cudaDev {rank % 2} busId {rank % 2 + 10}000"
    if style == "split":
        who = f"ncclCommSplit comm {at} rank {place} nranks 2 {gpu} parent {pointer(rank)} "
        start = f"{who}splitCount {number + 1} color {color} key {rank} - Init START"
        end = f"ncclCommSplit comm {at} rank {place} nranks 2 {gpu} commId 0x0 - Init COMPLETE"
    elif style == "id":
        who = f"ncclCommInitRankConfig comm {at} rank {place} nranks 2 {gpu} commId 0xab{color}{number}"
        start, end = f"{who} - Init START", f"{who} - Init COMPLETE"
    else:
        start, end = "", f"comm {at} rank {place} nranks 2 {gpu} - Init COMPLETE"
    said = [
        start,
        f"Ring 00 : {1 - place} -> {place} -> {1 - place}",
        end,
        f"AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 count 100 datatype 0 op 0 root 0 comm {at} [nranks=2]",
    ]
    return "".join(f"{prefix(SMALL, rank)}{line}\n" for line in said if line)


@pytest.mark.parametrize(("style", "form"), [("split", NEWEST), ("id", NEWEST), ("none", STYLES[0])])
def test_communicators_within_the_largest_are_told_apart(style: str, form: Style) -> None:
    quiet = dataclasses.replace(SMALL, calls=())
    texts = logs(quiet, form)
    for rank, other in ((0, 2), (2, 0), (1, 3), (3, 1)):
        texts[rank] += pair(rank, other, style=style) + pair(rank, other, style=style, number=1)
    imported = run(texts)
    assert (imported.ranks, imported.groups, imported.collectives) == (4, 5, 4)
    ways = Counter((src, dst, size) for src, dst, _, size in sent(imported.job).elements())
    assert ways == Counter({(f"rank{a}", f"rank{b}", 100): 2 for a, b in ((0, 2), (2, 0), (1, 3), (3, 1))})
    assert len(set(imported.job.flows.collective)) == 4


def test_gpus_outside_the_largest_communicator_are_ranks_behind_it() -> None:
    line = (
        "node{s}:{p}:{p} [0] NCCL INFO comm 0x{p} rank {r} nranks 2 cudaDev 0 busId 1000 commId 0xff - Init {state}\n"
    )
    op = (
        "node{s}:{p}:{p} [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 count 100 datatype 0 op 0 "
        "root 0 comm 0x{p} [nranks=2] stream 0x0\n"
    )
    texts = logs(dataclasses.replace(SMALL, calls=()), NEWEST)
    for r, (s, p) in enumerate(((10, 5000), (9, 5001))):
        texts.append(line.format(s=s, p=p, r=r, state="START") + line.format(s=s, p=p, r=r, state="COMPLETE"))
        texts[-1] += op.format(s=s, p=p)
    imported = run(texts)
    assert imported.ranks == 6
    assert sent(imported.job) == Counter(
        {("rank5", "rank4", "c1-all_reduce", 100): 1, ("rank4", "rank5", "c1-all_reduce", 100): 1}
    )
    assert any("2 GPUs are not in the largest communicator" in note for note in imported.notes)


def test_sends_and_receives_are_flows_of_one_collective_over_the_channels_that_they_have() -> None:
    def op(rank: int, name: str, peer: int, count: int) -> str:
        return choice(
            rank,
            SMALL,
            f"{name}: opCount 0 sendbuff 0x1 recvbuff 0x1 count {count} datatype 0 op 0 root {peer} "
            f"comm {pointer(rank)} [nranks=4] stream 0x0",
        )

    texts = logs(dataclasses.replace(SMALL, calls=()), NEWEST)
    texts[0] += "".join(
        choice(0, SMALL, f"Channel {c:02d}/1 : 0[0] -> 2[0] [send] via NET/IB/0/GDRDMA/Shared") for c in (0, 1)
    )
    texts[0] += op(0, "Send", 2, 1000) + op(0, "Send", 2, 501) + op(0, "Send", 1, 7) + op(0, "Recv", 3, 30)
    texts[3] += op(3, "Send", 0, 30)
    texts[2] += op(2, "Recv", 0, 1501)
    imported = run(texts)
    assert sent(imported.job) == Counter(
        {("rank0", "rank2", "c0-send_recv", 751): 2, ("rank3", "rank0", "c0-send_recv", 30): 1}
    )
    # Who receives tells as well, where the sender's log is lost.
    lost = run([texts[0], texts[1], texts[2]])
    assert ("rank3", "rank0", "c0-send_recv", 30) in sent(lost.job)


def test_an_all_to_all_sends_each_its_part() -> None:
    cluster = dataclasses.replace(SMALL, calls=(Call("AlltoAll", 10, datatype=0),))
    ways = Counter((src, dst) for src, dst, _, size in sent(run(logs(cluster, NEWEST)).job).elements() if size == 10)
    assert ways == Counter((f"rank{a}", f"rank{b}") for a in (0, 1) for b in (2, 3)) + Counter(
        (f"rank{b}", f"rank{a}") for a in (0, 1) for b in (2, 3)
    )


def test_operations_of_one_communicator_come_one_after_the_other_and_those_of_several_may_overlap() -> None:
    calls = (Call("AllReduce", 1024), Call("AllGather", 10), Call("AllReduce", 5))
    texts = logs(dataclasses.replace(SMALL, calls=calls), NEWEST)
    assert run(texts).job.phases == {"c0-all_reduce": 0, "c0-all_gather": 1}
    for rank, other in ((0, 2), (2, 0)):
        texts[rank] += pair(rank, other, style="id")
    assert run(texts).job.phases == {}


# -- what is missing -----------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(cluster=clusters(least=2, own_nics=True), style=st.sampled_from(STYLES[:4]), data=st.data())
def test_without_one_ranks_log_the_others_tell_its_edges(cluster: Cluster, style: Style, data: st.DataObject) -> None:
    lost = data.draw(st.integers(0, cluster.n - 1))
    texts = logs(cluster, style)
    imported = run([text for rank, text in enumerate(texts) if rank != lost])
    whole = sent(run(texts).job)
    found = sent(imported.job)
    assert f"c0: 1 of {cluster.n} ranks have no log, the first is {lost}" in imported.notes
    # Its server is not known, so that edges to its neighbours there look like any other.
    assert all(f"rank{lost}" in flow for flow in found - whole)
    assert not whole - found


def test_a_ring_that_nobody_tells_is_the_order_of_ranks_and_noted() -> None:
    texts = [
        "".join(line for line in text.splitlines(keepends=True) if " Ring " not in line and "Channel" not in line)
        for text in logs(SMALL, NEWEST)
    ]
    imported = run(texts)
    assert any("no ring is told in full" in note for note in imported.notes)
    assert sent(imported.job) == Counter(
        {("rank1", "rank2", "c0-all_reduce", 6144): 1, ("rank3", "rank0", "c0-all_reduce", 6144): 1}
    )


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        ("Ring 00 : 0 -> 1 -> 2", "Ring 00 : 0 -> 1 -> 3", "c0 ring 0: after 1 comes"),
        ("Ring 00 : 0 -> 1 -> 2", "Ring 00 : 0 -> 1 -> 77", "c0 ring 0: after 1 comes"),
        ("Ring 00 : 3 -> 0 -> 1", "Ring 00 : 3 -> 0 -> 1hello", "a line of NCCL's that is cut or mixed up"),
    ],
)
def test_a_ring_that_cannot_be_is_left_out_and_noted_with_its_line(old: str, new: str, note: str) -> None:
    texts = [text.replace(old, new) for text in logs(SMALL, NEWEST)]
    imported = run(texts)
    assert any(note in row and ".log:" in row for row in imported.notes)
    # A cut line's edges are known from the neighbours; a contradiction costs the ring.
    names = {flow[:2] for flow in sent(imported.job)}
    assert (("rank3", "rank0") in names) == ("hello" in new)
    assert ("rank0", "rank3") in names


def test_two_rings_instead_of_one_are_no_permutation() -> None:
    cluster = dataclasses.replace(SMALL, rings=SMALL.rings[:1])
    texts = logs(cluster, NEWEST)
    for rank, other in ((0, 2), (1, 3), (2, 0), (3, 1)):
        lines = [row for row in texts[rank].splitlines(keepends=True) if "Channel 00/01" not in row]
        texts[rank] = "".join(
            f"{prefix(cluster, rank)}Ring 00 : {other} -> {rank} -> {other}\n" if " Ring 00 " in row else row
            for row in lines
        )
    imported = run(texts)
    assert any("ring 0 is no permutation of its 4 ranks" in note for note in imported.notes)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda texts: [*texts, texts[1]], r"^rank4.log:3: rank 1 of communicator .* began at rank1.log:3"),
        (
            lambda texts: [texts[0], texts[1].replace("rank 1 nranks", "rank 0 nranks").replace("1 -> 1 ->", "")],
            r"^rank1.log:\d+: 'rank 1': the thread that wrote this makes rank 0",
        ),
        (
            lambda texts: [texts[0], texts[1].replace("nranks 4", "nranks 5")],
            r"^rank1.log:3: 'nranks 5': communicator c0 had 4 ranks at rank0.log:3$",
        ),
        (
            lambda texts: [texts[0].replace("Ring 01 : 1 -> 0 -> 3", "Ring 00 : 1 -> 0 -> 3"), *texts[1:]],
            r"^rank0.log:\d+: '1 -> 0 -> 3': ring 0 of rank 0 went 3 -> 0 -> 1 before",
        ),
        (
            lambda texts: [texts[0].replace("nranks 4", "nranks 400000000"), *texts[1:]],
            r"^rank0.log:3: 400000000: a communicator has at most",
        ),
        (lambda _: ["hello\n"], r"^rank0.log: no line of NCCL's is in it"),
        (
            lambda texts: ["".join(row + "\n" for row in texts[0].splitlines() if "comm 0x" not in row)],
            r"names a communicator",
        ),
    ],
)
def test_a_contradiction_is_refused_with_both_lines(change: object, reason: str) -> None:
    texts = logs(SMALL, NEWEST)
    with pytest.raises(InputError, match=reason):
        run(change(texts))  # type: ignore[operator]


def test_a_log_without_sizes_needs_bytes() -> None:
    texts = logs(dataclasses.replace(SMALL, calls=()), NEWEST)
    with pytest.raises(InputError, match="or give --bytes"):
        run(texts)
    assert sent(run(texts, bytes=4096).job) == sent(run(logs(SMALL, NEWEST)).job)


def test_a_rank_that_logged_fewer_operations_is_noted() -> None:
    texts = logs(dataclasses.replace(SMALL, calls=(Call("AllReduce", 1024, times=3),)), NEWEST)
    whole = sent(run(texts).job)
    texts[2] = "".join(texts[2].splitlines(keepends=True)[:-1])
    imported = run(texts)
    assert sent(imported.job) == whole
    assert "c0: rank 2 logged 2 operations and rank 0 3, which counts" in imported.notes


def test_two_runs_in_one_log_are_noted() -> None:
    texts = logs(SMALL, NEWEST)
    again = [text.replace(":1", ":7").replace("f1f8", "ffff") for text in texts]
    notes = run(texts + again).notes
    assert any("GPU 10000 of node0 had process 1000 and then 7000" in note for note in notes)
    assert "1 more GPUs of several processes" in notes


def test_connections_that_another_thread_makes_later_belong_to_their_rank() -> None:
    late = []
    for rank, text in enumerate(logs(SMALL, NEWEST)):
        rows = text.splitlines(keepends=True)
        moved = [row.replace(f":{2000 + rank} ", f":{3000 + rank} ") for row in rows if " via " in row]
        late.append("".join([row for row in rows if " via " not in row] + moved))
    inventory = parse_inventory({f"node{s}": [f"h{s}.{i}" for i in range(2)] for s in range(2)})
    assert sent(run(late, inventory=inventory).job) == sent(run(logs(SMALL, NEWEST), inventory=inventory).job)
    # By NICs that are none of the ranks' own it shows.
    swapped = [text.replace("NET/IB/0/", "NET/IB/2/") for text in late]
    with pytest.raises(InputError, match=r"'node[01] 2'"):
        run(swapped, inventory=inventory)


# Shapes from logs that people published in NCCL's issues, with other names and numbers.
@pytest.mark.parametrize(
    "line",
    [
        "Channel 00 :    0   1   3   2   6   4   5   7",
        "Ring 00 : 45 -> 46 [send] via NET/Socket/0",
        "Ring 00 : 15[41000] -> 0[1b000] [receive] via NET/IB/0",
        "Ring 01 : 0[0] -> 1[1] via P2P/IPC",
        "Trees [0] 1/-1/-1->0->7|7->0->1/-1/-1 [1] 1/-1/-1->0->7|7->0->1/-1/-1",
        "Channel 04 : 3[b000] -> 0[6000] via P2P/direct pointer",
        "Channel 01 : 0[7000] -> 7[41000] via direct shared memory",
        "Channel 03/0 : 19[201d0] -> 26[201c0] [send] via NET/AWS Libfabric/0/GDRDMA",
        "Channel 02/1 : 9[1] -> 1[1] [receive] via NET/IBext_v8/1(0)/GDRDMA(PCI)/Shared",
        "Connected all rings, use ring PXN 0 GDR 1",
        "comm 0x5639e9f0e8c0 rank 0 nRanks 24 nNodes 3 localRanks 8 localRank 0 MNNVL 0",
        "comm 0x7f5780001ca0 rank 15 nranks 32 cudaDev 7 nvmlDev 7 - Init COMPLETE",
        "[Rank 3] ncclCommInitRank comm 0x5a rank 3 nranks 4 cudaDev 3 nvmlDev 3 busId c8 commId 0x1f - Init START",
        "ncclCommSplit comm 0x5a rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1a000 parent 0x5b splitCount 2 "
        "color 1684518034 key 0- Init START",
        "AllReduce: opCount 139d sendbuff (nil) recvbuff 0x78d0 count 7382228 datatype 7 op 0 root 0 comm 0x7f "
        "[nranks=128] stream 0x78 task 0 globalrank 3",
        "AllGather: 37756928 Bytes -> Algo 1 proto 2 time 2860.208008",
        "NET/IB : Using [0]mlx5_0:1/IB [1]={[1] mlx5_2:1/RoCE, [3] mlx5_3:1/RoCE} [RO]; OOB ib8:1.2.3.4<0>",
    ],
)
def test_lines_of_every_version_are_understood(line: str) -> None:
    assert parse(line) is not None


# -- NCCL Inspector ------------------------------------------------------------------------------------------------


def record(rank: int, number: int, size: int, *, key: str = "0x5a16c3838ce6f1f8", **more: object) -> str:
    return (
        json.dumps(
            {
                "header": {"id": key, "rank": rank, "n_ranks": 4, "nnodes": 2},
                "metadata": {
                    "inspector_output_format_version": "v4.0",
                    "hostname": SMALL.server(rank),
                    "pid": 1000 + rank,
                },
                "coll_perf": {"coll": "AllReduce", "coll_sn": number, "coll_msg_size_bytes": size} | more,
            }
        )
        + "\n"
    )


@pytest.mark.parametrize("key", ["0x5a16c3838ce6f1f8", "0x1234"])
def test_the_inspector_tells_sizes_that_the_log_does_not(key: str) -> None:
    texts = logs(dataclasses.replace(SMALL, calls=()), NEWEST if key.endswith("f8") else STYLES[0])
    seen = "".join(record(rank, number, 4096, key=key) for rank in range(4) for number in (5, 6, 8))
    imported = run([*texts, seen])
    once = run(logs(SMALL, NEWEST))
    assert sent(imported.job) == Counter(
        {(src, dst, name, 4 * size): times for (src, dst, name, size), times in sent(once.job).items()}
    )
    assert any("saw 3 of 4 AllReduce" in note for note in imported.notes)


def test_the_inspector_alone_makes_a_job_by_formula() -> None:
    imported = run(["".join(record(rank, 1, 4096, coll_algo="RING") for rank in range(4))])
    assert (imported.ranks, imported.groups, imported.collectives) == (4, 1, 1)
    assert sent(imported.job) == Counter(
        {("rank1", "rank2", "c0-all_reduce", 6144): 1, ("rank3", "rank0", "c0-all_reduce", 6144): 1}
    )


@pytest.mark.parametrize("cut", [20, 100, 200])
def test_a_record_that_is_cut_is_refused(cut: int) -> None:
    with pytest.raises(InputError, match=r"^rank0.log:1: this record is cut short or no JSON$"):
        run([record(0, 1, 1)[:cut]])


# -- anything at all -----------------------------------------------------------------------------------------------


def attempt(texts: list[str], **request: object) -> None:
    """Whatever it is, it is read or refused in one line."""
    try:
        imported = run(texts, **request)
    except InputError as error:
        assert "\n" not in str(error)
        return
    assert all(size >= 0 for size in imported.job.flows.bytes.tolist())


@settings(deadline=None, max_examples=150)
@given(data=st.binary(max_size=400))
def test_random_bytes_are_refused(data: bytes) -> None:
    attempt([data.decode("utf-8", "replace")])


@settings(deadline=None, max_examples=200)
@given(cluster=clusters(), style=styles, data=st.data())
def test_damaged_logs_are_read_or_refused(cluster: Cluster, style: Style, data: st.DataObject) -> None:
    rows = [line for rank in range(cluster.n) for line in log_of(cluster, rank, style)]
    rows += [record(0, 1, 5).strip(), choice(0, cluster, "AllReduce: 4096 Bytes -> Algo TREE proto LL").strip()]
    for _ in range(data.draw(st.integers(1, 8))):
        i = data.draw(st.integers(0, len(rows) - 1))
        row = rows[i]
        match data.draw(st.sampled_from(["drop", "twice", "swap", "cut", "number", "glue", "noise"])):
            case "drop":
                rows[i] = ""
            case "twice":
                rows.append(row)
            case "swap":
                j = data.draw(st.integers(0, len(rows) - 1))
                rows[i], rows[j] = rows[j], row
            case "cut":
                rows[i] = row[: data.draw(st.integers(0, len(row)))]
            case "number":
                digits = [k for k, letter in enumerate(row) if letter.isdigit()]
                if digits:
                    k = data.draw(st.sampled_from(digits))
                    new = data.draw(st.sampled_from(["", "-", "9", "00", "99999", "9" * 30, "x", "²"]))
                    rows[i] = row[:k] + new + row[k + 1 :]
            case "glue":
                rows[i] = row + data.draw(st.sampled_from(rows))
            case "noise":
                k = data.draw(st.integers(0, len(row)))
                rows[i] = row[:k] + data.draw(st.text(max_size=5)) + row[k:]
    attempt(["\n".join(rows)], bytes=data.draw(st.sampled_from([None, 0, 10**9])))


# -- memory --------------------------------------------------------------------------------------------------------

LONG = Cluster(2, 2, 2, SMALL.rings, SMALL.trees, (Call("AllReduce", 1024), Call("AllGather", 999, datatype=9)))


def long_log(megabytes: int) -> Iterator[bytes]:
    """A log of operations without end, in blocks."""
    for text in logs(LONG, NEWEST):
        yield text.encode()
    block = "".join(
        f"{line}\n" for rank in range(LONG.n) for line in log_of(LONG, rank, NEWEST) if " opCount " in line
    ).encode()
    block *= -(-(1 << 20) // len(block))
    for _ in range(megabytes):
        yield block


class Endless(io.RawIOBase):
    """The log as a stream that is nowhere as a whole."""

    def __init__(self, megabytes: int) -> None:
        self._blocks = long_log(megabytes)
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        if not self._left:
            self._left = next(self._blocks, b"")
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count


def test_memory_does_not_grow_with_the_log() -> None:
    def peak(megabytes: int) -> int:
        source = Source("long.log", lambda: io.BufferedReader(Endless(megabytes)))  # type: ignore[arg-type]
        tracemalloc.start()
        try:
            read([source], ImportRequest())
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(6) < peak(2) + (1 << 20)


def test_a_log_larger_than_the_memory_that_is_left_is_read(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    with path.open("wb") as file:
        for block in long_log(60):
            file.write(block)
    program = f"""
import resource
from controller.workload.importers.base import ImportRequest
from controller.workload.importers.nccl import read
from controller.workload.importers.nccl.lines import parse
from controller.workload.importers.streams import open_sources
in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (in_use + (24 << 20),) * 2)
print(read(open_sources([{str(path)!r}]), ImportRequest()).ranks)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("4\n", 0), done.stderr
    assert path.stat().st_size > 2 * (24 << 20)
