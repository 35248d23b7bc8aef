"""Events that the controller publishes to its readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

EventKind = Literal["plan", "link", "job", "error", "mode", "drift", "schedule", "learning", "reset"]


@dataclass(frozen=True)
class Event:
    """An event.

    Attributes:
        id: as in ``schemas.EventDocument``: grows within one run of the controller, never the same in another run.
        at: seconds since 1970.
        data: values that orjson encodes.
    """

    id: str
    at: float
    kind: EventKind
    data: Mapping[str, Any]


class EventSink(Protocol):
    """The place where events are published; ``controller.service.reconciling.event_log.EventLog`` implements it."""

    def append(self, kind: EventKind, **data: Any) -> None:
        """Publish an event that happens now. Call it on the event loop only."""
