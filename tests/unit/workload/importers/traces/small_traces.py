"""Small traces of our own, in both formats, and what importing them gives."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

from controller.model.job import Job
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.chakra import read
from controller.workload.importers.chakra.protobuf import messages
from controller.workload.job_document import document_of
from controller.workload.job_file import parse_job

METADATA, COMPUTE, SEND, RECEIVE, COLLECTIVE = 1, 4, 5, 6, 7
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


def node(kind: int, **attributes: int | str | list[bool]) -> Any:
    make, _ = messages()
    made = make(id=1, name="n", type=kind)
    for name, value in attributes.items():
        attribute = made.attr.add(name=name)
        match value:
            case bool():
                attribute.bool_val = value
            case str():
                attribute.string_val = value
            case list():
                attribute.bool_list.values.extend(value)
            case _:
                attribute.int64_val = value
    return made


def at(number: int, one: Any, *after: int, micros: int = 0) -> Any:
    """The node with a number, and those that it waits for."""
    one.id = number
    one.data_deps.extend(after)
    one.duration_micros = micros
    return one


def metadata(*rows: dict[str, Any]) -> Any:
    """Groups, as Chakra's converter writes them: Python's way to print a list of one text."""
    make, _ = messages()
    made = make(id=1, name="## process_group:init ##", type=METADATA)
    made.inputs.values = str([json.dumps(list(rows))])
    return made


def et(*nodes: Any) -> bytes:
    _, head = messages()
    return delimited(head(version=b"0.0.4"), *nodes)


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
