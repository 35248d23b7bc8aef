"""Carries connections from a socket in one place to a TCP address, or a Unix socket, in another one.

So switches in a namespace reach a controller outside (from a Unix socket), and agents in the namespaces of hosts reach
one in that of the lab (from TCP sockets), in place of a management network.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from types import TracebackType

CHUNK_BYTES = 64 * 1024
CONNECT_SECONDS = 5.0

Target = tuple[str, int] | Path
"""A TCP address, or the path of a Unix socket."""


def unix_listener(path: Path) -> socket.socket:
    """Return a Unix socket that listens at a path."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(128)
    return listener


class Relay:
    """Relay that accepts connections and forwards each to ``target`` until either side ends it.

    If the target does not accept connections, incoming ones are closed at once, so that the client tries again.
    """

    def __init__(self, listener: socket.socket, target: Target) -> None:
        """Keep the arguments; the relay closes ``listener`` at its end, with all connections."""
        self._target, self._listener = target, listener
        self._ends: set[socket.socket] = set()

    def __enter__(self) -> Relay:
        """Start a thread that accepts connections."""
        threading.Thread(target=self._accept, name="relay", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop accepting connections, and end those that there are."""
        # Closing alone does not wake a thread that waits in accept().
        for each in (self._listener, *self._ends):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                inner, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(inner,), name="relay connection", daemon=True).start()

    def _carry(self, inner: socket.socket) -> None:
        with inner:
            try:
                outer = _connected(self._target)
            except OSError:
                return
            with outer:
                outer.settimeout(None)
                self._ends |= {inner, outer}
                back = threading.Thread(target=_pump, args=(outer, inner), name="relay back", daemon=True)
                back.start()
                _pump(inner, outer)
                back.join()
                self._ends -= {inner, outer}


def _connected(target: Target) -> socket.socket:
    if not isinstance(target, Path):
        return socket.create_connection(target, timeout=CONNECT_SECONDS)
    outer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        outer.connect(str(target))
    except OSError:
        outer.close()
        raise
    return outer


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while chunk := source.recv(CHUNK_BYTES):
            sink.sendall(chunk)
    except OSError:
        pass
    # Both directions end together, and the other pump's recv() with them.
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
