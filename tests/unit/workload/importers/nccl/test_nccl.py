"""Logs of clusters that never were are read back as what the clusters sent."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from math import ceil
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.workload.expand import expand
from controller.workload.importers.inventory import parse_inventory
from controller.workload.importers.placing import on_fabric
from tests.unit.laws import examples
from tests.unit.workload.importers.nccl.nccl_logs import (
    Call,
    Cluster,
    Style,
    clusters,
    logs,
    prefix,
    trees,
)
from tests.unit.workload.importers.nccl.nccl_runs import NEWEST, SMALL, choice, played, run, sent, styles

RING = re.compile(r"Ring \d+ : \d+ -> \d+ -> \d+$", re.MULTILINE)


@settings(deadline=None, max_examples=examples(30, 180))
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


@settings(deadline=None, max_examples=examples(10, 60))
@given(
    servers=st.integers(3, 10),
    gpus=st.sampled_from([7, 8]),
    channels=st.integers(1, 4),
    style=styles,
    graph=st.booleans(),
    lost=st.sets(st.integers(0, 20), max_size=3),
    random=st.randoms(use_true_random=False),
)
def test_rings_are_those_of_the_first_connections_if_their_lines_are_cut_or_lost(
    servers: int, gpus: int, channels: int, style: Style, graph: bool, lost: set[int], random: Random
) -> None:
    n = servers * gpus
    # Rank 0 prints rings of more than some twenty ranks in part.
    rings = tuple(tuple(random.sample(range(n), n)) for _ in range(channels))
    cluster = Cluster(servers, gpus, gpus, rings, (tuple(range(-1, n - 1)),) * channels)
    texts = logs(cluster, dataclasses.replace(style, graph=graph))
    for rank in lost:
        texts[rank] = "".join(line for line in texts[rank].splitlines(keepends=True) if not RING.search(line))
    imported = run(texts)
    expected = Counter(
        (f"rank{src}", f"rank{dst}", f"c0-{op}", ceil(size)) for (op, _, src, dst), size in played(cluster).items()
    )
    assert sent(imported.job) == expected
    assert not imported.warnings


@settings(deadline=None, max_examples=examples(20, 120))
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


@settings(deadline=None, max_examples=examples(15, 90))
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


@settings(deadline=None, max_examples=examples(15, 90))
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


@settings(deadline=None, max_examples=examples(15, 90))
@given(cluster=clusters(least=2, own_nics=True), iterations=st.integers(1, 9))
def test_bytes_are_those_of_one_iteration(cluster: Cluster, iterations: int) -> None:
    expected = Counter(
        (f"rank{src}", f"rank{dst}", f"c0-{op}", ceil(size / iterations))
        for (op, _, src, dst), size in played(cluster).items()
    )
    assert sent(run(logs(cluster, NEWEST), iterations=iterations).job) == expected


# -- algorithms --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "AllReduce: 4096 Bytes -> Algo TREE proto SIMPLE channel{Lo..Hi}={0..1}",
        "AllReduce: 4096 Bytes -> Algo 0 proto 2 time 2860.208008",
        "4096 Bytes -> Algo 0 proto 2 time 2860.208008",
        "NCCL_ALGO set by environment to Tree.",
    ],
)
@settings(deadline=None, max_examples=examples(8, 45), suppress_health_check=[HealthCheck.function_scoped_fixture])
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


@pytest.mark.parametrize(("value", "noted"), [("Ring", False), ("Tree", False), ("Ring,Tree", True), ("^NVLS", True)])
def test_an_unknown_algorithm_is_noted_unless_there_is_only_one(value: str, noted: bool) -> None:
    line = choice(0, SMALL, f"NCCL_ALGO set by environment to {value}.")
    notes = run([*logs(SMALL, NEWEST), line]).notes
    assert any("the algorithm of an all-reduce is unknown" in note for note in notes) == noted


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


# -- NICs --------------------------------------------------------------------------------------------------------------


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
    with pytest.raises(InputError, match=r"2 NICs need as many hosts, not 1"):
        on_fabric(run(logs(cluster, NEWEST)), fabric, ["h1"])


@pytest.mark.parametrize(
    ("gpus", "hosts"), [(2, {"a0", "a1", "b0", "b1"}), (4, {"a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3"}), (8, None)]
)
def test_without_nics_in_the_log_rank_i_has_rail_i_and_more_ranks_share(gpus: int, hosts: set[str] | None) -> None:
    ring = tuple(rank for i in range(gpus) for rank in (i, gpus + i))
    cluster = Cluster(2, gpus, gpus, (ring,), ((-1, *range(2 * gpus - 1)),), (Call("AllReduce", 1024),))
    texts = [
        "".join(row for row in text.splitlines(keepends=True) if " via " not in row) for text in logs(cluster, NEWEST)
    ]
    job = run(texts, inventory=parse_inventory({f"node{s}": [f"{'ab'[s]}{i}" for i in range(4)] for s in (0, 1)})).job
    assert set(job.flows.src) == (hosts or {f"{server}{i}" for server in "ab" for i in range(4)})
    if hosts is None:
        # Ranks 2i and 2i + 1 of a server share NIC i.
        assert Counter(job.flows.src) == dict.fromkeys(set(job.flows.src), 2)


def test_an_unknown_nic_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"inventory: 'node0 mlx5_[01]': neither the inventory nor the fabric has"):
        run(logs(SMALL, NEWEST), inventory=parse_inventory({"node1": "h1"}))


def test_a_fabric_with_some_of_the_servers_is_refused() -> None:
    fabric = clos(1, 2, 2, nics_per_server=2)  # node1 and node2; the log has node0 and node1
    with pytest.raises(InputError, match=r"^rank0.log:3: 'node0': the fabric has some of the log's servers"):
        run(logs(SMALL, NEWEST), fabric=fabric)


def test_a_job_without_hosts_is_placed_by_the_placement() -> None:
    fabric = clos(2, 2, 4)
    imported = run(logs(SMALL, NEWEST), fabric=fabric)
    assert not imported.placed
    in_order = on_fabric(imported, fabric, None)
    assert in_order.hosts == ("h1", "h2", "h3", "h4")
    listed = on_fabric(imported, fabric, ["h8", "h7", "h6", "h5"])
    assert listed.hosts == ("h8", "h7", "h6", "h5")
    move = dict(zip(in_order.hosts, listed.hosts, strict=True))
    assert listed.flows.src == tuple(move[host] for host in in_order.flows.src)
    with pytest.raises(InputError, match=r"4 ranks need as many hosts, not 3"):
        on_fabric(imported, fabric, ["h8", "h7", "h6"])
    with pytest.raises(InputError, match=r"placement\[1\]: 'h8': this host is listed twice"):
        on_fabric(imported, fabric, ["h8", "h8", "h6", "h5"])
    with pytest.raises(InputError, match=r"placement\[0\]: 'x': the fabric has no host of this name"):
        on_fabric(imported, fabric, ["x", "h8", "h6", "h5"])
