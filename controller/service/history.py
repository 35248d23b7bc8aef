"""Kept plans as documents: ``PlanHistory``, ``PlanSummary`` and ``PlanRecord`` of ``controller.rest.schemas``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from controller.model.traffic import ANY_PORT
from controller.service.times import when
from controller.store.values import KeptPaths, PlanRecord

_CHUNK = 1000  # paths encoded at a time: as Python objects, those of a large plan would be a million


def summary(record: PlanRecord) -> dict[str, Any]:
    """A kept plan without its paths."""
    return {
        "epoch": record.epoch,
        "at": when(record.at),
        "cause": record.cause,
        "by": record.by,
        "policy": record.policy,
        "seed": record.seed,
        "mode": record.mode,
        "enforcement": record.enforcement,
        "fabric_version": record.fabric_version,
        "traffic_version": record.traffic_version,
        "links_down": list(record.links_down),
        "drained": list(record.drained),
        "jobs": list(record.jobs),
        "min_speed": record.min_speed,
        "min_level": record.min_level,
        "bound_split": record.bound_split,
        "bound_single": record.bound_single,
        "gap": record.gap,
        "seconds": record.seconds,
        "flows": record.flows,
        "moved": record.moved,
        "unroutable": record.unroutable,
        "rollback_of": record.rollback_of,
    }


def page(records: Sequence[PlanRecord], limit: int) -> dict[str, Any]:
    """At most ``limit`` of the records; where there are more, the next page begins below the last one shown."""
    shown = records[:limit]
    return {
        "plans": [summary(record) for record in shown],
        "next_before": shown[-1].epoch if len(records) > limit and shown else None,
    }


def record(kept: PlanRecord) -> bytes:
    """A kept plan with its paths."""
    return orjson.dumps({**summary(kept), "paths": None if kept.paths is None else _paths(kept.paths)})


def _paths(paths: KeptPaths) -> orjson.Fragment:
    chunks = (
        orjson.dumps(_rows(paths, slice(start, start + _CHUNK)))[1:-1] for start in range(0, len(paths.key), _CHUNK)
    )
    return orjson.Fragment(b"[" + b",".join(chunks) + b"]")


def _rows(paths: KeptPaths, chunk: slice) -> list[dict[str, Any]]:
    key = paths.key[chunk]
    columns = zip(
        (key >> 40).tolist(),
        ((key >> 16) & 0xFFFFFF).tolist(),
        (key & 0xFFFF).tolist(),
        paths.path[chunk].tolist(),
        paths.share[chunk].tolist(),
        strict=True,
    )
    return [
        {
            "src": paths.hosts[src],
            "dst": paths.hosts[dst],
            "udp_src": None if port == ANY_PORT else port,
            "path": paths.paths[path],
            "share": min(share, 1.0),
        }
        for src, dst, port, path, share in columns
    ]
