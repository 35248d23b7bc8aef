"""PyTorch's execution traces (JSON): nodes ``record_param_comms``, and the groups of ``## process_group:init ##``.

Written after torch/csrc/distributed/c10d/ParamCommsUtils.hpp and the traces of PARAM and Chakra, schemas 1.0.1 to
1.1.1. The values stand in another order in each, so they are found by the operation's name: in front of it the tensors,
the group (its name and description, its number, or its address) and the rank (the root's, or the peer's); behind it the
splits, then where the group begins among all ranks, its stride, and its size.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, BinaryIO

import ijson

from controller.model.errors import InputError
from controller.workload.importers.base import Source
from controller.workload.importers.chakra.protobuf import rank_in_name
from controller.workload.importers.chakra.trace import IGNORED, WORLD, Key, RankTrace, op_of

COMMS = "record_param_comms"
GROUPS = "## process_group:init ##"
MAX_GROUP_TEXT = 64 << 20
MAX_DEPTH = 100
"""Lists and mappings within each other: traces have ten. The parser names where it is at each of them."""


def read_json(source: Source) -> RankTrace | dict[str, tuple[int, ...]]:
    """The totals of one rank's trace or, where the file holds just that, groups by name.

    Raises:
        InputError: it is no such JSON, or a node lacks what a flow needs.
    """
    trace = RankTrace(source, rank_in_name(source.name))
    nodes = 0
    groups: dict[str, tuple[int, ...]] = {}
    try:
        with source.open() as stream:
            for prefix, value in _items(stream, source):
                if prefix == "nodes":
                    nodes += 1
                    if isinstance(value, dict):
                        _take(trace, value, nodes)
                elif prefix == "workload_graph":
                    raise InputError(
                        "is Chakra's JSON without what a collective sends: its .et files have sizes", source=source.name
                    )
                elif prefix in ("rank", "distributedInfo.rank") and isinstance(value, int):
                    trace.rank = value
                elif _is_group(value):
                    groups[prefix] = tuple(value)
    except (ijson.JSONError, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"is no JSON: {' '.join(str(error).split())[:200]}", source=source.name) from None
    if not nodes and groups:
        return groups
    if not nodes:
        raise InputError("is no execution trace: it has no nodes", source=source.name)
    return trace


_STEP = {"start_map": 1, "start_array": 1, "end_map": -1, "end_array": -1}


def _items(stream: BinaryIO, source: Source) -> Any:
    """(key, value) of the top level, but of ``nodes`` and ``workload_graph`` (key, entry) one entry at a time."""
    builder, prefix, depth, deep = None, "", 0, 0
    for where, event, value in ijson.parse(stream, use_float=True):
        deep += _STEP.get(event, 0)
        if deep > MAX_DEPTH:
            raise InputError(f"is no execution trace: it is nested more than {MAX_DEPTH} deep", source=source.name)
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


def _is_group(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(type(rank) is int for rank in value)


def _take(trace: RankTrace, node: Mapping[str, Any], number: int) -> None:
    name = node.get("name")
    if name not in (COMMS, GROUPS):
        return
    where = f"nodes[{number - 1}]"
    inputs = node.get("inputs")
    values = inputs.get("values") if isinstance(inputs, dict) else inputs
    if not isinstance(values, list):
        raise trace.error("has no inputs", where)
    if name == GROUPS:
        _groups(trace, values, where)
    else:
        _comms(trace, values, _attributes(node), where)


def _groups(trace: RankTrace, values: list[Any], where: str) -> None:
    text = values[0] if values else None
    if not isinstance(text, str) or len(text) > MAX_GROUP_TEXT:
        raise trace.error("names no groups", where)
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        raise trace.error("names its groups in no JSON", where) from None
    for row in rows if isinstance(rows, list) else []:
        if not isinstance(row, dict):
            continue
        ranks, size = row.get("ranks"), row.get("group_size")
        # The oldest traces refer to a group by the address of its backend.
        for key in {str(row[k]) for k in ("pg_name", "backend_id", "pg_id") if isinstance(row.get(k), (str, int))}:
            if isinstance(ranks, list) and _is_group(ranks):
                trace.member(key, tuple(ranks), where)
            elif type(size) is int:
                trace.sized(key, size, where)
                trace.groups.setdefault(key, ())


def _attributes(node: Mapping[str, Any]) -> dict[str, Any]:
    rows = node.get("attrs")
    if not isinstance(rows, list):
        return {}
    return {row["name"]: row.get("value") for row in rows if isinstance(row, dict) and isinstance(row.get("name"), str)}


def _comms(trace: RankTrace, values: list[Any], attributes: Mapping[str, Any], where: str) -> None:
    at = next((i for i, value in enumerate(values) if isinstance(value, str) and _known(value)), None)
    if at is None:
        name = next((value for value in values if isinstance(value, str)), attributes.get("collective_name"))
        raise trace.error(f"has no operation that is known: {name!r:.60}", where)
    op = op_of(values[at])
    if op is None:
        return
    before, behind = values[:at], values[at + 1 :]
    tensors = [t for value in before for t in _tensors(value)]
    size = sum(count * width for count, width in tensors)
    numbers = [value for value in before if type(value) is int]
    rank = numbers[-1] if numbers else 0
    group = _group_name(before, numbers, attributes)
    whole = [value for value in behind if type(value) is int]
    if whole:
        _place(trace, group, whole, where)
    splits = [value for value in behind if isinstance(value, list)]
    if op in ("send", "recv"):
        trace.pass_on(op == "send", group, rank, size, where)
        return
    to = None
    if op == "all_to_all" and splits and _is_group(splits[0]) and sum(splits[0]) > 0:
        rows = sum(splits[0])
        to = {peer: -(-size * part // rows) for peer, part in enumerate(splits[0]) if part > 0}
    root = 0
    if op in ("broadcast", "reduce", "gather", "scatter"):
        root = rank
    elif not trace.groups.get(group) and 0 <= rank < trace.sizes.get(group, 0):
        # Of a group of all ranks this is the rank itself, which says more than the file's name.
        trace.rank = rank
    trace.add(Key(group, op, root), size, where, to)


def _known(name: str) -> bool:
    return op_of(name) is not None or name.lower() in IGNORED


def _group_name(before: list[Any], numbers: list[int], attributes: Mapping[str, Any]) -> str:
    """New traces name it, in a pair with its description; old ones give a number in front of the rank."""
    named = attributes.get("pg_name")
    if isinstance(named, str) and named:
        return named
    for value in before:
        if isinstance(value, list) and value and isinstance(value[0], str):
            return value[0]
    return str(numbers[-2]) if len(numbers) > 1 else WORLD


def _place(trace: RankTrace, group: str, numbers: list[int], where: str) -> None:
    """Size of the group and, in newer traces, its first rank and its stride: enough where no group was named before."""
    size = numbers[-1]
    trace.sized(group, size, where)
    if len(numbers) >= 3 and not trace.groups.get(group):
        start, stride = numbers[-3], numbers[-2]
        if start >= 0 and stride > 0:
            trace.groups.pop(group, None)
            trace.member(group, tuple(range(start, start + stride * size, stride)), where)


def _tensors(value: object) -> list[tuple[int, int]]:
    """(elements, bytes of one) of a tensor ``[id, storage, offset, elements, bytes, device]``, or of lists of them."""
    if not isinstance(value, list):
        return []
    if len(value) == 6 and all(type(part) is int for part in value[:5]):
        return [(max(0, value[3]), max(0, value[4]))]
    # Deeper than a list of lists of tensors nothing is nested.
    return [
        (max(0, t[3]), max(0, t[4]))
        for inner in value
        if isinstance(inner, list)
        for t in ([inner] if len(inner) == 6 and type(inner[0]) is int else inner)
        if isinstance(t, list) and len(t) == 6 and all(type(part) is int for part in t[:5])
    ]
