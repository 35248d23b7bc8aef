"""Traces that are none, or no longer whole."""

from __future__ import annotations

import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.workload.importers.base import ImportRequest, Source
from controller.workload.importers.chakra import read
from tests.unit.laws import examples
from tests.unit.workload.importers.traces.small_traces import (
    ALL_REDUCE,
    COLLECTIVE,
    COMPUTE,
    SEND,
    comms,
    et,
    groups,
    imported,
    metadata,
    node,
    pytorch,
    sources,
    tensor,
)


@pytest.mark.parametrize(
    ("files", "kind", "complaint"),
    [
        ([et(node(COMPUTE))], "et", "trace.0.et: has no communication"),
        ([et(node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=8))], "et", "describes only one rank"),
        ([et(node(COLLECTIVE, comm_type=ALL_REDUCE))], "et", "message 1 (node 1): has no integer comm_size"),
        ([et(node(COLLECTIVE, comm_type=99, comm_size=1))], "et", "comm_type 99"),
        ([et(node(SEND, comm_dst=-1, comm_size=1))], "et", "rank -1"),
        ([et(node(SEND, comm_dst=1, comm_size=-1))], "et", "-1 bytes"),
        ([et(node(COMPUTE))[:-1]], "et", "trace.0.et: message 1: ends after"),
        ([b"\xff" * 20], "et", "is not a Chakra trace"),
        ([b""], "et", "has no communication"),
        ([b"{"], "json", "trace.0.json: is not JSON"),
        ([b"[1, 2]"], "json", "is not an execution trace"),
        ([b'{"workload_graph": [{"Id": 1, "NodeType": 7}]}'], "json", "workload_graph[0]: contains no sizes"),
        ([b'{"workload_graph": [{"Id": 1, "NodeType": 4}]}'], "json", "has no communication"),
        ([b'{"0": [0, 1]}'], "json", "none of the files is a trace"),
        ([pytorch({"name": "aten::add"})], "json", "has no communication"),
        ([pytorch(comms([tensor(1)], 1, 2, 0, "teleport", [], [], 2))], "json", "'teleport'"),
        ([pytorch({"name": "record_param_comms", "inputs": 3})], "json", "nodes[0]: has no inputs"),
        ([pytorch(groups({"pg_name": "0", "ranks": [0, 0]}))], "json", "not distinct"),
        (
            [pytorch(groups({"pg_name": "0", "ranks": [0, 1]}, {"pg_name": "0", "ranks": [1, 2]}))],
            "json",
            "than before",
        ),
        ([pytorch({"name": "## process_group:init ##", "inputs": {"values": ["x"]}})], "json", "in JSON"),
        ([et(metadata({"pg_name": "1", "ranks": [-1]}))], "et", "message 1 (node 1): the ranks of group '1'"),
    ],
)
def test_invalid_or_incomplete_traces_are_refused_with_the_position(
    files: list[bytes], kind: str, complaint: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(sources(files, kind), ImportRequest())
    assert complaint in str(caught.value)


def test_a_message_that_claims_to_be_huge_is_refused_before_it_is_read() -> None:
    with pytest.raises(InputError, match="too long for a message"):
        read(sources([b"\xff\xff\xff\xff\x0f"]), ImportRequest())


def test_zeros_are_no_messages() -> None:
    trace = Source("rank.0.et", lambda: io.BytesIO(bytes(3)))
    with pytest.raises(InputError, match=r"rank.0.et: message 2: is a second empty message"):
        read([trace], ImportRequest())


def test_a_long_trace_needs_no_memory_of_its_length() -> None:
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
    et(
        metadata({"pg_name": "1", "ranks": [0, 1], "group_size": 2}),
        node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=8, pg_name="1", is_cpu_op=False, involved_dim=[True]),
        node(SEND, comm_dst=1, comm_size=3),
    ),
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


@settings(max_examples=examples(150, 900), deadline=None)
@given(st.binary(max_size=200) | st.builds(lambda b: b"{" + b, st.binary(max_size=200)))
def test_bytes_of_any_kind_are_a_job_or_one_clear_error(content: bytes) -> None:
    harmless(content)


@settings(max_examples=examples(150, 900), deadline=None)
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


@settings(max_examples=examples(150, 900), deadline=None)
@given(st.lists(JSON, max_size=4), st.sampled_from(["allreduce", "all_to_allv", "send", "wait", "gather"]), JSON)
def test_values_of_any_kind_around_an_operation_are_a_job_or_one_clear_error(
    before: list[Any], name: str, behind: Any
) -> None:
    row = comms(*before, name, behind, [1, 2], 0, 1, 2)
    harmless(json.dumps({"nodes": [row, {"name": "## process_group:init ##", "inputs": before}]}).encode())


@settings(max_examples=examples(50, 300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["astra-sim/custom_allreduce.0.et", "astra-sim/all_reduce_4npus_1MB.1.et"]),
    changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 7)), max_size=6),
    cut=st.integers(0, 40_000),
)
def test_real_traces_with_other_bits_are_a_job_or_one_clear_error(
    shared_data: Path, name: str, changes: list[tuple[int, int]], cut: int
) -> None:
    damaged = bytearray((shared_data / name).read_bytes())
    for at, bit in changes:
        damaged[at % len(damaged)] ^= 1 << bit
    harmless(bytes(damaged[: max(1, cut)]))
