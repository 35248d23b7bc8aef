"""PyTorch's execution traces (JSON): nodes ``record_param_comms``, and the groups of ``## process_group:init ##``.

Based on torch/csrc/distributed/c10d/ParamCommsUtils.hpp and the traces of PARAM and Chakra, schemas 1.0.1 to
1.1.1. Each has another order of the values, so they are found by the operation's name: before it the tensors,
the group (its name and description, its number, or its address) and the rank (the root's, or the peer's); after it the
splits, then the group's first rank among all ranks, its stride, and its size.

PyTorch itself records no times of operations. Chakra's linker (``chakra_trace_link``) adds the kernels from a Kineto
trace, with their category and their duration in microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, BinaryIO

import ijson

from controller.model.errors import InputError
from controller.model.units import MICROSECOND
from controller.workload.importers.base import Source
from controller.workload.importers.chakra.groups import NODE, check_group, is_group, read_groups
from controller.workload.importers.chakra.protobuf import COLLECTIVE, RECEIVE, SEND, rank_in_name, take
from controller.workload.importers.chakra.trace import ROOTED, WORLD, Key, RankTrace, is_known, op_of
from controller.workload.importers.documents import no_json

COMMS = "record_param_comms"
_GPU_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
MAX_GROUP_TEXT = 64 << 20
MAX_DEPTH = 100
"""Most nested lists and mappings: traces have ten. The parser builds a path name for each of them."""

CHUNK = 4096
"""Bytes that the parser takes at once. The depth is checked only between chunks; path names grow with its square."""


def read_json(source: Source) -> RankTrace | dict[str, tuple[int, ...]]:
    """Read the totals of one rank's trace or, if the file holds only these, groups by name.

    Raises:
        InputError: the file is not such JSON, or a node lacks an attribute of a flow.
    """
    trace = RankTrace(source, rank_in_name(source.name))
    nodes = 0
    groups: dict[str, tuple[int, ...]] = {}
    try:
        with source.open() as stream:
            for prefix, value in _items(stream, source):
                if prefix in ("nodes", "workload_graph"):
                    nodes += 1
                    if isinstance(value, dict):
                        (_node if prefix == "nodes" else _graph)(trace, value, f"{prefix}[{nodes - 1}]")
                elif prefix in ("rank", "distributedInfo.rank") and type(value) is int:
                    trace.rank, trace.rank_is_stated = value, True
                elif is_group(value):
                    check_group(source, prefix, tuple(value), prefix[:40])
                    groups[prefix] = tuple(value)
    except (ijson.JSONError, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise no_json(source, error) from None
    if not nodes and groups:
        return groups
    if not nodes:
        raise InputError("is not an execution trace: it has no nodes", source=source.name)
    return trace


_STEP = {"start_map": 1, "start_array": 1, "end_map": -1, "end_array": -1}


def _items(stream: BinaryIO, source: Source) -> Any:
    """Yield (key, value) of the top level, but of ``nodes`` and ``workload_graph`` (key, entry) one entry at a time."""
    builder, prefix, depth, deep = None, "", 0, 0
    for where, event, value in ijson.parse(stream, buf_size=CHUNK, use_float=True):
        deep += _STEP.get(event, 0)
        if deep > MAX_DEPTH:
            raise InputError(f"is not an execution trace: it is nested more than {MAX_DEPTH} deep", source=source.name)
        if builder is None:
            key = where.partition(".")[0]
            inside = where in ("nodes.item", "workload_graph.item")
            if event in ("map_key", "end_map", "end_array") or not where:
                continue
            if where in ("nodes", "workload_graph") and event == "start_array":
                continue
            if not inside and "." in where and where != "distributedInfo.rank":
                continue
            builder, prefix, depth = ijson.ObjectBuilder(), where if where == "distributedInfo.rank" else key, 0
        builder.event(event, value)
        depth += _STEP.get(event, 0)
        if depth == 0:
            yield prefix, builder.value
            builder = None


def _graph(trace: RankTrace, node: Mapping[str, Any], where: str) -> None:
    """Add a node of Chakra's own JSON, which has the attributes of its protobuf (src/feeder/JSONNode.cpp there)."""
    kind = node.get("NodeType")
    if kind not in (SEND, RECEIVE, COLLECTIVE):
        return
    if "comm_size" not in node and node.get("is_cpu_op") is not True:
        raise trace.error("contains no sizes: use Chakra's .et files", where)
    take(trace, kind, node, where)


def _node(trace: RankTrace, node: Mapping[str, Any], where: str) -> None:
    name = node.get("name")
    if not isinstance(name, str):
        return
    if node.get("cat") in _GPU_WORK:
        if not name.startswith("nccl"):
            trace.computing.add(_microseconds(trace, node, where) * MICROSECOND)
        return
    if name != COMMS and NODE not in name:
        return
    inputs = node.get("inputs")
    values = inputs.get("values") if isinstance(inputs, dict) else inputs
    if not isinstance(values, list):
        raise trace.error("has no inputs", where)
    if name == COMMS:
        _comms(trace, values, _attributes(node), where)
        return
    text = values[0] if values else None
    if not isinstance(text, str) or len(text) > MAX_GROUP_TEXT:
        raise trace.error("names no groups", where)
    read_groups(trace, text, where)


def _microseconds(trace: RankTrace, node: Mapping[str, Any], where: str) -> float:
    value = node.get("exclusive_dur", node.get("dur", 0.0))
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise trace.error(f"has no duration, but {value!r:.40}", where)
    return float(value)


def _attributes(node: Mapping[str, Any]) -> dict[str, Any]:
    rows = node.get("attrs")
    if not isinstance(rows, list):
        return {}
    return {row["name"]: row.get("value") for row in rows if isinstance(row, dict) and isinstance(row.get("name"), str)}


def _comms(trace: RankTrace, values: list[Any], attributes: Mapping[str, Any], where: str) -> None:
    at = next((i for i, value in enumerate(values) if isinstance(value, str) and is_known(value)), None)
    if at is None:
        # These include the broadcasts and reductions of which PyTorch makes uneven gathers and scatters.
        named = next((value for value in values if isinstance(value, str)), "")
        trace.leave_out(f"run of {named!r:.40}, which is an unknown operation")
        return
    op = op_of(values[at])
    if op is None:
        return
    before, behind = values[:at], values[at + 1 :]
    size = sum(count * width for value in before for count, width in _tensors(value))
    numbers = [value for value in before if type(value) is int]
    rank = numbers[-1] if numbers else 0
    group = trace.name_of(_group_name(before, numbers, attributes))
    whole = [value for value in behind if type(value) is int]
    if whole:
        _place(trace, group, whole, where)
    if op in ("send", "recv"):
        trace.peers_in_group = True
        trace.pass_on(op == "send", group, rank, size, where)
        return
    splits = next((value for value in behind if isinstance(value, list)), None)
    to = None
    if op == "all_to_all" and is_group(splits) and splits and min(splits) >= 0 and (rows := sum(splits)) > 0:
        to = {peer: -(-size * part // rows) for peer, part in enumerate(splits) if part}
    if op not in ROOTED:
        trace.is_at(group, rank)
    trace.add(Key(group, op, rank if op in ROOTED else 0), size, where, to)


def _group_name(before: list[Any], numbers: list[int], attributes: Mapping[str, Any]) -> str:
    """Return the group's name: new traces have it, in a pair with a description; old ones a number before the rank."""
    named = attributes.get("pg_name")
    if isinstance(named, str) and named:
        return named
    for value in before:
        if isinstance(value, list) and value and isinstance(value[0], str):
            return value[0]
    return str(numbers[-2]) if len(numbers) > 1 else WORLD


def _place(trace: RankTrace, group: str, numbers: list[int], where: str) -> None:
    """Record the size of the group and, in newer traces, its first rank and stride, which define an unnamed group."""
    size = numbers[-1]
    trace.sized(group, size, where)
    if len(numbers) >= 3 and not trace.groups.get(group):
        start, stride = numbers[-3], numbers[-2]
        if start >= 0 and stride > 0:
            trace.groups.pop(group, None)
            trace.member(group, tuple(range(start, start + stride * size, stride)), where)


def _tensors(value: object) -> list[tuple[int, int]]:
    """Return (elements, bytes of one) of each ``[id, storage, offset, elements, bytes, device]``, also in lists."""
    if not isinstance(value, list):
        return []
    if len(value) == 6 and all(type(part) is int for part in value[:5]):
        return [(max(0, value[3]), max(0, value[4]))]
    # Nothing is nested deeper than a list of lists of tensors.
    return [
        (max(0, t[3]), max(0, t[4]))
        for inner in value
        if isinstance(inner, list)
        for t in ([inner] if len(inner) == 6 and type(inner[0]) is int else inner)
        if isinstance(t, list) and len(t) == 6 and all(type(part) is int for part in t[:5])
    ]
