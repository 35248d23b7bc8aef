"""Mode, events, metrics, health and the cluster."""

from __future__ import annotations

from prometheus_client.core import GaugeMetricFamily

from controller.core.caller import Caller
from controller.core.change_number import ChangeNumber
from controller.core.ports.api import Document, Exposition
from controller.model.choices.enforcement import Mode
from controller.model.errors import UnavailableError
from controller.telemetry.instruments import exposition
from tests.unit.rest.fake.state import SINCE, FakeState, FakeSubscription


class FakeSystem(FakeState):
    """Mode, events, metrics, health and the cluster."""

    leader: str | None = None
    """As in ``Backend``; a test sets it."""

    confirmed: bool | UnavailableError = True
    """What ``confirms`` returns or raises."""

    change: ChangeNumber | None = None
    """The last change that it knows; ``None``: a single controller."""

    def metrics(self, accept: str) -> Exposition:
        gauge = GaugeMetricFamily("fairspine_plan_epoch", "Number of the newest plan.", 2)
        return Exposition(*exposition([gauge], accept))

    def mode(self) -> Document:
        return {
            "mode": self.enforced,
            "enforcement": self.enforcement,
            "since": SINCE,
            "by": None,
            "epoch": 2,
        }

    def set_mode(self, mode: Mode | None, enforcement: str | None, caller: Caller) -> Document:
        self.enforced = mode or self.enforced
        self.enforcement = enforcement or self.enforcement
        self._happened("mode", {"mode": self.enforced, "by": caller.name})
        return self.mode()

    def subscribe(self, after: str | None, last: int = 0) -> FakeSubscription:
        at = max(0, len(self.events) - last)
        if after is not None:
            ids = [event.id for event in self.events]
            at = ids.index(after) + 1 if after in ids else 0
        self.subscriptions.append(FakeSubscription(self.events, at))
        return self.subscriptions[-1]

    def knows(self, change: ChangeNumber) -> bool:
        return self.change is None or self.change >= change

    def confirms(self) -> bool:
        if isinstance(self.confirmed, UnavailableError):
            raise self.confirmed
        return self.confirmed

    def cluster(self) -> Document:
        return {
            "name": None,
            "role": "single",
            "term": 0,
            "leader": None,
            "since": None,
            "change": None,
            "replicas": [],
        }

    def step_down(self) -> None:
        pass

    def health(self) -> Document:
        return {
            "status": "ok",
            "reasons": [],
            "degraded_service": [],
            "slowest_job": {"job": None, "speed": None, "unknown": None},
            "active_epoch": 2,
            "version": "0.3.0",
            "mode": self.enforced,
            "enforcement": self.enforcement,
            "switches": {"connected": 2, "expected": 2},
            "agents": None,
            "jobs": len(self.bodies),
            "flows": len(self.bodies),
        }
