"""Logs that are incomplete, contradict themselves, or are none."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.workload.importers.inventory import parse_inventory
from controller.workload.importers.nccl.lines import parse, split
from tests.unit.laws import examples
from tests.unit.workload.importers.nccl.nccl_logs import (
    STYLES,
    Call,
    Cluster,
    Style,
    clusters,
    log_of,
    logs,
    pointer,
    prefix,
)
from tests.unit.workload.importers.nccl.nccl_runs import NEWEST, SMALL, choice, record, run, sent, styles


@settings(deadline=None, max_examples=examples(20, 120))
@given(cluster=clusters(least=2, own_nics=True), style=st.sampled_from(STYLES[:4]), data=st.data())
def test_without_the_log_of_one_rank_the_others_give_its_edges(
    cluster: Cluster, style: Style, data: st.DataObject
) -> None:
    lost = data.draw(st.integers(0, cluster.n - 1))
    texts = logs(cluster, style)
    imported = run([text for rank, text in enumerate(texts) if rank != lost])
    whole = sent(run(texts).job)
    found = sent(imported.job)
    assert any(
        f"c0: 1 of {cluster.n} ranks have no log, the first is {lost}; they are assumed" in n for n in imported.notes
    )
    assert found == whole


@settings(deadline=None, max_examples=examples(15, 90))
@given(cluster=clusters(least=2, own_nics=True), data=st.data())
def test_with_the_number_of_servers_the_logs_of_one_server_imply_the_others(
    cluster: Cluster, data: st.DataObject
) -> None:
    texts = logs(cluster, NEWEST)
    for rank, text in enumerate(texts):
        who = f"{prefix(cluster, rank)}comm {pointer(rank)} rank {rank} nRanks {cluster.n} nNodes {cluster.servers} "
        line = f"{who}localRanks {cluster.gpus} localRank {rank % cluster.gpus} MNNVL 0\n"
        texts[rank] = text.replace(" - Init START\n", f" - Init START\n{line}")
    whole = sent(run(texts).job)
    kept = data.draw(st.integers(0, cluster.servers - 1))
    # Rank 0 tells all rings, if they are short enough.
    some = [text for rank, text in enumerate(texts) if rank // cluster.gpus == kept or rank == 0]
    heard = run(some)
    assert sent(heard.job) == whole
    if len(some) < cluster.n:
        assert any(f"on servers of {cluster.gpus} ranks each" in note for note in heard.notes)


@settings(deadline=None, max_examples=examples(30, 180))
@given(cluster=clusters(least=2, own_nics=True), graph=st.booleans(), data=st.data())
def test_an_import_without_ranks_has_all_flows_or_says_first_that_it_has_not(
    cluster: Cluster, graph: bool, data: st.DataObject
) -> None:
    texts = logs(cluster, dataclasses.replace(NEWEST, graph=graph))
    # Without rank 0's account of whole rings, as that of many ranks is cut.
    texts = [
        "".join(row for row in text.splitlines(keepends=True) if "/0" in row or "Channel" not in row) for text in texts
    ]
    lost = data.draw(st.sets(st.integers(0, cluster.n - 1), max_size=cluster.n - 1))
    if data.draw(st.booleans()):
        server = data.draw(st.integers(0, cluster.servers - 1))
        lost = {rank for rank in range(cluster.n) if rank // cluster.gpus == server}
    try:
        imported = run([text for rank, text in enumerate(texts) if rank not in lost])
    except InputError:
        return
    if not imported.warnings:
        assert sent(imported.job) == sent(run(texts).job)


def test_rings_are_rebuilt_from_connections_where_a_ranks_log_is_missing() -> None:
    style = dataclasses.replace(NEWEST, graph=False)
    cluster = dataclasses.replace(SMALL, gpus=4, nics=4, rings=((0, 1, 2, 3, 4, 5, 6, 7), (3, 0, 2, 1, 7, 5, 6, 4)))
    cluster = dataclasses.replace(cluster, trees=((-1, 0, 0, 0, 1, 1, 1, 2),) * 2)
    texts = [
        "".join(row for row in text.splitlines(keepends=True) if "Channel" not in row or " -> " in row)
        for text in logs(cluster, style)
    ]
    whole = run(texts)
    assert len(sent(whole.job)) == 4
    for lost in ({0}, {5}, {0, 1, 2}, {4, 5, 6, 7}):
        imported = run([text for rank, text in enumerate(texts) if rank not in lost])
        assert sent(imported.job) == sent(whole.job)
        assert imported.warnings == ()
    # Connections between two servers of which no rank has a log are told by nobody.
    far = run(texts[:1])
    assert "no ring is complete" in far.warnings[0]


def test_an_unknown_ring_is_the_order_of_ranks_with_a_warning() -> None:
    texts = [
        "".join(line for line in text.splitlines(keepends=True) if " Ring " not in line and "Channel" not in line)
        for text in logs(SMALL, NEWEST)
    ]
    imported = run(texts)
    assert any("no ring is complete" in warning for warning in imported.warnings)
    assert sent(imported.job) == Counter(
        {("rank1", "rank2", "c0-all_reduce", 6144): 1, ("rank3", "rank0", "c0-all_reduce", 6144): 1}
    )


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        ("Ring 00 : 0 -> 1 -> 2", "Ring 00 : 0 -> 1 -> 3", "c0 ring 0: after 1 comes"),
        ("Ring 00 : 0 -> 1 -> 2", "Ring 00 : 0 -> 1 -> 77", "c0 ring 0: after 1 comes"),
        (
            "Ring 00 : 3 -> 0 -> 1",
            "Ring 00 : 3 -> 0 -> 1hello",
            "a line of NCCL that is truncated or mixed with another",
        ),
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


def test_a_tree_that_cannot_be_is_noted_where_it_is_wanted_and_counted_as_a_ring() -> None:
    cluster = dataclasses.replace(SMALL, trees=((-1, 0, 3, 2), (1, -1, -1, 2)))
    by_tree = choice(0, SMALL, "AllReduce: 4096 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}")
    imported = run([*logs(cluster, NEWEST), by_tree])
    for channel in (0, 1):
        assert any(f"c0 tree {channel} is not a tree of its 4 ranks" in note for note in imported.notes)
    assert "no tree is complete" in imported.warnings[0]
    by_ring = run(logs(cluster, NEWEST))
    assert Counter(flow[3] for flow in sent(imported.job)) == Counter(flow[3] for flow in sent(by_ring.job))
    assert not any("c0 tree" in note for note in by_ring.notes)


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
    assert any("ring 0 is not a permutation of its 4 ranks" in note for note in imported.notes)


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
        (lambda _: ["hello\n"], r"^rank0.log: has no lines of NCCL"),
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
    assert "c0: rank 2 logged 2 operations and rank 0 3, which is used" in imported.notes


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
        "Trees [0] 22->23->-1/-1/-1",
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


def test_a_line_that_began_behind_anothers_prefix_is_of_who_wrote_it() -> None:
    line = "node2:40517:40631 [7] NCCL INFO Ring 04 : 7[7] -> 3[3] via P2P/IPC"
    assert split(f"node1:40515:40655 [6] NCCL INFO {line}") == split(line)


# -- anything at all ---------------------------------------------------------------------------------------------------


def attempt(texts: list[str], **request: object) -> None:
    """Whatever it is, it is read or refused in one line."""
    try:
        imported = run(texts, **request)
    except InputError as error:
        assert "\n" not in str(error)
        return
    assert all(size >= 0 for size in imported.job.flows.bytes.tolist())


@settings(deadline=None, max_examples=examples(75, 450))
@given(data=st.binary(max_size=400))
def test_random_bytes_are_refused(data: bytes) -> None:
    attempt([data.decode("utf-8", "replace")])


@settings(deadline=None, max_examples=examples(100, 600))
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
