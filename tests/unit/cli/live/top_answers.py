"""Answers to one look of ``fairspine top``."""

from __future__ import annotations

from typing import Any

from tests.unit.rest.fake import FakeBackend

CABLE = {"gbps": 100.0, "up": True, "drained": False}
MEASURED = {"rate_gbps": 90.0, "utilisation": 0.9, "dropped": 3, "errors": 0, "background_gbps": 2.5}
LINKS = [
    {"id": "h1->leaf1", **CABLE, "load_gbps": 100.0},
    {"id": "leaf1->spine1", **CABLE, "load_gbps": 50.0},
    {"id": "leaf1->spine2", **CABLE, "load_gbps": 10.0, **MEASURED},
    {"id": "leaf1->spine3", **CABLE, "load_gbps": 0.0, "up": False},
]


def looks(epoch: int = 2, *, links: Any = None, **health: Any) -> list[tuple[int, Any]]:
    """The answers to one look, in the order in which they are asked for."""
    backend = FakeBackend()
    backend.bodies["a"] = b""
    plans = dict(backend.plans(None, 1))  # type: ignore[arg-type]
    plans["plans"] = [{**plans["plans"][0], "epoch": epoch}]
    links = {"links": LINKS, "measured": None, "period": 2.0} if links is None else links
    return [
        (200, {**dict(backend.health()), **health}),  # type: ignore[arg-type]
        (200, links),
        (200, backend.jobs()),
        (200, plans),
        (200, backend.fabric()),
    ]
