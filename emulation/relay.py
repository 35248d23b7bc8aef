"""Carries connections from a Unix socket to a TCP address: so switches in a namespace reach a controller outside."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from types import TracebackType

CHUNK_BYTES = 64 * 1024
CONNECT_SECONDS = 5.0


class Relay:
    """Relay that listens on ``path`` and forwards each connection to ``target`` until either side ends it.

    If the target does not accept connections, incoming ones are closed at once, so that the client tries again.
    """

    def __init__(self, path: Path, target: tuple[str, int]) -> None:
        """Bind the Unix socket ``path`` and listen on it."""
        self._target = target
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(128)

    def __enter__(self) -> Relay:
        """Start a thread that accepts connections."""
        threading.Thread(target=self._accept, name="relay", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop accepting connections."""
        # Closing alone does not wake a thread that waits in accept().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
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
                outer = socket.create_connection(self._target, timeout=CONNECT_SECONDS)
            except OSError:
                return
            with outer:
                outer.settimeout(None)
                back = threading.Thread(target=_pump, args=(outer, inner), name="relay back", daemon=True)
                back.start()
                _pump(inner, outer)
                back.join()


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
