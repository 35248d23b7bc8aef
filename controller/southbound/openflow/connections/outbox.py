"""The bytes to be sent to a switch: a bounded queue of whole messages, written together."""

from __future__ import annotations

from collections import deque

from eventlet.event import Event

MOST_BYTES = 1 << 20
"""Most bytes that wait; a sender with more blocks until the switch reads."""

AT_ONCE = 1 << 16
"""Bytes that are written by one call, where so much waits (one message may be as long as this)."""


class Outbox:
    """The messages of one connection that are not sent yet."""

    def __init__(self) -> None:
        """Begin empty and open."""
        self._pieces: deque[bytes] = deque()
        self._bytes = 0
        self._closed = False
        self._last = False
        self._more, self._room = Event(), Event()

    @property
    def closed(self) -> bool:
        """True once nothing more will be sent."""
        return self._closed

    @property
    def waiting(self) -> int:
        """The number of bytes that wait."""
        return self._bytes

    def put(self, data: bytes, *, last: bool = False) -> bool:
        """Append messages, once there is room; blocks the calling greenlet.

        Args:
            data: whole messages.
            last: nothing follows, the connection ends when this is sent.

        Returns:
            whether they will be sent, as far as is known: ``False`` where the connection is closing.
        """
        while self._bytes >= MOST_BYTES and not self._closed:
            self._room.wait()
        return self._add(data, last=last)

    def offer(self, data: bytes, *, ahead: bool = False) -> bool:
        """Append messages if there is room now; never blocks.

        Args:
            data: whole messages.
            ahead: before all that waits.
        """
        return self._bytes < MOST_BYTES and self._add(data, ahead=ahead)

    def take(self) -> tuple[bytes, bool]:
        """Return the bytes to be written next, and whether they are the last; blocks until there are some.

        Nothing and ``True`` once the outbox is closed.
        """
        while not self._pieces and not self._closed:
            self._more.wait()
            if self._more.ready():
                self._more = Event()
        if self._closed:
            return b"", True
        taken: list[bytes] = []
        size = 0
        while self._pieces and (not taken or size + len(self._pieces[0]) <= AT_ONCE):
            taken.append(self._pieces.popleft())
            size += len(taken[-1])
        self._bytes -= size
        if self._bytes < MOST_BYTES:
            self._wake_waiting()
        return b"".join(taken), self._last and not self._pieces

    def close(self) -> None:
        """Discard what waits and send nothing more; wakes greenlets that wait for room."""
        self._closed = True
        self._pieces.clear()
        self._bytes = 0
        self._wake_waiting()
        self._wake_sender()

    def _add(self, data: bytes, *, ahead: bool = False, last: bool = False) -> bool:
        if self._closed or self._last:
            return False
        if ahead:
            self._pieces.appendleft(data)
        else:
            self._pieces.append(data)
        self._bytes += len(data)
        self._last = last
        self._wake_sender()
        return True

    def _wake_sender(self) -> None:
        if not self._more.ready():
            self._more.send(None)

    def _wake_waiting(self) -> None:
        waiting, self._room = self._room, Event()
        if not waiting.ready():
            waiting.send(None)
