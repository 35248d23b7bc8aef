"""Response bodies that count in a budget while they are sent."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

from controller.rest.events import EventStream
from controller.rest.serving.budget import Budget, Share
from controller.rest.serving.framing import PIECE_BYTES
from controller.rest.serving.relayed_stream import RelayedStream

LOG = logging.getLogger(__name__)


class Paced:
    """A large body in pieces. An error, such as a client that takes too long, makes eventlet end the connection."""

    def __init__(self, body: bytes, share: Share, seconds: float, yield_turn: Callable[[], None]) -> None:
        """Take memory for the body. ``yield_turn`` is called between pieces.

        Raises:
            ProblemError: 503, too much is in use.
        """
        self._body, self._share, self._held = body, share, len(body)
        share.room.bytes.take(self._held, who=share.who, alone=True)
        self._deadline, self._yield_turn = time.monotonic() + seconds, yield_turn

    def __iter__(self) -> Iterator[bytes]:
        """Yield the body in pieces of ``PIECE_BYTES``; raise ``TimeoutError`` past the deadline."""
        for start in range(0, len(self._body), PIECE_BYTES):
            if time.monotonic() > self._deadline:
                raise TimeoutError("the response was not received in time")
            yield self._body[start : start + PIECE_BYTES]
            self._yield_turn()

    def close(self) -> None:
        """Give the memory back."""
        self._share.room.bytes.give(self._held, who=self._share.who)
        self._body, self._held = b"", 0


class Streamed:
    """An event stream, of this controller or of the leader; one of a limited number until it is closed."""

    def __init__(self, stream: EventStream | RelayedStream, streams: Budget, who: str) -> None:
        """Take a place for the stream, or close it.

        Raises:
            ProblemError: 503, too many streams are open.
        """
        self._stream, self._streams, self._who, self._held = stream, streams, who, 1
        try:
            streams.take(who=who)
        except Exception:
            stream.close()
            raise

    def __iter__(self) -> Iterator[bytes]:
        """Yield the pieces of the stream; log an exception and end."""
        try:
            yield from self._stream
        except Exception:
            LOG.exception("event stream failed")

    def close(self) -> None:
        """Close the stream and give its place back."""
        self._stream.close()
        self._streams.give(self._held, who=self._who)
        self._held = 0
