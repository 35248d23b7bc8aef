"""Events as a text/event-stream (WHATWG HTML, section 9.2)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import orjson

from controller.rest.backend import Event, Subscription

HEARTBEAT_SECONDS = 15.0
"""Between two signs of life. A client that has gone is noticed when one cannot be delivered."""

RETRY_MILLISECONDS = 2000
"""How long a browser waits before it asks again with the last id that it saw."""


class EventStream:
    """A subscription as the pieces of a response body; ends when it is closed."""

    def __init__(self, subscription: Subscription, *, heartbeat_seconds: float = HEARTBEAT_SECONDS) -> None:
        self._subscription = subscription
        self._heartbeat_seconds = heartbeat_seconds
        self._begun = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if not self._begun:
            # At once, so that the client knows that it is listened to.
            self._begun = True
            return b"retry: %d\n\n" % RETRY_MILLISECONDS
        events = self._subscription.wait(self._heartbeat_seconds)
        return b"".join(map(encode, events)) or b": alive\n\n"

    def close(self) -> None:
        self._subscription.close()


def encode(event: Event) -> bytes:
    """One event; its data is an ``EventDocument`` in one line."""
    document = {
        "id": event.id,
        "at": datetime.fromtimestamp(event.at, UTC).isoformat(timespec="milliseconds"),
        "kind": event.kind,
        "data": event.data,
    }
    # JSON has no line ends of its own, and orjson writes none.
    data = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (event.id.encode(), event.kind.encode(), data)
