"""Importer ``kineto``: traces of torch.profiler (Kineto's Chrome trace JSON), a file a rank.

From PyTorch 2.2 on the event of each collective (``record_param_comms``, and the NCCL kernel that it starts) has the
operation, the elements of its input, their type, and the group by its ranks (torch/csrc/profiler/util.cpp,
``saveNcclMeta``). ``distributedInfo`` has the rank and the groups. Where both kinds of events are present, the kind
with more operations counts: the profiler may have begun or ended between a call and its kernel.

Training steps (``ProfilerStep#N``, which ``profiler.step()`` records) have durations in microseconds: their sum over
the iterations is the job's period. Without them the job has no times. With them, a collective overlaps with computing
if other kernels of its GPUs run during most of the time of its kernels.

Traces without these events may have those of Gloo (``gloo_events``), of tensors on CPUs.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import ijson

from controller.model.errors import InputError
from controller.model.units import MICROSECOND
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.chakra.groups import check_group, is_group
from controller.workload.importers.chakra.merge import merge
from controller.workload.importers.chakra.protobuf import rank_in_name
from controller.workload.importers.chakra.trace import WORLD, Key, RankTrace, is_known, op_of
from controller.workload.importers.documents import Shallow, no_json
from controller.workload.importers.head import Head
from controller.workload.importers.pytorch.dtypes import width_of
from controller.workload.importers.pytorch.gloo_events import GlooEvents
from controller.workload.importers.pytorch.gpu_kernels import GpuKernels

COMMS = "record_param_comms"
_NAME = "Collective name"
_STEP = re.compile(r"ProfilerStep#(\d{1,9})")
_CUT = "..."


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    if not head.is_json or "traceEvents" not in head.text:
        return (
            "" if not head.keys >= {"schemaVersion", "deviceProperties"} else "a trace of torch.profiler, of one rank"
        )
    return "a trace of torch.profiler (Kineto), of one rank"


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read a job from the traces of its ranks.

    Raises:
        InputError: a file is not a trace, has no sizes, or the files contradict each other.
    """
    traces, longest, of_gloo = [], 0.0, False
    steps: set[int] = set()
    for source in sources:
        trace, seen, has_gloo = _read(source)
        traces.append(trace)
        of_gloo |= has_gloo
        steps |= seen.keys()
        longest = max(longest, sum(seen.values()))
    if not traces:
        raise InputError("no file is given")
    more = []
    if len(steps) > 1 and request.iterations == 1:
        more.append(f"the traces cover {len(steps)} steps (ProfilerStep): --iterations {len(steps)} makes a job of one")
    lacking = "or of PyTorch 2.2 and later, whose events have the sizes of groups ('Group size')"
    return merge(traces, {}, request, more=more, measured_seconds=longest, lacking=lacking, falling=of_gloo)


def _read(source: Source) -> tuple[RankTrace, dict[int, float], bool]:
    """Read one rank's totals, the seconds of each training step, by its number, and whether Gloo's events were read."""
    trace = RankTrace(source, rank_in_name(source.name))
    rows: dict[str, list[tuple[Mapping[str, Any], str]]] = {"call": [], "kernel": []}
    steps: dict[int, float] = {}
    kernels, gloo = GpuKernels(), GlooEvents()
    without_size = 0
    try:
        with source.open() as stream:
            _about(trace, next(ijson.items(Shallow(stream, source), "distributedInfo", use_float=True), None))
        with source.open() as stream:
            for number, event in enumerate(ijson.items(Shallow(stream, source), "traceEvents.item", use_float=True)):
                if not isinstance(event, dict) or not isinstance(name := event.get("name"), str):
                    continue
                if step := _STEP.fullmatch(name):
                    seconds = _seconds(trace, event, f"traceEvents[{number}].dur")
                    # The GPU's annotation of a step begins and ends later than the step.
                    if event.get("cat") != "gpu_user_annotation" or int(step[1]) not in steps:
                        steps[int(step[1])] = seconds
                if gloo.take(event, f"traceEvents[{number}]"):
                    continue
                has = event.get("args")
                if isinstance(has, dict) and isinstance(has.get(_NAME), str):
                    kind = "call" if name == COMMS else "kernel"
                    if is_known(has[_NAME]) and op_of(has[_NAME]) is not None:
                        rows[kind].append((has, f"traceEvents[{number}]"))
                        kernels.add(event, len(rows[kind]) - 1)
                    elif not is_known(has[_NAME]) and kind == "call":
                        trace.leave_out(f"run of {has[_NAME]!r:.40}, which is an unknown operation")
                elif name.startswith(("ncclKernel", "ncclDevKernel", COMMS)):
                    without_size += 1
                else:
                    kernels.add(event, None)
    except (ijson.JSONError, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise no_json(source, error) from None
    counted = rows["call"] if len(rows["call"]) >= len(rows["kernel"]) else rows["kernel"]
    if not counted and without_size:
        raise InputError(
            f"has {without_size} NCCL events without sizes; torch.profiler of PyTorch 2.2 and later records them",
            source=source.name,
        )
    for has, where in counted:
        _add(trace, has, where)
    of_gloo = not counted and bool(gloo)
    if of_gloo:
        gloo.add_to(trace)
    _measure_overlap(trace, rows["kernel"], kernels)
    return trace, steps, of_gloo


def _measure_overlap(
    trace: RankTrace, collectives: Sequence[tuple[Mapping[str, Any], str]], kernels: GpuKernels
) -> None:
    """Record during which part of each collective's kernels the GPU computed."""
    for row, computing, seconds in kernels.overlaps():
        has, where = collectives[row]
        op = op_of(has[_NAME])
        if op is not None and op not in ("send", "recv"):
            key = Key(_group(trace, has, where), op)
            before = trace.overlap.get(key, (0.0, 0.0))
            trace.overlap[key] = (before[0] + computing, before[1] + seconds)


def _seconds(trace: RankTrace, event: Mapping[str, Any], where: str) -> float:
    """Return the duration of an event, 0 where it has none."""
    value = event.get("dur", 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InputError("is no duration", source=trace.source.name, field=where, value=value)
    return value * MICROSECOND


def _about(trace: RankTrace, info: Any) -> None:
    """Read ``distributedInfo``: rank, size, and groups."""
    if not isinstance(info, dict):
        return
    if type(info.get("rank")) is int:
        trace.rank, trace.rank_is_stated = info["rank"], True
    if type(info.get("world_size")) is int:
        trace.sized(WORLD, info["world_size"], "distributedInfo.world_size")
    groups = info.get("pg_config")
    for i, row in enumerate(groups if isinstance(groups, list) else []):
        if isinstance(row, dict) and isinstance(row.get("pg_name"), str) and is_group(row.get("ranks")):
            where = f"distributedInfo.pg_config[{i}]"
            check_group(trace.source, row["pg_name"], tuple(row["ranks"]), where)
            trace.member(row["pg_name"], tuple(row["ranks"]), where)


def _add(trace: RankTrace, has: Mapping[str, Any], where: str) -> None:
    op = op_of(has[_NAME])
    assert op is not None
    width = width_of(str(has.get("dtype", "")))
    if width is None:
        raise InputError(
            "is an unknown data type", source=trace.source.name, field=f"{where}.dtype", value=has.get("dtype")
        )
    group = _group(trace, has, where)
    elements = "Out msg nelems" if op == "recv" else "In msg nelems"
    size = _whole(trace, has, elements, where) * width
    if op in ("send", "recv"):
        peer = "Dst Rank" if op == "send" else "Src Rank"
        if peer not in has:
            trace.leave_out(f"{op} without its peer")
            return
        trace.pass_on(op == "send", group, _whole(trace, has, peer, where), size, where)
        return
    splits = _list(has.get("In split size"))
    to = None
    if op == "all_to_all" and splits and min(splits) >= 0 and (rows := sum(splits)) > 0:
        to = {peer: -(-size * part // rows) for peer, part in enumerate(splits) if part}
    trace.add(Key(group, op), size, where, to)


def _group(trace: RankTrace, has: Mapping[str, Any], where: str) -> str:
    name = str(has.get("Process Group Name", WORLD))
    ranks = tuple(_list(has.get("Process Group Ranks")))
    size, start, stride = (has.get(key) for key in ("Group size", "Global rank start", "Global rank stride"))
    if not ranks and type(size) is int and type(start) is int and type(stride) is int and start >= 0 and stride > 0:
        trace.sized(name, size, where)
        ranks = tuple(range(start, start + stride * size, stride))
    if ranks and not trace.groups.get(name):
        check_group(trace.source, name, ranks, where)
        trace.groups.pop(name, None)
        trace.member(name, ranks, where)
    elif type(size) is int and name not in trace.groups:
        trace.sized(name, size, where)
    return name


def _list(value: Any) -> list[int]:
    """Parse a list of numbers, which PyTorch writes as text, and cuts where it is long (``[0, 1, ..., 7]``)."""
    if isinstance(value, str) and _CUT not in value:
        try:
            value = json.loads(value)
        except ValueError:
            return []
    return list(value) if is_group(value) else []


def _whole(trace: RankTrace, has: Mapping[str, Any], key: str, where: str) -> int:
    value = has.get(key)
    if type(value) is not int or value < 0:
        raise InputError("is not an integer", source=trace.source.name, field=f"{where}.{key}", value=value)
    return value
