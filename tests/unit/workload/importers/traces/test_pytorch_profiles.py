"""Traces of torch.profiler and dumps of the Flight Recorder become what their ranks sent."""

from __future__ import annotations

import gzip
import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.workload.importers.base import ImportRequest
from controller.workload.importers.registry import importer
from controller.workload.importers.streams import open_sources
from tests.unit.laws import examples
from tests.unit.workload.importers.traces.pytorch_files import dump, entry, event, kineto, recorder, trace
from tests.unit.workload.importers.traces.small_traces import calls, flows

EXAMPLES = Path(__file__).parents[5] / "examples"
WIDTH = {"Float": 4, "BFloat16": 2, "Long": 8, "Float8_e4m3fn": 1}
OPS = {
    "allreduce": ("all_reduce", 1),
    "_allgather_base": ("all_gather", 2),
    "_reduce_scatter_base": ("reduce_scatter", 1),
    "broadcast": ("broadcast", 1),
}


RUNS = st.lists(
    st.tuples(st.sampled_from(sorted(OPS)), st.integers(0, 10**6), st.sampled_from(sorted(WIDTH))), min_size=1
)


@settings(deadline=None, max_examples=examples(25, 150))
@given(runs=RUNS, iterations=st.integers(1, 4))
def test_collectives_have_the_bytes_of_all_their_runs(runs: list[tuple[str, int, str]], iterations: int) -> None:
    expected: Counter[str] = Counter()
    for op, elements, dtype in runs:
        expected[OPS[op][0]] += elements * WIDTH[dtype] * OPS[op][1]
    for op in expected:
        expected[op] = -(-expected[op] // iterations)
    profiled = [trace(*(event("record_param_comms", *run) for run in runs), rank=rank) for rank in (0, 1)]
    recorded = [dump(*(entry(f"nccl:{op}", [n], dtype) for op, n, dtype in runs)) for _ in (0, 1)]
    for imported in (kineto(*profiled, iterations=iterations), recorder(*recorded, iterations=iterations)):
        assert {op: size for _, op, _, size in calls(imported.job)} == expected
        assert all(ranks == (0, 1) for _, _, ranks, _ in calls(imported.job))
        assert imported.ranks == 2


def test_calls_and_their_kernels_are_one_operation() -> None:
    call, kernel = (event(name, "allreduce", 10, "Float") for name in ("record_param_comms", "ncclDevKernel_AllReduce"))
    assert calls(kineto(trace(call, kernel, rank=0)).job) == [("0-all_reduce", "all_reduce", (0, 1), 40)]
    # The profiler began after the first call.
    assert calls(kineto(trace(kernel, call, kernel, rank=0)).job) == [("0-all_reduce", "all_reduce", (0, 1), 80)]


def test_a_list_of_ranks_that_is_cut_is_made_up_for_by_start_stride_and_size() -> None:
    more = {"Process Group Ranks": "[2, 4, ...]", "Group size": 3, "Global rank start": 2, "Global rank stride": 2}
    imported = kineto(trace(event("record_param_comms", "allreduce", 1, "Float", **more), rank=2))
    assert calls(imported.job) == [("0-all_reduce", "all_reduce", (2, 4, 6), 4)]


def test_sends_are_flows_between_ranks() -> None:
    send = event("record_param_comms", "send", 5, "Float", **{"Dst Rank": 1})
    receive = event("record_param_comms", "recv", 5, "Float", **{"Src Rank": 0})
    assert flows(kineto(trace(send, rank=0), trace(receive, rank=1)).job) == [("rank0", "rank1", 20)]
    sent = recorder(dump(entry("nccl:send 0->1", [5])), dump(entry("nccl:recv 1<-0", [5])))
    assert flows(sent.job) == [("rank0", "rank1", 20)]


def test_the_steps_of_a_trace_are_named_as_its_iterations() -> None:
    steps = [{"name": f"ProfilerStep#{i}"} for i in (3, 4)]
    call = event("record_param_comms", "allreduce", 10, "Float")
    assert any("--iterations 2" in note for note in kineto(trace(*steps, call, rank=0)).notes)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (trace({"name": "ncclKernel_AllReduce", "args": {}}, rank=0), "has 1 NCCL events without sizes"),
        (trace({"name": "aten::mm"}, rank=0), "has no communication"),
        (trace(event("record_param_comms", "allreduce", -1, "Float"), rank=0), r"nelems: -1: is not an integer"),
        (trace(event("record_param_comms", "allreduce", 1, "Rational"), rank=0), "is an unknown data type"),
        ("[", "is not JSON"),
    ],
)
def test_a_profile_without_sizes_is_refused_with_its_field(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        kineto(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "has no list 'entries'"),
        (dump(entry("nccl:all_reduce", [-1])), r"entries\[0\].input_sizes\[0\]: .* is not a shape"),
        (dump(entry("nccl:all_reduce", [1], "X")), r"entries\[0\].input_dtypes\[0\]: 'X': is an unknown data type"),
        (dump({"profiling_name": 5}), r"entries\[0\].profiling_name: 5: is not the name"),
    ],
)
def test_a_dump_without_sizes_is_refused_with_its_field(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        recorder(text)


class Trap:
    """Raises where a pickle of it is loaded."""

    def __reduce__(self) -> Any:
        return exec, ("raise SystemExit('a pickle was loaded')",)


def test_a_pickle_is_refused_and_never_loaded(tmp_path: Path) -> None:
    file = tmp_path / "nccl_trace_rank_0"
    file.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(
        InputError, match="is a Python pickle, which can run code and is therefore not read: write JSON"
    ):
        importer("flight-recorder")(open_sources([file]), ImportRequest())


@pytest.mark.parametrize("kind", ["kineto", "flight-recorder"])
def test_the_example_is_read_as_its_ranks_say(kind: str) -> None:
    files = sorted((EXAMPLES / kind).glob("*.json"))
    imported = importer(kind)(open_sources(files), ImportRequest(iterations=2 if kind == "kineto" else 1))
    assert {(op, ranks, size) for _, op, ranks, size in calls(imported.job)} == {
        ("all_reduce", (0, 1, 2, 3), 2_000_000),
        ("all_gather", (0, 1, 2, 3), 4_000_000),
    }
    assert flows(imported.job) == [("rank0", "rank2", 8192), ("rank1", "rank3", 8192)]


def test_a_public_trace_has_the_bytes_that_its_events_add_up_to(shared_data: Path) -> None:
    file = shared_data / "hta" / "nccl_data.json.gz"
    expected: Counter[str] = Counter()
    for row in json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]:
        has = row.get("args", {})
        if row["name"].startswith("ncclKernel"):
            expected[has["Collective name"]] += has["In msg nelems"] * {"Float": 4, "Long": 8}[has["dtype"]]
    imported = importer("kineto")(open_sources([file]), ImportRequest())
    assert {op.replace("_", ""): size for _, op, _, size in calls(imported.job)} == expected
    assert imported.ranks == 2
