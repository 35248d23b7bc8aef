"""Kept plans as documents: ``PlanHistory``, ``PlanSummary`` and ``PlanRecord`` of ``controller.rest.schemas``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import orjson

from controller.core.saved.plan_record import PlanRecord
from controller.model.packets.flow_ports import protocol_fields, udp_source
from controller.model.traffic import key_parts
from controller.routing import PreviousPlan
from controller.views.times import when

_CHUNK = 1000  # paths encoded at a time: as Python objects, those of a large plan would be a million


def summary(record: PlanRecord) -> dict[str, Any]:
    """Return the document of a saved plan without its paths: every other field of the record, under its own name."""
    values = {field.name: getattr(record, field.name) for field in fields(record) if field.name != "paths"}
    lists = {name: list(value) for name, value in values.items() if isinstance(value, tuple)}
    return {**values, **lists, "at": when(record.at)}


def event(record: PlanRecord) -> dict[str, Any]:
    """Return the data of the event of a new plan: its summary without lists and without the time, which events have."""
    return {name: value for name, value in summary(record).items() if not isinstance(value, list) and name != "at"}


def page(records: Sequence[PlanRecord], limit: int) -> dict[str, Any]:
    """Return at most ``limit`` records; if there are more, the next page begins below the last one shown."""
    shown = records[:limit]
    return {
        "plans": [summary(record) for record in shown],
        "next_before": shown[-1].epoch if len(records) > limit and shown else None,
    }


def record(kept: PlanRecord) -> bytes:
    """Return a kept plan with its paths."""
    return orjson.dumps({**summary(kept), "paths": None if kept.paths is None else _paths(kept.paths)})


def _paths(paths: PreviousPlan) -> orjson.Fragment:
    chunks = (
        orjson.dumps(_rows(paths, slice(start, start + _CHUNK)))[1:-1] for start in range(0, len(paths.key), _CHUNK)
    )
    return orjson.Fragment(b"[" + b",".join(chunks) + b"]")


def _rows(paths: PreviousPlan, chunk: slice) -> list[dict[str, Any]]:
    key = paths.key[chunk]
    columns = zip(
        *(part.tolist() for part in key_parts(key)),
        paths.path[chunk].tolist(),
        paths.share[chunk].tolist(),
        strict=True,
    )
    return [
        {
            "src": paths.hosts[src],
            "dst": paths.hosts[dst],
            "udp_src": udp_source(port),
            "path": paths.paths[path],
            "share": min(share, 1.0),
            **protocol_fields(port),
        }
        for src, dst, port, path, share in columns
    ]
