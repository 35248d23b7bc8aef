"""A PostgreSQL socket that breaks at the worst moment: it carries each connection to a server, and can cut one."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from pathlib import Path
from typing import Literal

SOCKET = ".s.PGSQL.5432"

Moment = Literal["never", "before commit", "after commit"]


class CutWire:
    """Listens in ``folder``. ``cut`` says when to break the next connection that commits: before the server hears of
    it, or once the server has done it, and before the client hears of that.

    The server never learns of it: a connection that was cut lives on there, as it does behind a dead cable.
    """

    def __init__(self, server: Path) -> None:
        """``server``: the folder of the real server's socket."""
        self._server = str(server / SOCKET)
        self._temporary = tempfile.TemporaryDirectory(prefix="fscw")
        self.folder = Path(self._temporary.name)
        self.cut: Moment = "never"
        self.refusing = False
        """Whether what connects is hung up on: set by a cut if ``refuse_after_cut``."""
        self.refuse_after_cut = False
        self._sockets: list[socket.socket] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self.folder / SOCKET))
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End all connections."""
        for end in (self._listening, *self._sockets):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._temporary.cleanup()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                if self.refusing:
                    client.close()
                    continue
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                self._sockets += [client, server]
                threading.Thread(target=self._carry, args=(client, server), daemon=True).start()
                threading.Thread(target=self._answer, args=(client, server), daemon=True).start()

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        """From the client to the server."""
        with contextlib.suppress(OSError):
            while data := client.recv(64 * 1024):
                if b"COMMIT" in data and self.cut == "before commit":
                    self._hang_up(client)
                    return
                server.sendall(data)

    def _answer(self, client: socket.socket, server: socket.socket) -> None:
        """From the server to the client."""
        with contextlib.suppress(OSError):
            while data := server.recv(64 * 1024):
                # The tag of the server's answer to a commit that is done.
                if b"COMMIT\0" in data and self.cut == "after commit":
                    self._hang_up(client)
                    return
                client.sendall(data)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def _hang_up(self, client: socket.socket) -> None:
        self.cut = "never"
        self.refusing = self.refuse_after_cut
        client.shutdown(socket.SHUT_RDWR)
