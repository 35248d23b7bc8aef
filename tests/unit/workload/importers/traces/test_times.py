"""The computing times and periods that other tools' files tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.model.timing import JobTiming
from controller.model.waits import Waits
from controller.workload.importers.aicb import read as read_aicb
from controller.workload.importers.base import ImportRequest
from controller.workload.importers.nccl import read as read_nccl
from controller.workload.importers.pytorch.gpu_kernels import GpuKernels
from controller.workload.importers.registry import importer
from controller.workload.importers.streams import open_sources, text_source
from tests.unit.laws import examples
from tests.unit.workload.importers.nccl.nccl_runs import record
from tests.unit.workload.importers.texts import read_text
from tests.unit.workload.importers.traces.pytorch_files import dump, entry, event, kineto, recorder, trace
from tests.unit.workload.importers.traces.small_traces import (
    ALL_GATHER,
    ALL_REDUCE,
    COLLECTIVE,
    COMPUTE,
    METADATA,
    at,
    comms,
    et,
    groups,
    imported,
    node,
    pytorch,
    tensor,
)


def compute(micros: int, kind: int = COMPUTE, **attributes: Any) -> Any:
    made = node(kind, **attributes)
    made.duration_micros = micros
    return made


def reduce(size: int = 64, op: int = ALL_REDUCE) -> Any:
    return node(COLLECTIVE, comm_type=op, comm_size=size)


def aicb(*rows: str, head: str = "tp") -> JobTiming | None:
    sizes = "pp: 2 ga: 4 pp_comm: 8" if head == "pp" else ""
    text = f"HYBRID_TRANSFORMER model_parallel_NPU_group: 2 all_gpus: 8 {sizes}\n{len(rows)}\n" + "\n".join(rows)
    return read_text(read_aicb, text).job.timing


# -- AICB --------------------------------------------------------------------------------------------------------------


def test_a_pass_of_an_aicb_workload_computes_before_its_first_phase() -> None:
    row = "x -1 1000 ALLREDUCE 8 2000 ALLGATHER 8 4000 REDUCESCATTER 8 500"
    timing = aicb(row, row)
    assert timing is not None
    assert dict(timing.compute) == pytest.approx({0: 3e-6, 1: 4e-6, 2: 8e-6})


def test_a_pass_without_communication_computes_before_the_next_that_has_any() -> None:
    timing = aicb("x -1 1000 NONE 0 2000 NONE 0 4000 REDUCESCATTER 8 500")
    assert timing is not None
    assert dict(timing.compute) == pytest.approx({0: 7.5e-6})
    timing = aicb("x -1 1000 ALLREDUCE 8 2000 NONE 0 4000 NONE 0 500")
    assert timing is not None
    assert dict(timing.compute) == pytest.approx({0: 7.5e-6})


def test_stages_of_an_aicb_workload_wait_for_each_other() -> None:
    """Two stages and four micro-batches: a quarter more."""
    row = "x -1 1000 ALLREDUCE 8 2000 ALLGATHER 8 4000 REDUCESCATTER 8 0"
    timing = aicb(row, head="pp")
    assert timing is not None
    assert dict(timing.compute) == pytest.approx({0: 1.25e-6, 1: 2.5e-6, 2: 5e-6})


def test_an_aicb_workload_that_was_not_measured_has_no_computing_times() -> None:
    assert aicb("x -1 1 ALLREDUCE 8 1 ALLGATHER 8 1 REDUCESCATTER 8 100") is None


# -- Flight Recorder -----------------------------------------------------------------------------------------------


def _dump(starts: list[float], sizes: list[int]) -> str:
    """Return a dump of iterations that begin at these seconds and call an operation of each size, 10 ms apart."""
    calls = [
        entry("nccl:all_reduce", [size]) | {"time_created_ns": 10**18 + round((start + 0.01 * k) * 1e9)}
        for start in starts
        for k, size in enumerate(sizes)
    ]
    return dump(*calls)


@settings(deadline=None, max_examples=examples(15, 90))
@given(
    period=st.integers(200, 5000),
    iterations=st.integers(2, 5),
    sizes=st.lists(st.integers(1, 1000), min_size=1, max_size=4),
)
def test_a_dump_of_several_equal_iterations_has_their_period(period: int, iterations: int, sizes: list[int]) -> None:
    starts = [k * period * 1e-3 for k in range(iterations)]
    made = recorder(_dump(starts, sizes), _dump(starts, sizes), iterations=iterations)
    assert made.job.timing is not None
    assert made.job.timing.period_seconds == pytest.approx(period * 1e-3, rel=1e-6)


@pytest.mark.parametrize(
    ("text", "iterations"),
    [
        (_dump([0.0, 1.0], [3, 4]), 1),
        (_dump([0.0, 1.0], [3, 4]), 3),
        (_dump([0.0, 1.0, 1.5], [3]), 2),
        (dump(entry("nccl:all_reduce", [3]), entry("nccl:all_reduce", [3])), 2),
        (dump(*(entry("nccl:all_reduce", [n]) | {"time_created_ns": n} for n in (3, 4))), 2),
    ],
)
def test_a_dump_without_repeated_iterations_or_times_has_no_period_and_says_why(text: str, iterations: int) -> None:
    made = recorder(text, text, iterations=iterations)
    assert made.job.timing is None
    assert any("no time of iterations is known" in note for note in made.notes)


def test_computing_for_longer_than_a_job_may_is_refused() -> None:
    with pytest.raises(InputError, match="more than 1000000 seconds"):
        aicb(f"x -1 {10**16} ALLREDUCE 8 2000 NONE 0 4000 NONE 0 500")


# -- Chakra and PyTorch ------------------------------------------------------------------------------------------------


def test_chakras_computing_nodes_are_the_time_before_the_next_collective() -> None:
    """The all-gather is phase 0 and the all-reduce phase 1; the last computation begins the next iteration."""
    nodes = (compute(100), reduce(), compute(20), compute(30), reduce(op=ALL_GATHER), compute(7), reduce(), compute(5))
    found = imported([et(*nodes), et(*nodes)])
    timing = found.job.timing
    assert timing is not None
    assert found.job.phase_by_name == {"all-all_gather": 0, "all-all_reduce": 1}
    assert dict(timing.compute) == pytest.approx({0: 55e-6, 1: 107e-6})


@pytest.mark.parametrize(("own_micros", "overlaps"), [(0, True), (50, True), (130, False)])
def test_a_collective_overlaps_with_what_is_computed_beside_it(own_micros: int, overlaps: bool) -> None:
    """Gradients of the second layer are sent beside the backward pass of the first one, and the update waits for them.

    For the all-gather the rank waits, and for the gradients of the first layer.
    """
    gather = node(COLLECTIVE, comm_type=ALL_GATHER, comm_size=100, is_cpu_op=False)
    rows = [
        at(1, node(COMPUTE), micros=100),
        at(2, gather, 1),
        at(3, node(COMPUTE), 2, micros=100),
        at(4, reduce(), 3, micros=own_micros),
        at(5, node(COMPUTE), 3, micros=60),
        at(6, node(COMPUTE), 4, 5, micros=10),
    ]
    job = imported([et(*rows), et(*rows)]).job
    waits = {call.name: call.waits.computing for call in job.collectives}
    assert waits == {"all-all_gather": True, "all-all_reduce": not overlaps}
    assert job.phase_by_name == {"all-all_gather": 0, "all-all_reduce": 0 if overlaps else 1}
    assert job.timing is not None
    assert sum(seconds for _, seconds in job.timing.compute) == pytest.approx(270e-6)


def test_runs_that_overlap_count_by_their_bytes_and_traces_without_an_order_say_nothing() -> None:
    rows = [
        at(1, compute(100)),
        at(2, reduce(), 1),
        at(3, compute(100), 1),
        at(4, reduce(), 2, 3),
        at(5, compute(9), 4),
    ]
    job = imported([et(*rows), et(*rows)]).job
    # Of two equal runs, one overlaps: not most of the bytes.
    assert [call.waits.computing for call in job.collectives] == [True]
    for row in rows:
        del row.data_deps[:]
    job = imported([et(*rows), et(*rows)]).job
    assert [call.waits.computing for call in job.collectives] == [True]


def check_timing(timing: JobTiming | None, *, compute: float | None = None, period: float | None = None) -> None:
    """Check that there is computing before the first phase only, or a period, in seconds."""
    assert timing is not None
    assert [phase for phase, _ in timing.compute] == ([] if compute is None else [0])
    assert dict(timing.compute).get(0) == (None if compute is None else pytest.approx(compute))
    assert timing.period_seconds == (None if period is None else pytest.approx(period))


def test_the_rank_that_computes_longest_counts_and_iterations_divide() -> None:
    found = imported([et(compute(100), reduce()), et(compute(300), reduce())], iterations=3)
    check_timing(found.job.timing, compute=1e-4)


def test_the_gpus_computations_count_and_the_processors_only_without_them() -> None:
    call = compute(1000, is_cpu_op=True)
    with_gpu, without = [call, compute(10, is_cpu_op=False), reduce()], [call, reduce()]
    check_timing(imported([et(*with_gpu)] * 2).job.timing, compute=1e-5)
    check_timing(imported([et(*without)] * 2).job.timing, compute=1e-3)
    assert imported([et(compute(5, METADATA), reduce())] * 2).job.timing is None


@given(st.lists(st.one_of(st.integers(1, 10_000), st.sampled_from(["reduce", "gather"])), max_size=30))
@settings(deadline=None)
def test_all_computing_time_of_a_chakra_trace_is_in_the_job(rows: list[int | str]) -> None:
    made = [
        compute(row) if isinstance(row, int) else reduce(op=ALL_REDUCE if row == "reduce" else ALL_GATHER)
        for row in rows
    ]
    timing = imported([et(*made, reduce())] * 2).job.timing
    told = sum(row for row in rows if isinstance(row, int)) * 1e-6
    assert sum(seconds for _, seconds in (() if timing is None else timing.compute)) == pytest.approx(told)


def linked(name: str, micros: float, **more: Any) -> dict[str, Any]:
    return {"name": name, "cat": "kernel", "exclusive_dur": micros, "inputs": {"values": []}} | more


def test_kernels_that_chakras_linker_adds_to_a_pytorch_trace_are_computing() -> None:
    group = groups({"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1]})
    run = comms([tensor(100)], 1, ["0", "default_pg"], 0, "allreduce", [], [], 0, 1, 2)
    files = [pytorch(group, linked("gemm", 80.5), run, linked("ncclDevKernel_AllReduce", 900.0))]
    check_timing(imported(files, kind="json").job.timing, compute=80.5e-6)
    assert imported([pytorch(group, run)], kind="json").job.timing is None
    with pytest.raises(InputError, match="has no duration, but 'x'"):
        imported([pytorch(group, linked("gemm", 80.5, exclusive_dur="x"), run)], kind="json")


def step(number: int, micros: float, **more: Any) -> dict[str, Any]:
    return {"name": f"ProfilerStep#{number}", "cat": "user_annotation", "ts": 5.0, "dur": micros} | more


def test_steps_of_torch_profiler_are_the_period() -> None:
    """The longest rank counts, the GPU's annotation of a step does not; ``iterations`` divides as it does the bytes."""
    run = event("record_param_comms", "allreduce", 100, "Float")
    texts = [
        trace(step(4, 900.0), step(5, 1100.0), step(4, 1500.0, cat="gpu_user_annotation"), run, rank=0),
        trace(step(4, 900.0), step(5, 1000.0), run, rank=1),
    ]
    check_timing(kineto(*texts, iterations=2).job.timing, period=1e-3)
    check_timing(kineto(*texts).job.timing, period=2e-3)
    assert kineto(trace(run, rank=0), trace(run, rank=1)).job.timing is None
    with pytest.raises(InputError, match=r"traceEvents\[0\]\.dur: -1.0: is no duration"):
        kineto(trace(step(4, -1.0), run))


def kernel(begin: float, duration: float, **more: Any) -> dict[str, Any]:
    return {"name": "gemm", "cat": "kernel", "ts": begin, "dur": duration} | more


def test_collectives_during_which_gpus_compute_overlap_with_the_computing_of_the_period() -> None:
    def nccl(op: str, begin: float, duration: float) -> dict[str, Any]:
        run = event("ncclDevKernel", op, 100, "Float")
        return run | {"cat": "kernel", "ts": begin, "dur": duration}

    # Two streams compute from 0 to 100; the reduce-scatter is sent from 40 to 120, the all-gather from 130 to 160.
    computing = [kernel(50.0, 50.0), kernel(0.0, 60.0), kernel(20.0, 10.0), kernel(150.0, 5.0)]
    events = [
        step(1, 200.0),
        *computing,
        nccl("_reduce_scatter_base", 40.0, 80.0),
        nccl("_allgather_base", 130.0, 30.0),
    ]
    job = kineto(trace(*events, rank=0), trace(*events, rank=1)).job
    assert {call.op: (call.phase, call.waits) for call in job.collectives} == {
        "reduce_scatter": (0, Waits(computing=False)),
        "all_gather": (0, Waits()),
    }
    # Without a period no computing is known that it could overlap with.
    job = kineto(trace(*events[1:], rank=0), trace(*events[1:], rank=1)).job
    assert {call.waits for call in job.collectives} == {Waits()}
    # What most of the GPUs do counts.
    idle = [each for each in events if each["name"] != "gemm"]
    job = kineto(trace(*events, rank=0), trace(*idle, rank=1)).job
    assert {call.waits for call in job.collectives} == {Waits()}


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), max_size=12), st.integers(0, 40), st.integers(1, 20))
def test_the_time_in_which_a_gpu_computes_counts_once(busy: list[tuple[int, int]], begin: int, duration: int) -> None:
    kernels = GpuKernels()
    for first, length in busy:
        kernels.add(kernel(first, length), None)
    kernels.add(kernel(begin, duration), 0)
    covered = {at for first, length in busy for at in range(first, first + length)}
    assert list(kernels.overlaps()) == [(0, len(covered & set(range(begin, begin + duration))), duration)]


# -- NCCL Inspector ----------------------------------------------------------------------------------------------------


def inspected(starts: dict[int, int], iterations: int) -> JobTiming | None:
    rows = [
        record(rank, number, 4096, event_trace_ts={"coll_start_ts": start})
        for rank in range(4)
        for number, start in starts.items()
    ]
    return read_nccl([text_source("i.log", "".join(rows))], ImportRequest(iterations=iterations)).job.timing


@given(
    period=st.integers(10, 10**8),
    offsets=st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True).map(sorted),
    iterations=st.integers(2, 6),
    first=st.integers(0, 5),
)
@settings(deadline=None, max_examples=examples(15, 90))
def test_the_inspectors_times_of_regular_iterations_are_their_period(
    period: int, offsets: list[int], iterations: int, first: int
) -> None:
    start = 1_752_867_229_235_059
    times = [start + i * period + offset * period // 10 for i in range(iterations) for offset in offsets]
    timing = inspected({first + i: time for i, time in enumerate(times)}, iterations)
    check_timing(timing, period=period * 1e-6)


def test_the_inspector_tells_no_period_where_iterations_are_unknown_or_do_not_divide() -> None:
    starts = {number: 10**15 + 1000 * number for number in range(6)}
    assert inspected(starts, 1) is None
    assert inspected(starts, 4) is None
    check_timing(inspected(starts, 3), period=2e-3)


def test_records_without_events_are_timed_by_their_writing() -> None:
    rows = "".join(record(rank, number, 4096) for rank in range(4) for number in range(2))
    assert read_nccl([text_source("i.log", rows)], ImportRequest(iterations=2)).job.timing is None
    times = iter([10**15, 10**15 + 250_000] * 4)
    stamped = "".join(
        line.replace('"hostname"', f'"dump_timestamp_us": {next(times)}, "hostname"') for line in rows.splitlines(True)
    )
    timing = read_nccl([text_source("i.log", stamped)], ImportRequest(iterations=2)).job.timing
    check_timing(timing, period=0.25)


# -- Files of other projects -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "least", "most"),
    [
        # 40 layers of 0.75 ms each for attention and feed-forward, three passes, on an A100.
        ("aicb", "aicb/G13B-M1-C01_GPT13B_megatron_tp8_pp1_mbs1_A100.txt", 0.18, 0.25),
        ("chakra", "astra-sim/custom_allreduce.*.et", 1e-6, 1e-2),
        # Three steps of 0.22 s.
        ("kineto", "hta/nccl_data.json.gz", 0.66, 0.68),
    ],
)
def test_real_files_tell_plausible_times(shared_data: Path, kind: str, name: str, least: float, most: float) -> None:
    sources = open_sources(sorted(shared_data.glob(name)))
    timing = importer(kind)(sources, ImportRequest(fabric=clos(2, 4, 8))).job.timing
    assert timing is not None
    assert least <= (timing.period_seconds or sum(seconds for _, seconds in timing.compute)) <= most
