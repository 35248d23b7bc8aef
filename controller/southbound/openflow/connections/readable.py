"""Reading of a connection without a registration for each wait.

An eventlet socket that has to wait for data registers with the hub, sets a timer for its timeout, and undoes both when
data comes: two system calls and a dozen objects for each message of a few bytes. At every system call, the event loop
may have to wait until a thread gives up the interpreter's lock. So a connection to a switch stays registered.
"""

from __future__ import annotations

from typing import Any

from eventlet import hubs
from eventlet.greenio import GreenSocket
from greenlet import getcurrent


class Reader:
    """Reads one socket, in one greenlet. One with TLS, which may hold bytes that it has read, is read as always."""

    def __init__(self, socket: Any) -> None:
        """Prepare; the first ``read`` registers."""
        self._socket = socket
        self._is_plain = type(socket) is GreenSocket
        self._listener: Any = None
        self._waiting: Any = None

    def read(self, most: int) -> bytes:
        """Return up to so many bytes, as soon as there are some; nothing at the end. Blocks the greenlet.

        Raises:
            OSError: as of ``socket.recv``.
            EOFError: the socket was closed.
        """
        if not self._is_plain:
            return bytes(self._socket.recv(most))
        while True:
            self._wait()
            try:
                return bytes(self._socket.fd.recv(most))
            except BlockingIOError:
                continue

    def close(self) -> None:
        """Undo the registration; called before the socket is closed."""
        listener, self._listener = self._listener, None
        if listener is not None:
            hubs.get_hub().remove(listener)

    def _wait(self) -> None:
        hub = hubs.get_hub()
        self._waiting = greenlet = getcurrent()
        if self._listener is None:
            self._listener = hub.add(hub.READ, self._socket.fileno(), self._ready, greenlet.throw, self._gone)
        try:
            hub.switch()
        finally:
            self._waiting = None

    def _ready(self, _: int) -> None:
        """Wake the greenlet, or, where it is still at work on what it has read, stop being called until it waits."""
        if self._waiting is None:
            self.close()
        else:
            self._waiting.switch()

    def _gone(self) -> None:
        """Forget the registration: the hub has removed it because the file number has been given to another socket."""
        self._listener = None
