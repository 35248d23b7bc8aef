from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.job import Job
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.chakra import read
from controller.workload.importers.chakra.protobuf import _messages
from controller.workload.job_document import document_of
from controller.workload.job_file import parse_job

SEND, RECEIVE, COLLECTIVE, COMPUTE = 5, 6, 7, 4
ALL_REDUCE, ALL_GATHER, BROADCAST, ALL_TO_ALL, REDUCE_SCATTER, BARRIER = 0, 2, 5, 6, 7, 9


def delimited(*messages: Any) -> bytes:
    out = b""
    for message in messages:
        content = message.SerializeToString()
        length = len(content)
        while length > 0x7F:
            out += bytes([length & 0x7F | 0x80])
            length >>= 7
        out += bytes([length]) + content
    return out


def node(kind: int, **attributes: int | str) -> Any:
    make, _ = _messages()
    made = make(id=1, name="n", type=kind)
    for name, value in attributes.items():
        field = "string_val" if isinstance(value, str) else "int64_val"
        made.attr.add(name=name, **{field: value})
    return made


def et(*nodes: Any) -> bytes:
    _, head = _messages()
    return delimited(head(version="0.0.4"), *nodes)


def pytorch(*rows: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"schema": "1.1.1-chakra.0.0.4", **more, "nodes": list(rows)}).encode()


def comms(*values: Any) -> dict[str, Any]:
    return {"id": 9, "name": "record_param_comms", "inputs": {"values": list(values), "shapes": [], "types": []}}


def groups(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"name": "## process_group:init ##", "inputs": {"values": [json.dumps(list(rows))]}}


def tensor(elements: int, width: int = 4) -> list[Any]:
    return [3, 4, 0, elements, width, "cuda:0"]


def sources(files: Sequence[bytes], kind: str = "et") -> list[Source]:
    return [
        Source(f"trace.{rank}.{kind}", lambda content=content: io.BytesIO(content), len(content))  # type: ignore[misc]
        for rank, content in enumerate(files)
    ]


def imported(files: Sequence[bytes], kind: str = "et", **request: Any) -> Imported:
    found = read(sources(files, kind), ImportRequest(**request))
    again = parse_job(document_of(found.job))
    assert document_of(again) == document_of(found.job)
    return found


def calls(job: Job) -> list[tuple[str, str, tuple[int, ...], int]]:
    return [(call.name, call.op, call.ranks, call.bytes) for call in job.collectives]


def flows(job: Job) -> list[tuple[str, str, int]]:
    return sorted(zip(job.flows.src, job.flows.dst, job.flows.bytes.tolist(), strict=True))


# -- Chakra --------------------------------------------------------------------------------------------------------


def test_a_collective_that_all_ranks_tell_of_counts_once_and_its_runs_add_up() -> None:
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


def test_groups_come_from_a_file_of_groups_and_phases_are_told_apart_only_within_one() -> None:
    mine = [et(node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=8, pg_name=str(rank % 2))) for rank in range(4)]
    listed = Source("groups.json", lambda: io.BytesIO(b'{"0": [0, 2], "1": [1, 3]}'))
    found = read([*sources(mine), listed], ImportRequest())
    assert calls(found.job) == [("0-all_reduce", "all_reduce", (0, 2), 8), ("1-all_reduce", "all_reduce", (1, 3), 8)]
    assert [call.phase for call in found.job.collectives] == [0, 0]
    both = et(*(node(COLLECTIVE, comm_type=kind, comm_size=8) for kind in (ALL_REDUCE, ALL_TO_ALL)))
    assert [call.phase for call in imported([both] * 2).job.collectives] == [0, 1]


def test_sends_are_flows_and_what_nobody_received_is_told() -> None:
    first = et(node(SEND, comm_dst=1, comm_size=10), node(SEND, comm_dst=1, comm_size=5))
    second = et(node(RECEIVE, comm_src=0, comm_size=10), node(RECEIVE, comm_src=2, comm_size=7))
    found = imported([first, second])
    assert flows(found.job) == [("rank0", "rank1", 15), ("rank2", "rank1", 7)]
    assert any("15 bytes, of which 10 are received" in note for note in found.notes)
    assert found.ranks == 3


def test_ranks_that_tell_different_sizes_are_named_and_the_larger_counts() -> None:
    files = [et(node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=size)) for size in (8, 8, 24)]
    found = imported(files)
    assert found.job.collectives[0].bytes == 24
    [note] = found.notes
    assert "24 bytes by trace.2.et" in note
    assert "8 by trace.0.et" in note


def test_the_root_of_a_broadcast_comes_first() -> None:
    file = et(node(COLLECTIVE, comm_type=BROADCAST, comm_size=8, root_rank=2))
    assert calls(imported([file] * 3).job) == [("all-broadcast-root2", "broadcast", (2, 0, 1), 8)]


# -- PyTorch -------------------------------------------------------------------------------------------------------


def test_the_oldest_form_names_groups_by_their_backends_address() -> None:
    head = groups({"pg_name": "0", "backend_id": 82149104, "ranks": [], "group_size": 2, "group_count": 1})
    row = comms([tensor(3)], 12, 82149104, 0, "all_gather", [], [], 2)
    found = imported([pytorch(head, row, comms(12, 0, 0, "wait", [], [], 1))], "json")
    assert calls(found.job) == [("82149104-all_gather", "all_gather", (0, 1), 24)]
    assert "1 of 2 ranks" in found.notes[0]


def test_newer_forms_name_groups_and_where_they_lie() -> None:
    head = groups({"pg_name": "7", "ranks": [1, 3], "group_size": 2}, {"pg_name": "0", "ranks": [], "group_size": 4})
    reduce = comms([tensor(10)], [5, False], ["7", "dp"], 0, "allreduce", [], [], 1, 2, 2)
    strided = comms([tensor(10, 2)], [5, False], ["8", "tp"], 0, "_reduce_scatter_base", [], [], 0, 2, 2)
    found = imported([pytorch(head, strided), pytorch(head, reduce)], "json")
    assert calls(found.job) == [
        ("7-all_reduce", "all_reduce", (1, 3), 40),
        ("8-reduce_scatter", "reduce_scatter", (0, 2), 20),
    ]


def test_splits_say_who_gets_how_much_of_an_all_to_all() -> None:
    rows = [comms([tensor(100)], [1, False], ["0", ""], r, "all_to_allv", [1, 3], [2, 2], 0, 1, 2) for r in (0, 1)]
    found = imported([pytorch(row) for row in rows], "json")
    assert flows(found.job) == [("rank0", "rank1", 300), ("rank1", "rank0", 100)]


def test_the_oldest_schema_has_its_inputs_bare() -> None:
    row = {"name": "record_param_comms", "inputs": [[tensor(2)], 1, 5, 0, "broadcast", [], [], 2]}
    assert calls(imported([pytorch(row)] * 2, "json").job)[0][1:] == ("broadcast", (0, 1), 8)


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "kind", "complaint"),
    [
        ([et(node(COMPUTE))], "et", "trace.0.et: has no communication"),
        ([et(node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=8))], "et", "tells of one rank alone"),
        ([et(node(COLLECTIVE, comm_type=ALL_REDUCE))], "et", "message 1 (node 1): has no whole number comm_size"),
        ([et(node(COLLECTIVE, comm_type=99, comm_size=1))], "et", "comm_type 99"),
        ([et(node(SEND, comm_dst=-1, comm_size=1))], "et", "rank -1"),
        ([et(node(SEND, comm_dst=1, comm_size=-1))], "et", "-1 bytes"),
        ([et(node(COMPUTE))[:-1]], "et", "trace.0.et: message 1: ends after"),
        ([b"\xff" * 20], "et", "is no Chakra trace"),
        ([b""], "et", "has no communication"),
        ([b"{"], "json", "trace.0.json: is no JSON"),
        ([b"[1, 2]"], "json", "is no execution trace"),
        ([b'{"workload_graph": [{"Id": 1}]}'], "json", "its .et files have sizes"),
        ([b'{"0": [0, 1]}'], "json", "no trace is among the files"),
        ([pytorch({"name": "aten::add"})], "json", "has no communication"),
        ([pytorch(comms([tensor(1)], 1, 2, 0, "teleport", [], [], 2))], "json", "'teleport'"),
        ([pytorch({"name": "record_param_comms", "inputs": 3})], "json", "nodes[0]: has no inputs"),
        ([pytorch(groups({"pg_name": "0", "ranks": [0, 0]}))], "json", "not distinct"),
    ],
)
def test_what_is_no_trace_or_lacks_something_is_told_with_its_place(
    files: list[bytes], kind: str, complaint: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(sources(files, kind), ImportRequest())
    assert complaint in str(caught.value)


def test_two_files_of_one_rank_are_refused() -> None:
    file = et(node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=8))
    twice = [Source(f"{folder}/trace.0.et", lambda: io.BytesIO(file)) for folder in ("a", "b")]
    with pytest.raises(InputError, match=r"is of rank 0, as a/trace\.0\.et is"):
        read(twice, ImportRequest())


def test_a_message_that_claims_to_be_huge_is_refused_before_it_is_read() -> None:
    with pytest.raises(InputError, match="more than a message has"):
        read(sources([b"\xff\xff\xff\xff\x0f"]), ImportRequest())


def test_a_long_trace_needs_no_memory_of_its_length() -> None:
    import tracemalloc

    row = json.dumps(comms([tensor(10)], [5, False], ["0", ""], 0, "allreduce", [], [], 0, 1, 2))
    padding = json.dumps({"name": "aten::add", "inputs": {"values": ["x" * 2000]}})

    def stream() -> io.BytesIO:
        return io.BytesIO(b'{"nodes": [' + f"{padding},".encode() * 10_000 + row.encode() + b"]}")

    long = [Source("trace.0.json", stream)]
    assert len(stream().getvalue()) > 20_000_000
    tracemalloc.start()
    try:
        found = read(long, ImportRequest())
        # The text itself is in memory here, nothing else that grows with it.
        assert tracemalloc.get_traced_memory()[1] < 2.5 * len(stream().getvalue())
    finally:
        tracemalloc.stop()
    assert found.ranks == 2


@pytest.mark.parametrize("content", [b"[" * 50_000, b'{"nodes": [' + b'{"a":' * 50_000])
def test_a_trace_nested_without_end_is_refused(content: bytes) -> None:
    with pytest.raises(InputError, match="nested more than 100 deep"):
        read(sources([content], "json"), ImportRequest())


GOOD = [
    et(node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=8, pg_name="1"), node(SEND, comm_dst=1, comm_size=3)),
    pytorch(
        groups({"pg_name": "7", "ranks": [0, 1], "group_size": 2}),
        comms([tensor(10)], [5, False], ["7", "dp"], 0, "all_to_allv", [1, 2], [1, 2], 0, 1, 2),
        comms([[tensor(2)], [tensor(3)]], 3, 7, 0, "allgather", [], [], 2),
    ),
]


def harmless(content: bytes) -> None:
    for kind in ("et", "json"):
        try:
            imported([content, content], kind)
        except InputError as error:
            assert str(error).count("\n") == 0


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.builds(lambda b: b"{" + b, st.binary(max_size=200)))
def test_bytes_of_any_kind_are_a_job_or_one_clear_error(content: bytes) -> None:
    harmless(content)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(GOOD), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=4), st.floats(0, 1)
)
def test_damaged_traces_are_a_job_or_one_clear_error(
    content: bytes, changes: list[tuple[int, int]], kept: float
) -> None:
    damaged = bytearray(content)
    for at, value in changes:
        damaged[at % len(damaged)] = value
    harmless(bytes(damaged[: max(1, int(len(damaged) * (0.5 + kept)))]))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["values", "name", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(JSON, max_size=4), st.sampled_from(["allreduce", "all_to_allv", "send", "wait", "gather"]), JSON)
def test_values_of_any_kind_around_an_operation_are_a_job_or_one_clear_error(
    before: list[Any], name: str, behind: Any
) -> None:
    row = comms(*before, name, behind, [1, 2], 0, 1, 2)
    harmless(json.dumps({"nodes": [row, {"name": "## process_group:init ##", "inputs": before}]}).encode())
