"""Chakra's own traces: protocol buffers messages, each preceded by its length, one file a rank.

Based on et_def.proto (versions 0.0.4 and later) and ASTRA-sim's readers of it: ``comm_size`` is a rank's size
before the operation, so of an all-gather it is one rank's part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, BinaryIO

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from controller.model.errors import InputError
from controller.model.units import MICROSECOND
from controller.workload.importers.base import Source
from controller.workload.importers.chakra.groups import NODE, read_groups
from controller.workload.importers.chakra.order import TraceOrder
from controller.workload.importers.chakra.trace import WORLD, Key, RankTrace
from controller.workload.importers.fields import MAX_RANKS

MAX_MESSAGE = 64 << 20
"""Most bytes of one message: the head of a trace may hold a whole input file of the tool that wrote it."""

METADATA, SEND, RECEIVE, COLLECTIVE = 1, 5, 6, 7
OPS = {
    0: "all_reduce",
    1: "reduce",
    2: "all_gather",
    3: "gather",
    4: "scatter",
    5: "broadcast",
    6: "all_to_all",
    7: "reduce_scatter",
    8: "reduce_scatter",
}
BARRIER = 9

_RANK = re.compile(r"(?:\.|rank[._-]?)([0-9]{1,6})\.[A-Za-z]+(\.gz)?$", re.IGNORECASE)


def rank_in_name(name: str) -> int | None:
    """Return the rank in ``all_reduce.3.et`` or ``rank3.json``; ``None`` where the name has none."""
    match = _RANK.search(name)
    return int(match[1]) if match and int(match[1]) < MAX_RANKS else None


def read_et(source: Source, iterations: int = 1) -> RankTrace:
    """Read the totals of one rank's trace of so many iterations, and which of its collectives overlap with computing.

    Raises:
        InputError: with the number of the message: it is not a trace, is cut, or lacks an attribute of a flow.
    """
    trace = RankTrace(source, rank_in_name(source.name), has_graph=True)
    order = TraceOrder()
    for message, where in nodes(source):
        seconds = message.duration_micros * MICROSECOND
        if message.type in (SEND, RECEIVE, COLLECTIVE):
            run = take(trace, message.type, attributes(message), where)
            if run is None:
                order.add(message)
            else:
                order.add_run(message, *run, seconds)
            continue
        if seconds and message.type != METADATA:
            on_gpu = attributes(message).get("is_cpu_op") is not True
            trace.computing.add(seconds, on_gpu=on_gpu)
            order.add(message, seconds, on_gpu=on_gpu)
            continue
        order.add(message)
        if message.type == METADATA and NODE in message.name and message.inputs.values:
            # Chakra's converter writes the list of inputs in Python's notation.
            read_groups(trace, message.inputs.values.strip().removeprefix("['").removesuffix("']"), where)
    trace.overlap = order.overlap(iterations)
    return trace


def nodes(source: Source) -> Iterator[tuple[Any, str]]:
    """Yield the nodes of a trace, each with its place for messages.

    Raises:
        InputError: with the number of the message: it is not a trace, or is cut.
    """
    make_node, make_head = messages()
    with source.open() as stream:
        for number, content in enumerate(_delimited(stream, source)):
            where = f"message {number}"
            message = make_head() if number == 0 else make_node()
            try:
                message.ParseFromString(content)
            except (DecodeError, UnicodeDecodeError):
                raise InputError("is not a message of a Chakra trace", source=source.name, field=where) from None
            if number:
                yield message, f"{where} (node {message.id})"


def attributes(node: Any) -> dict[str, Any]:
    """Return a node's attributes by name."""
    return {row.name: getattr(row, kind) for row in node.attr if (kind := row.WhichOneof("value"))}


def take(trace: RankTrace, kind: int, has: Mapping[str, Any], where: str) -> tuple[Key, int] | None:
    """Add one node of communication to the trace; return the collective of which it is a run, and its bytes.

    Args:
        trace: the trace to add to.
        kind: ``SEND``, ``RECEIVE`` or ``COLLECTIVE``.
        has: the attributes of the node.
        where: the place of the node for messages.

    Raises:
        InputError: it lacks an attribute of a flow.
    """
    if has.get("is_cpu_op") is True and "comm_size" not in has:
        # The call on the processor; its kernel is another node.
        return None
    size = whole(trace, has, "comm_size", where)
    named = has.get("pg_name", has.get("comm_group", WORLD))
    group = trace.name_of(str(named)) if isinstance(named, (str, int)) else WORLD
    dimensions = getattr(has.get("involved_dim"), "values", ())
    if not all(dimensions):
        trace.leave_out("involved_dim that leaves dimensions out, which no trace describes: all ranks are taken")
    if kind == COLLECTIVE:
        number = whole(trace, has, "comm_type", where)
        if number == BARRIER:
            return None
        if number not in OPS:
            raise trace.error(f"unknown comm_type {number}", where)
        root = whole(trace, has, "root_rank", where) if "root_rank" in has else 0
        key = Key(group, OPS[number], root)
        trace.add(key, size, where)
        return key, size
    peer = "comm_dst" if kind == SEND else "comm_src"
    if peer in has:
        trace.pass_on(kind == SEND, group, whole(trace, has, peer, where), size, where)
    else:
        # Chakra's converter of PyTorch's traces omits them.
        trace.leave_out(f"{'send' if kind == SEND else 'receive'} without its peer")
    return None


def whole(trace: RankTrace, has: Mapping[str, Any], name: str, where: str) -> int:
    """Return an attribute that is a whole number.

    Raises:
        InputError: it is not a whole number, or missing.
    """
    value = has.get(name)
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise trace.error(f"has no integer {name}", where)
    return value


def _delimited(stream: BinaryIO, source: Source) -> Iterator[bytes]:
    """Yield the messages, one after the other."""
    number = empty = 0
    while True:
        length, shift = 0, 0
        while byte := stream.read(1):
            length |= (byte[0] & 0x7F) << shift
            shift += 7
            if byte[0] < 0x80:
                break
            if shift > 35:
                raise InputError("is not a Chakra trace", source=source.name, field=f"message {number}")
        if not byte:
            if shift:
                raise InputError("ends within a length", source=source.name, field=f"message {number}")
            return
        if length > MAX_MESSAGE:
            reason = f"{length} bytes are too long for a message: this is not a Chakra trace"
            raise InputError(reason, source=source.name, field=f"message {number}")
        if not length and number:
            # Only a node of number 0 without a name is empty; more of them are zeros of a damaged file.
            empty += 1
            if empty > 1:
                raise InputError("is a second empty message", source=source.name, field=f"message {number}")
        content = stream.read(length)
        if len(content) < length:
            raise InputError(
                f"ends after {len(content)} of {length} bytes", source=source.name, field=f"message {number}"
            )
        yield content
        number += 1


@cache
def messages() -> tuple[Any, Any]:
    """Return classes for a node and for the head, made from the compiled schema, without generated code."""
    described = descriptor_pb2.FileDescriptorSet.FromString((files(__package__) / "et_def.binpb").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(described.file[0])
    kinds = (pool.FindMessageTypeByName(f"fairspine.chakra.{name}") for name in ("Node", "GlobalMetadata"))
    node, head = (message_factory.GetMessageClass(kind) for kind in kinds)
    return node, head
