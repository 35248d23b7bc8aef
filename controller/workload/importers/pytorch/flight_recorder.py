"""Importer ``flight-recorder``: dumps of PyTorch's Flight Recorder as JSON, a file a rank.

``torch.distributed`` keeps the last operations of a rank in a ring buffer (``TORCH_NCCL_TRACE_BUFFER_SIZE``) and writes
them when a watchdog fires or on demand (torch/csrc/distributed/c10d/FlightRecorder.hpp). ``pg_config`` has the groups,
``entries`` the operations with the shapes and types of their tensors. By default it writes a pickle. A pickle can run
code when it is read, so pickles are not read here.

Each operation has the time of its call. If a dump has several iterations (``--iterations``) that call the same
operations, the time from a call to the same call in the next iteration is the period of the job.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from math import prod
from statistics import median
from typing import Any

import orjson

from controller.model.errors import InputError
from controller.model.units import NANOSECOND
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.chakra.groups import check_group, is_group
from controller.workload.importers.chakra.merge import merge
from controller.workload.importers.chakra.trace import WORLD, Key, RankTrace, is_known, op_of
from controller.workload.importers.documents import no_json
from controller.workload.importers.fields import MAX_RANKS
from controller.workload.importers.head import Head
from controller.workload.importers.pytorch.dtypes import width_of

MAX_BYTES_OF_FILE = 1 << 30
"""A ring buffer of many thousand operations with their call stacks has a few hundred MB."""

_PICKLE = (2, 3, 4, 5)
_PAIR = re.compile(r"(?:nccl:)?(send|recv)\s+(\d{1,6})\s*(?:->|<-)\s*(\d{1,6})")
_RANK = re.compile(r"rank[._-]?(\d{1,6})(?:\.[A-Za-z]+)*$|[._-](\d{1,6})(?:\.json)?(?:\.gz)?$", re.IGNORECASE)


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    if head.keys >= {"entries", "pg_config"} or head.keys >= {"entries", "profiling_name"}:
        return "a dump of PyTorch's Flight Recorder: the last operations of one rank"
    return ""


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read a job from the dumps of its ranks.

    Raises:
        InputError: a file is not a dump, or the files contradict each other.
    """
    read_files = [_read(source) for source in sources]
    if not read_files:
        raise InputError("no file is given")
    more = ["a dump has the last operations of a run, which may not be whole iterations"]
    seconds = max(_period(calls, request.iterations) for _, calls in read_files)
    if not seconds:
        more.append(
            "no time of iterations is known: it needs --iterations of 2 or more in which each rank calls the same "
            "operations, with times"
        )
    traces = [trace for trace, _ in read_files]
    return merge(traces, {}, request, more=more, measured_seconds=seconds * request.iterations)


Call = tuple[str, int]
"""An operation with its group and shapes, as text, and the nanoseconds at which it was called; 0: not known."""


def _period(calls: Sequence[Call], iterations: int) -> float:
    """Return the median time in seconds between a call and the same call of the next iteration; 0 if not known."""
    length, rest = divmod(len(calls), iterations)
    if iterations < 2 or rest or not length:
        return 0.0
    pairs = list(zip(calls, calls[length:], strict=False))
    if any(one[0] != other[0] or not 0 < one[1] < other[1] for one, other in pairs):
        return 0.0
    return median(other[1] - one[1] for one, other in pairs) * NANOSECOND


def _read(source: Source) -> tuple[RankTrace, list[Call]]:
    with source.open() as stream:
        content = stream.read(MAX_BYTES_OF_FILE + 1)
    if len(content) > MAX_BYTES_OF_FILE:
        raise InputError(f"is larger than {MAX_BYTES_OF_FILE} bytes", source=source.name)
    if len(content) > 2 and content[0] == 0x80 and content[1] in _PICKLE:
        raise InputError(
            "is a Python pickle, which can run code and is therefore not read: write JSON with "
            "torch._C._distributed_c10d._dump_nccl_trace_json(), or convert it on the machine where it was written",
            source=source.name,
        )
    try:
        document = orjson.loads(content.removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        raise no_json(source, error) from None
    entries = document.get("entries") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise InputError("is not a dump of the Flight Recorder: it has no list 'entries'", source=source.name)
    trace = RankTrace(source, _rank(document, source.name))
    trace.rank_is_stated = trace.rank is not None
    _groups(trace, document.get("pg_config"))
    calls = []
    for i, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise InputError("is not an operation", source=source.name, field=f"entries[{i}]", value=entry)
        _add(trace, entry, f"entries[{i}]")
        calls.append(_call(entry))
    return trace, calls


def _call(entry: Mapping[str, Any]) -> Call:
    at = entry.get("time_created_ns")
    what = [entry.get(name) for name in ("profiling_name", "process_group", "pg_id", "input_sizes", "output_sizes")]
    return repr(what), at if type(at) is int and at > 0 else 0


def _rank(document: Mapping[str, Any], name: str) -> int | None:
    if type(rank := document.get("rank")) is int and 0 <= rank < MAX_RANKS:
        return rank
    match = _RANK.search(name.rpartition("/")[2])
    return None if match is None else int(match[1] or match[2])


def _groups(trace: RankTrace, rows: Any) -> None:
    """Read ``pg_config``: by name, or a list; ranks as a list, or as its text."""
    named = rows.items() if isinstance(rows, dict) else enumerate(rows) if isinstance(rows, list) else ()
    for key, row in named:
        if not isinstance(row, dict):
            continue
        ranks = row.get("ranks")
        if isinstance(ranks, str):
            try:
                ranks = json.loads(ranks)
            except ValueError:
                ranks = None
        if isinstance(ranks, list) and is_group(ranks):
            name, where = str(row.get("name", key)), f"pg_config[{key}]"
            check_group(trace.source, name, tuple(ranks), where)
            trace.member(name, tuple(ranks), where)


def _add(trace: RankTrace, entry: Mapping[str, Any], where: str) -> None:
    called = entry.get("profiling_name")
    group = entry.get("process_group")
    # Before 2.4 of the dump there is only the group's number.
    name = str(group[0]) if isinstance(group, list) and group else str(entry.get("pg_name", entry.get("pg_id", WORLD)))
    if not isinstance(called, str):
        raise InputError(
            "is not the name of an operation", source=trace.source.name, field=f"{where}.profiling_name", value=called
        )
    if pair := _PAIR.fullmatch(called):
        sends = pair[1] == "send"
        tensors = "input" if sends else "output"
        trace.peers_in_group = True
        size = _size(trace, entry, tensors, where) or _size(trace, entry, "input" if not sends else "output", where)
        trace.pass_on(sends, name, int(pair[3]), size, where)
        return
    plain = called.removeprefix("nccl:").removeprefix("gloo:").removeprefix("xccl:")
    op = op_of(plain)
    if op is None:
        if not is_known(plain) and "barrier" not in plain and plain != "coalesced":
            trace.leave_out(f"run of {called!r:.40}, which is an unknown operation")
        return
    trace.add(Key(name, op), _size(trace, entry, "input", where), where)


def _size(trace: RankTrace, entry: Mapping[str, Any], side: str, where: str) -> int:
    """Return the bytes of the tensors of an operation's input or output."""
    shapes, types = entry.get(f"{side}_sizes"), entry.get(f"{side}_dtypes")
    if not isinstance(shapes, list):
        raise InputError(
            "is not a list of shapes", source=trace.source.name, field=f"{where}.{side}_sizes", value=shapes
        )
    if isinstance(types, str):
        types = [types] * len(shapes)
    total = 0
    for i, shape in enumerate(shapes):
        width = width_of(str(types[i])) if isinstance(types, list) and i < len(types) else None
        if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
            raise InputError(
                "is not a shape", source=trace.source.name, field=f"{where}.{side}_sizes[{i}]", value=shape
            )
        if types is None:
            raise InputError(
                "has no data types; dumps of PyTorch 2.4 and later have them",
                source=trace.source.name,
                field=f"{where}.{side}_dtypes",
            )
        if width is None:
            raise InputError(
                "is an unknown data type",
                source=trace.source.name,
                field=f"{where}.{side}_dtypes[{i}]",
                value=types[i] if isinstance(types, list) and i < len(types) else None,
            )
        total += prod(shape) * width
    return total
