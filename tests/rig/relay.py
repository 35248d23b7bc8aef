"""A relay of TCP connections from the namespace of a host to a controller, in place of a management network."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

from tests.rig.host_agent import SERVING_PORT, socket_in

PIECE_BYTES = 1 << 16


class Relay:
    """Passes connections to ``127.0.0.1`` in a namespace on to a port here; use it in a ``with`` statement."""

    def __init__(self, namespace: Path, port: int) -> None:
        """Listen; ``port``: where to connect."""
        self._listener, self._port = socket_in(namespace, ("127.0.0.1", SERVING_PORT)), port
        self._ends: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Relay:
        """Start it."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End it with all connections."""
        for each in (self._listener, *self._ends):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._port))
        except OSError:
            client.close()
            return
        with client, server:
            self._ends |= {client, server}
            back = threading.Thread(target=_pass_on, args=(server, client), daemon=True)
            back.start()
            _pass_on(client, server)
            back.join()
            self._ends -= {client, server}


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(PIECE_BYTES):
            sink.sendall(piece)
    # Either direction ends both, as the end of a process does.
    for each in (source, sink):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
