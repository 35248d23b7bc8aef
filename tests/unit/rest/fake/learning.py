"""Learned jobs."""

from __future__ import annotations

from typing import Any

from controller.core.caller import Caller
from controller.core.ports.api import Condition, Document, PutOutcome
from controller.model.choices.learning import Learning
from controller.model.errors import NotFoundError
from controller.rest.readers import read_sightings
from tests.unit.rest.fake.jobs import FakeJobs
from tests.unit.rest.fake.state import SINCE

LEARNED: dict[str, Any] = {
    "name": "a",
    "hosts": 2,
    "flows": 1,
    "bytes": 5,
    "period_seconds": 0.8,
    "iterations": 7,
    "confidence": 0.9,
    "planned": False,
    "planned_flows": 0,
    "hashed_speed": 0.5,
    "planned_speed": 1.0,
    "seen": "2026-01-02T03:04:05Z",
    "expires": "2026-01-02T03:04:35Z",
    "groups": [{"shape": "flows", "phase": 0, "flows": 1, "hosts": 2, "bytes": 5}],
}


class FakeLearning(FakeJobs):
    """Learned jobs."""

    def see(self, body: bytes) -> Document:
        return {"qps": len(read_sightings(body).qps)}

    def learning(self) -> Document:
        return {"learning": self.learns, "since": SINCE, "by": None}

    def set_learning(self, learning: Learning, caller: Caller) -> Document:
        self.learns = learning
        self._happened("learning", {"learning": learning, "by": caller.name})
        return self.learning()

    def learned(self) -> Document:
        return {"learning": self.learns, "qps": 2, "ignored": 0, "jobs": [LEARNED]}

    def learned_job(self, name: str) -> Document:
        self._check_learned(name)
        return {"summary": LEARNED, "job": {"name": name, "flows": [{"src": "h1", "dst": "h2", "bytes": 5}]}}

    def forget_learned(self, name: str) -> None:
        self._check_learned(name)

    def adopt(self, name: str, caller: Caller) -> PutOutcome:
        self._check_learned(name)
        return self.put_job(name, b"{}", Condition(), caller)

    def _check_learned(self, name: str) -> None:
        if name != LEARNED["name"]:
            raise NotFoundError("learned job", name)
