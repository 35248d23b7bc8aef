"""Responses on their way out: in pieces, within a time, and no more of them in memory than there is room for."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import eventlet
import webob

from controller.rest.connection import Connection, Shared
from controller.rest.framing import PIECE_BYTES
from controller.rest.messages import Response, Stream

LOG = logging.getLogger(__name__)


def outgoing(response: Response, connection: Connection) -> webob.Response:
    """The response for Ryu's and WebOb's hands.

    Raises:
        ProblemError: 503, clients take as much already as there is room for.
    """
    if connection.body_unread:
        # The rest of a body that nobody wants is not worth waiting for.
        connection.close_connection = True
    pieces: _Paced | _Streamed
    if response.stream is not None:
        try:
            pieces = _Streamed(response.stream, connection.shared)
        except Exception:
            response.stream.close()
            raise
    else:
        pieces = _Paced(response, connection.shared)
    return webob.Response(status=response.status_line, headerlist=response.header_list(), app_iter=pieces)


class _Paced:
    """A body in pieces; a client that takes too long over them is cut off (eventlet ends the connection)."""

    def __init__(self, response: Response, shared: Shared) -> None:
        self._body, self._shared = response.body, shared
        # Small ones always get through, above all those that say there is no room.
        self._held = len(response.body) if len(response.body) > PIECE_BYTES else 0
        shared.total.take(self._held, alone=True)
        self._at = 0
        self._deadline = time.monotonic() + shared.limits.body_seconds

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._at:
            eventlet.sleep(0)
        if self._at >= len(self._body):
            raise StopIteration
        if time.monotonic() > self._deadline:
            raise TimeoutError("the response was not taken in time")
        piece = self._body[self._at : self._at + PIECE_BYTES]
        self._at += PIECE_BYTES
        return piece

    def close(self) -> None:
        self._shared.total.give(self._held)
        self._body, self._held = b"", 0


class _Streamed:
    """A stream, one of so many at once."""

    def __init__(self, stream: Stream, shared: Shared) -> None:
        shared.streams.take()
        self._stream, self._shared = stream, shared
        self._greenlet = eventlet.getcurrent()
        shared.streaming.add(self._greenlet)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._stream)
        except StopIteration:
            raise
        except Exception:
            LOG.exception("a stream of events ends")
            raise StopIteration from None

    def close(self) -> None:
        self._stream.close()
        if self._greenlet in self._shared.streaming:
            self._shared.streaming.discard(self._greenlet)
            self._shared.streams.give()
