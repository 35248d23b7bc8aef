"""The events of a cluster's leaders, one after the other, as one response of a follower."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from controller.rest.serving.framing import PIECE_BYTES

WAIT_SECONDS = 60.0
"""Limit on waiting for the next leader; then the stream ends."""

LOOK_SECONDS = 0.5
"""Between two looks for the next leader; each sends a heartbeat to the client."""


class LeaderStream(NamedTuple):
    """An open stream of a leader."""

    connection: http.client.HTTPConnection
    answer: http.client.HTTPResponse

    def close(self) -> None:
        """Close the connection to the leader."""
        self.answer.close()
        self.connection.close()


OpenStream = Callable[[str], LeaderStream | None]
"""Opens the stream of the present leader after an event's id; ``None``: nobody leads, or cannot be reached.

Raises ``EOFError`` where this replica itself leads, or the leader refuses.
"""


class RelayedStream:
    """Whole events as they arrive, until the stream is closed; it outlives the leader.

    The next leader does not know the ids of the former one, so its stream begins with a ``reset``.
    """

    def __init__(self, first: LeaderStream, after: str, open_next: OpenStream) -> None:
        """Relay a leader's stream, and then those of the next leaders. ``after``: the last id that the client knows."""
        self._stream: LeaderStream | None = first
        self._after, self._open_next = after, open_next

    def __iter__(self) -> Iterator[bytes]:
        """Yield what arrives; end when there is no leader for long, or this replica leads."""
        while self._stream is not None:
            yield from self._events(self._stream)
            self.close()
            yield from self._next_leader()

    def close(self) -> None:
        """Close the connection to the leader."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _events(self, stream: LeaderStream) -> Iterator[bytes]:
        """Yield the events of one leader, the last one only if it is whole."""
        rest = b""
        with suppress(OSError, http.client.HTTPException, ValueError):
            while piece := stream.answer.read1(PIECE_BYTES):
                whole, end, rest = (rest + piece).rpartition(b"\n\n")
                for line in whole.splitlines():
                    if line.startswith(b"id: "):
                        self._after = line.removeprefix(b"id: ").decode(errors="replace")
                if end:
                    yield whole + end

    def _next_leader(self) -> Iterator[bytes]:
        deadline = time.monotonic() + WAIT_SECONDS
        while self._stream is None and time.monotonic() < deadline:
            try:
                self._stream = self._open_next(self._after)
            except EOFError:
                return
            if self._stream is None:
                yield b": no replica leads\n\n"
                time.sleep(LOOK_SECONDS)
