"""What the fake backend keeps, and rows that documents of several resources have."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from typing import Any

from controller.core.events import Event, EventKind
from controller.core.ports.api import Document
from controller.core.ports.host_agents import HostReport
from controller.model.choices.enforcement import Mode
from controller.model.choices.learning import Learning

SINCE = "2026-01-02T03:04:05Z"


class FakeSubscription:
    """Polls; the events are few and the readers are tests."""

    def __init__(self, events: list[Event], at: int) -> None:
        self._events, self._at = events, at
        self.closed = False

    def wait(self, seconds: float) -> Sequence[Event]:
        deadline = time.monotonic() + seconds
        while self._at >= len(self._events) and time.monotonic() < deadline:
            time.sleep(0.01)
        found = self._events[self._at :]
        self._at += len(found)
        return found

    def close(self) -> None:
        self.closed = True


def history(name: str) -> Document:
    series = {"step_seconds": 10, "end": SINCE, "mean": [None, 0.25], "worst": [None, 0.5]}
    return {"id": name, "at": SINCE, "series": [series]}


class FakeState:
    """What the fake backend keeps, and rows that documents of several resources have."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.reports: list[tuple[str, HostReport]] = []
        self.by: dict[str, str] = {}
        self.drained: set[str] = set()
        self.enforced: Mode = "planned"
        self.learns: Learning = "observe"
        self.enforcement: str = "per_flow"
        self.events: list[Event] = []
        self.subscriptions: list[FakeSubscription] = []

    def _happened(self, kind: EventKind, data: dict[str, Any]) -> None:
        self.events.append(Event(f"run-{len(self.events)}", 1.5, kind, data))

    def _revision(self, name: str) -> str | None:
        body = self.bodies.get(name)
        return None if body is None else hashlib.sha256(body).hexdigest()[:16]

    def _origin(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "revision": self._revision(name) or "0",
            "changed": SINCE,
            "by": self.by.get(name, "nobody"),
        }

    def _collective(self, job: str) -> dict[str, Any]:
        return {
            "job": job,
            "name": "dp0",
            "speed": 1.0,
            "ideal_seconds": 0.1,
            "seconds": 0.1,
            "slowdown": 1.0,
        }

    def _flow(self, job: str) -> dict[str, Any]:
        path = {"share": 1.0, "links": ["h1->leaf1", "leaf1->h2"]}
        return {
            "id": f"{job}/dp0/0",
            "job": job,
            "collective": "dp0",
            "src": "h1",
            "dst": "h2",
            "bytes": 8,
            "paths": [path],
        }
