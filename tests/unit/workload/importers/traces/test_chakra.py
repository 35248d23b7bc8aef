from __future__ import annotations

import io

import pytest

from controller.model.errors import InputError
from controller.workload.importers.base import ImportRequest, Source
from controller.workload.importers.chakra import read
from controller.workload.importers.chakra.protobuf import rank_in_name
from tests.unit.workload.importers.traces.small_traces import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BARRIER,
    BROADCAST,
    COLLECTIVE,
    COMPUTE,
    RECEIVE,
    REDUCE_SCATTER,
    SEND,
    calls,
    et,
    flows,
    imported,
    metadata,
    node,
    sources,
)


def test_a_collective_in_the_traces_of_all_ranks_counts_once_and_its_runs_add_up() -> None:
    file = et(
        node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=1000),
        node(COMPUTE),
        node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=500),
        node(COLLECTIVE, comm_type=BARRIER, comm_size=0),
    )
    found = imported([file] * 4)
    assert calls(found.job) == [("all-all_reduce", "all_reduce", (0, 1, 2, 3), 1500)]
    assert (found.ranks, found.groups, found.collectives, found.notes) == (4, 1, 1, ())
    assert imported([file] * 4, iterations=2).job.collectives[0].bytes == 750


def test_of_an_all_gather_the_trace_has_one_ranks_part() -> None:
    gather = node(COLLECTIVE, comm_type=ALL_GATHER, comm_size=100)
    scatter = node(COLLECTIVE, comm_type=REDUCE_SCATTER, comm_size=100)
    assert [c.bytes for c in imported([et(gather, scatter)] * 3).job.collectives] == [300, 100]


def test_groups_come_from_a_file_of_groups_and_phases_are_distinguished_only_within_one() -> None:
    mine = [et(node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=8, pg_name=str(rank % 2))) for rank in range(4)]
    listed = Source("groups.json", lambda: io.BytesIO(b'{"0": [0, 2], "1": [1, 3]}'))
    found = read([*sources(mine), listed], ImportRequest())
    assert calls(found.job) == [("0-all_reduce", "all_reduce", (0, 2), 8), ("1-all_reduce", "all_reduce", (1, 3), 8)]
    assert [call.phase for call in found.job.collectives] == [0, 0]
    both = et(*(node(COLLECTIVE, comm_type=kind, comm_size=8) for kind in (ALL_REDUCE, ALL_TO_ALL)))
    assert [call.phase for call in imported([both] * 2).job.collectives] == [0, 1]


def test_sends_are_flows_and_sends_without_a_receive_are_reported() -> None:
    first = et(node(SEND, comm_dst=1, comm_size=10), node(SEND, comm_dst=1, comm_size=5))
    second = et(node(RECEIVE, comm_src=0, comm_size=10), node(RECEIVE, comm_src=2, comm_size=7))
    found = imported([first, second])
    assert flows(found.job) == [("rank0", "rank1", 15), ("rank2", "rank1", 7)]
    assert any("15 bytes, of which 10 are received" in note for note in found.notes)
    assert found.ranks == 3


def test_ranks_with_different_sizes_are_named_and_the_larger_size_is_used() -> None:
    files = [et(node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=size)) for size in (8, 8, 24)]
    found = imported(files)
    assert found.job.collectives[0].bytes == 24
    [note] = found.notes
    assert "24 bytes by trace.2.et" in note
    assert "8 by trace.0.et" in note


def test_the_root_of_a_broadcast_comes_first() -> None:
    file = et(node(COLLECTIVE, comm_type=BROADCAST, comm_size=8, root_rank=2))
    assert calls(imported([file] * 3).job) == [("all-broadcast-root2", "broadcast", (2, 0, 1), 8)]


def test_groups_that_a_trace_has_in_a_node_count_as_pytorch_names_them() -> None:
    head = metadata(
        {"pg_name": "0", "ranks": [], "group_size": 4},
        {"pg_name": "3", "pg_desc": "tp", "ranks": [3, 1], "group_size": 2},
    )
    mine = et(head, node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=8, pg_name="3"))
    world = et(head, node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=4, pg_name="0"))
    found = imported([world, mine, world, mine])
    assert calls(found.job) == [
        ("0-all_reduce", "all_reduce", (0, 1, 2, 3), 4),
        ("3-all_reduce", "all_reduce", (3, 1), 8),
    ]
    assert (found.groups, found.notes) == (2, ())


def test_unknown_ranks_of_a_group_are_those_that_use_it_with_a_note() -> None:
    mine = [et(node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=8, pg_name=str(7 + rank // 2))) for rank in range(4)]
    found = imported(mine)
    assert [call.ranks for call in found.job.collectives] == [(0, 1), (2, 3)]
    assert "group '7' are unknown; the 2 ranks whose traces have it" in found.notes[0]
    assert imported([et(node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=8, pg_name="0"))] * 2).notes == ()


def test_the_processors_call_of_a_collective_is_not_counted_beside_its_kernel() -> None:
    call = node(COLLECTIVE, is_cpu_op=True)
    kernel = node(COLLECTIVE, is_cpu_op=False, comm_type=ALL_REDUCE, comm_size=8)
    assert calls(imported([et(call, kernel)] * 2).job) == [("all-all_reduce", "all_reduce", (0, 1), 8)]


def test_sends_without_a_peer_and_dimensions_left_out_are_noted() -> None:
    file = et(
        node(SEND, comm_size=8),
        node(SEND, comm_size=8),
        node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=8, involved_dim=[True, False]),
    )
    found = imported([file] * 2)
    assert calls(found.job) == [("all-all_reduce", "all_reduce", (0, 1), 8)]
    assert "trace.0.et: left out, 2 x send without its peer" in found.warnings
    assert any("involved_dim" in text for text in found.warnings)
    whole = et(node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=8, involved_dim=[True, True]))
    assert imported([whole] * 2).notes == ()


def test_a_group_counts_once_whatever_runs_in_it() -> None:
    file = et(
        node(COLLECTIVE, comm_type=BROADCAST, comm_size=8, root_rank=1),
        node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=8),
    )
    found = imported([file] * 2)
    assert (found.groups, found.collectives) == (1, 2)
    assert [call.phase for call in found.job.collectives] == [0, 1]


def test_chakras_json_is_read_where_it_has_sizes() -> None:
    graph = (
        b'{"workload_graph": [{"Id": 1, "NodeType": 4}, {"Id": 2, "NodeType": 7, "is_cpu_op": true}, '
        b'{"Id": 3, "NodeType": 7, "is_cpu_op": false, "comm_type": 0, "comm_size": 8}, '
        b'{"Id": 4, "NodeType": 5, "is_cpu_op": false, "comm_dst": 1, "comm_size": 3}]}'
    )
    found = imported([graph, graph.replace(b'"comm_dst": 1', b'"comm_dst": 0')], "json")
    assert calls(found.job) == [("all-all_reduce", "all_reduce", (0, 1), 8)]
    assert flows(found.job) == [("rank0", "rank1", 3), ("rank1", "rank0", 3)]


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("all_reduce.3.et", 3),
        ("a/b.tgz/trace.12.json.gz", 12),
        ("pytorch_rank7.json", 7),
        ("et_rank_15.json", 15),
        ("RANK-2.et", 2),
        ("trace.et", None),
        ("8nodes.et", None),
        ("trace.9999999.et", None),
    ],
)
def test_the_rank_is_taken_from_the_file_name(name: str, rank: int | None) -> None:
    assert rank_in_name(name) == rank


def test_files_without_a_rank_are_used_in_their_order_with_a_note() -> None:
    file = et(node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=8))
    found = read([Source(name, lambda: io.BytesIO(file)) for name in ("x.et", "y.et")], ImportRequest())
    assert found.notes == (
        "x.et does not contain its rank: by its position it is 0",
        "y.et does not contain its rank: by its position it is 1",
    )


def test_two_files_of_one_rank_are_refused() -> None:
    file = et(node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=8))
    twice = [Source(f"{folder}/trace.0.et", lambda: io.BytesIO(file)) for folder in ("a", "b")]
    with pytest.raises(InputError, match=r"is of rank 0, as is a/trace\.0\.et"):
        read(twice, ImportRequest())


@pytest.mark.parametrize("ranks", ["[-1, 0]", "[0, 0]", "[0, 999999999]"])
def test_a_file_of_groups_with_ranks_that_are_none_is_refused(ranks: str) -> None:
    file = et(node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=8, pg_name="1"))
    listed = Source("groups.json", lambda: io.BytesIO(f'{{"1": {ranks}}}'.encode()))
    with pytest.raises(InputError, match=r"groups\.json: 1: the ranks of group '1' are invalid or not distinct"):
        read([*sources([file] * 2), listed], ImportRequest())
