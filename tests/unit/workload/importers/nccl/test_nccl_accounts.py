"""An import contains everything in the log, or reports what it lacks."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from tests.unit.laws import examples
from tests.unit.workload.importers.nccl.nccl_logs import STYLES, Cluster, Style, clusters, logs
from tests.unit.workload.importers.nccl.nccl_runs import NEWEST, SMALL, run, sent, styles
from tests.unit.workload.importers.nccl.nccl_tables import table

QUIET = dataclasses.replace(SMALL, calls=())


def rccl(texts: list[str], n: int) -> list[str]:
    """Logs with what RCCL puts behind its lines about rings, trees and connections."""
    marks = (" Ring ", " Trees ", " via ", "Connected all")
    return [
        "".join(
            f"{row} comm 0x95cdeb0 nRanks {n:02d} busId c1000\n" if any(mark in row for mark in marks) else f"{row}\n"
            for row in text.splitlines()
        )
        for text in texts
    ]


@settings(deadline=None, max_examples=examples(15, 90))
@given(cluster=clusters(least=2, own_nics=True), style=styles)
def test_rccls_lines_are_read_as_nccls(cluster: Cluster, style: Style) -> None:
    texts = logs(cluster, style)
    imported = run(rccl(texts, cluster.n))
    assert sent(imported.job) == sent(run(texts).job)
    assert imported.warnings == ()


@settings(deadline=None, max_examples=examples(20, 120))
@given(cluster=clusters(least=2, own_nics=True), style=st.sampled_from(STYLES[:4]), data=st.data())
def test_ranks_without_a_log_are_on_the_servers_that_the_others_tell(
    cluster: Cluster, style: Style, data: st.DataObject
) -> None:
    texts = logs(cluster, style)
    lost = data.draw(st.sets(st.integers(0, cluster.n - 1), min_size=1, max_size=cluster.n - 1))
    try:
        found = sent(run([text for rank, text in enumerate(texts) if rank not in lost]).job)
    except InputError as error:
        assert "its server is unknown" in error.reason or "sends" in error.reason
        return
    # Edges that nobody tells may be missing, and a ring with a gap is told in a note; no edge is made up.
    servers = {f"rank{rank}": cluster.server(rank) for rank in range(cluster.n)}
    assert all(servers[src] != servers[dst] for src, dst, _, _ in found)


def test_a_rank_with_an_unknown_server_is_not_a_separate_server() -> None:
    cluster = dataclasses.replace(
        SMALL, servers=4, gpus=2, rings=((0, 1, 2, 3, 4, 5, 6, 7),), trees=((-1,) + (0,) * 3 + (1,) * 3 + (2,),)
    )
    texts = [
        "".join(row for row in text.splitlines(keepends=True) if " via " not in row)
        for text in logs(cluster, STYLES[1])
    ]
    with pytest.raises(InputError, match="rank 1 has no log, and its server is unknown"):
        run(texts[:1])


def test_a_log_whose_rings_are_not_understood_says_so_first() -> None:
    texts = [text.replace("Ring 01 : 1 -> 0 -> 3", "Ring 01 : 1 -> 0 -> 3 what") for text in logs(SMALL, NEWEST)]
    texts = [text.replace(" Ring 01 : 3 -> 2", " Ring 01 : x -> 2").replace("Channel 01/02 ", "x") for text in texts]
    texts = ["".join(row for row in text.splitlines(keepends=True) if "Ring 01" not in row) for text in texts]
    imported = run(texts)
    assert "2 channels have connections over the network, and the rings of 1 of them" in imported.warnings[0]


@pytest.mark.parametrize(
    ("test", "row", "op", "part"),
    [
        ("all_reduce", ("sum", -1, 1.5, "0"), "all_reduce", 6144),
        ("reduce_scatter", ("sum", -1, 0.75, "0"), "reduce_scatter", 3072),
        ("all_gather", ("none", -1, 0.75, "0"), "all_gather", 3072),
        ("broadcast", ("none", 1, 1.0, "0"), "broadcast", 4096),
        ("reduce", ("sum", 1, 1.0, "0"), "reduce", 4096),
        ("alltoall", ("none", -1, 0.75, "N/A"), "all_to_all", 1024),
        ("sendrecv", ("none", -1, 1.0, "N/A"), "send_recv", 4096),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_the_operation_is_the_one_that_nccl_tests_ran(
    test: str, row: tuple[str, int, float, str], op: str, part: int, named: bool
) -> None:
    one_ring = dataclasses.replace(QUIET, rings=SMALL.rings[:1], trees=SMALL.trees[:1])
    said = table(test, (1024, *row), (4096, *row), name=named)
    if named:
        said = said.replace(f"{row[2] * 10:.2f}", "0.00")
    imported = run([said, *logs(one_ring, NEWEST)])
    assert {(name, size) for _, _, name, size in sent(imported.job)} == {(f"c0-{op}", part)}
    assert imported.warnings == ()
    assert [(m.op, m.ranks, m.bytes, round(m.seconds, 9)) for m in imported.measured] == [
        (op, 4, 1024, 0.0001005),
        (op, 4, 4096, 0.0001005),
    ]
    other = run([said, *logs(one_ring, NEWEST)], bytes=1024)
    assert Counter(4 * size for *_, size in sent(other.job).elements()) == Counter(
        size for *_, size in sent(imported.job).elements()
    )


def test_bytes_without_an_operation_are_one_all_reduce_with_a_warning() -> None:
    imported = run(logs(QUIET, NEWEST), bytes=4096)
    assert imported.warnings == ("the operation is unknown: --bytes is used as one all-reduce of 4096 bytes",)


def test_columns_that_fit_several_operations_are_refused() -> None:
    with pytest.raises(InputError, match="its columns fit several"):
        run([table("x", (4096, "none", 0, 0.75, "0"), name=False), *logs(QUIET, NEWEST)])


def test_a_row_that_another_processes_line_splits_is_read() -> None:
    rows = table("all_reduce", (4096, "sum", -1, 1.5, "0")).splitlines(keepends=True)
    cut = rows[-1].index("    100.5")
    left, right = rows[-1][:cut], rows[-1][cut:]
    log = logs(QUIET, NEWEST)
    first, _, rest = log[0].partition("\n")
    imported = run(["".join(rows[:-1]) + left + first + "\n" + right + rest, *log[1:]])
    assert [row.bytes for row in imported.measured] == [4096]
    assert sent(imported.job) == sent(run(logs(SMALL, NEWEST)).job)


@pytest.mark.parametrize("glue", ["-1", "0", "-1.00", "N/A", "12.5"])
@pytest.mark.parametrize("what", ["Init", "AllReduce: "])
def test_a_columns_end_before_a_hostname_loses_no_line(glue: str, what: str) -> None:
    texts = logs(SMALL, NEWEST)
    glued = [
        "".join(f"{glue}{row}" if what in row else row for row in text.splitlines(keepends=True)) for text in texts
    ]
    assert sent(run(glued).job) == sent(run(texts).job)


@pytest.mark.parametrize("hosts", [("node1", "1"), ("a1", "1")])
def test_hostnames_of_which_one_ends_as_another_stay_two(hosts: tuple[str, str]) -> None:
    texts = [
        text.replace(f"{SMALL.server(rank)}:", f"{hosts[rank // 2]}:") for rank, text in enumerate(logs(SMALL, NEWEST))
    ]
    assert sent(run(texts).job) == sent(run(logs(SMALL, NEWEST)).job)


def test_ranks_whose_lines_lack_the_identity_are_of_the_communicator_that_lacks_them() -> None:
    texts = logs(SMALL, NEWEST)
    texts[2] = texts[2].replace(" commId 0x5a16c3838ce6f1f8", "")
    imported = run(texts)
    assert (imported.ranks, imported.groups) == (4, 1)
    assert sent(imported.job) == sent(run(logs(SMALL, NEWEST)).job)
    assert any("lacks the identity of its communicator" in note for note in imported.notes)
