"""Events as a text/event-stream (WHATWG HTML, section 9.2)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import orjson

from controller.core.events import Event
from controller.core.ports.api import Subscription

HEARTBEAT_SECONDS = 2.0
"""Between two heartbeats: readers show within 5 s that the controller is gone. A closed connection is noticed when one
cannot be delivered."""

RETRY_MILLISECONDS = 2000
"""Milliseconds that a browser waits before it reconnects with the last id that it received."""


class EventStream:
    """A subscription as the pieces of a response body; ends when it is closed."""

    def __init__(self, subscription: Subscription, *, heartbeat_seconds: float = HEARTBEAT_SECONDS) -> None:
        """Stream the events of a subscription, with a comment after each ``heartbeat_seconds`` without one."""
        self._subscription = subscription
        self._heartbeat_seconds = heartbeat_seconds
        self._begun = False

    def __iter__(self) -> Iterator[bytes]:
        """Return the stream itself."""
        return self

    def __next__(self) -> bytes:
        """Return the next events, encoded, or a comment if none came in time."""
        if not self._begun:
            # At once, so that the client knows that the stream is open.
            self._begun = True
            return b"retry: %d\n\n" % RETRY_MILLISECONDS
        events = self._subscription.wait(self._heartbeat_seconds)
        return b"".join(map(encode, events)) or b": alive\n\n"

    def close(self) -> None:
        """Close the subscription."""
        self._subscription.close()


def encode(event: Event) -> bytes:
    """Encode one event; its data is an ``EventDocument`` in one line."""
    document = {
        "id": event.id,
        "at": datetime.fromtimestamp(event.at, UTC).isoformat(timespec="milliseconds"),
        "kind": event.kind,
        "data": event.data,
    }
    # JSON has no line ends of its own, and orjson writes none.
    data = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (event.id.encode(), event.kind.encode(), data)
