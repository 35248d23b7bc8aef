"""Chakra's own traces: messages of Google's protocol buffers, each behind its length, one file a rank.

Written after et_def.proto (versions 0.0.4 and later) and ASTRA-sim's readers of it: ``comm_size`` is what a rank has
before the operation, so of an all-gather it is one rank's part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, BinaryIO

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from controller.model.errors import InputError
from controller.workload.importers.base import Source
from controller.workload.importers.chakra.trace import WORLD, Key, RankTrace
from controller.workload.importers.fields import MAX_RANKS

MAX_MESSAGE = 64 << 20
"""Bytes of one message: the head of a trace may hold a whole input file of its maker."""

SEND, RECEIVE, COLLECTIVE = 5, 6, 7
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

_RANK = re.compile(r"\.([0-9]{1,6})\.[A-Za-z]+(\.gz)?$")


def rank_in_name(name: str) -> int | None:
    """The rank of ``all_reduce.3.et``; ``None`` where the name holds none."""
    found = _RANK.search(name)
    return int(found[1]) if found and int(found[1]) < MAX_RANKS else None


def read_et(source: Source) -> RankTrace:
    """The totals of one rank's trace.

    Raises:
        InputError: with the number of the message: it is no trace, cut short, or lacks what a flow needs.
    """
    make_node, make_head = _messages()
    trace = RankTrace(source, rank_in_name(source.name))
    with source.open() as stream:
        for number, content in enumerate(_delimited(stream, source)):
            where = f"message {number}"
            message = make_head() if number == 0 else make_node()
            try:
                message.ParseFromString(content)
            except (DecodeError, UnicodeDecodeError):
                raise InputError("is no message of a Chakra trace", source=source.name, field=where) from None
            if number > 0 and message.type in (SEND, RECEIVE, COLLECTIVE):
                _take(trace, message, f"{where} (node {message.id})")
    return trace


def _take(trace: RankTrace, node: Any, where: str) -> None:
    has = {
        attribute.name: getattr(attribute, kind) for attribute in node.attr if (kind := attribute.WhichOneof("value"))
    }
    size = _whole(trace, has, "comm_size", where)
    group = has.get("pg_name", has.get("comm_group", has.get("involved_dim_group", WORLD)))
    group = str(group) if isinstance(group, (str, int)) else WORLD
    if node.type == COLLECTIVE:
        kind = _whole(trace, has, "comm_type", where)
        if kind == BARRIER:
            return
        if kind not in OPS:
            raise trace.error(f"comm_type {kind} is none that is known", where)
        root = _whole(trace, has, "root_rank", where) if "root_rank" in has else 0
        trace.add(Key(group, OPS[kind], root), size, where)
    else:
        peer = _whole(trace, has, "comm_dst" if node.type == SEND else "comm_src", where)
        trace.pass_on(node.type == SEND, group, peer, size, where)


def _whole(trace: RankTrace, has: dict[str, Any], name: str, where: str) -> int:
    value = has.get(name)
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise trace.error(f"has no whole number {name}", where)
    return value


def _delimited(stream: BinaryIO, source: Source) -> Iterator[bytes]:
    """The messages, one after the other."""
    number = 0
    while True:
        length, shift = 0, 0
        while byte := stream.read(1):
            length |= (byte[0] & 0x7F) << shift
            shift += 7
            if byte[0] < 0x80:
                break
            if shift > 35:
                raise InputError("is no Chakra trace", source=source.name, field=f"message {number}")
        if not byte:
            if shift:
                raise InputError("ends within a length", source=source.name, field=f"message {number}")
            return
        if length > MAX_MESSAGE:
            reason = f"{length} bytes are more than a message has: this is no Chakra trace"
            raise InputError(reason, source=source.name, field=f"message {number}")
        content = stream.read(length)
        if len(content) < length:
            raise InputError(
                f"ends after {len(content)} of {length} bytes", source=source.name, field=f"message {number}"
            )
        yield content
        number += 1


@cache
def _messages() -> tuple[Any, Any]:
    """Classes for a node and for the head, made from the compiled schema: no generated code that goes out of date."""
    described = descriptor_pb2.FileDescriptorSet.FromString((files(__package__) / "et_def.binpb").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(described.file[0])
    kinds = (pool.FindMessageTypeByName(f"fairspine.chakra.{name}") for name in ("Node", "GlobalMetadata"))
    node, head = (message_factory.GetMessageClass(kind) for kind in kinds)
    return node, head
