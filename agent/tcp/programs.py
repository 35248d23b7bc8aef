"""Questions of programs, which libfairspine-tcp asks when they connect (``tcp/connect.c``).

A question is a message on a Unix socket, ``1 LOCAL PEER PORT`` (the version, the address from which the program
connects, or 0.0.0.0, and where it connects to); the answer is ``PORT SOURCE``, or ``PORT SOURCE PACE`` (bytes of
payload a second), ``0`` if nothing is planned for this connection, or ``! REASON``.
"""

from __future__ import annotations

import logging
import os
import socket
from contextlib import suppress
from ipaddress import IPv4Address
from pathlib import Path

from agent.errors import HostAgentError
from agent.ports.probe_task import MOST_PORT
from agent.tcp.connection_ports import ConnectionPorts, NoPortError

LOG = logging.getLogger("fairspine.agent")

VERSION = "1"
ABSTRACT = "@"
"""The first character of the name of an abstract Unix socket, which has no file (unix(7))."""

_MOST_BYTES = 256
_READ_SECONDS = 0.2


class ProgramServer:
    """Answers programs."""

    def __init__(self, name: str, ports: ConnectionPorts) -> None:
        """Listen.

        Args:
            name: path of the socket, or ``@`` and the name of an abstract one.
            ports: what knows the answers.

        Raises:
            HostAgentError: the socket cannot be used, or another agent has it.
        """
        self._name, self._ports = name, ports
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            if name.startswith(ABSTRACT):
                self.listener.bind(b"\0" + name[1:].encode())
            else:
                self._bind(Path(name))
            self.listener.listen(128)
        except (OSError, ValueError) as error:
            self.listener.close()
            reason = getattr(error, "strerror", None) or str(error)
            raise HostAgentError(f"--tcp {name}: {reason}", exit_code=2) from None

    def _bind(self, path: Path) -> None:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with (
            suppress(ConnectionRefusedError, FileNotFoundError),
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other,
        ):
            other.connect(str(path))
            raise ValueError("another agent has it")
        # An agent that was killed has left it.
        path.unlink(missing_ok=True)
        self.listener.bind(str(path))
        # Programs of all users connect.
        path.chmod(0o666)

    def serve(self) -> None:
        """Answer one question that has arrived; a program that has gone needs none."""
        with suppress(OSError):
            connection, _ = self.listener.accept()
            with connection:
                connection.settimeout(_READ_SECONDS)
                connection.send(self._answer(connection.recv(_MOST_BYTES)).encode())

    def _answer(self, question: bytes) -> str:
        try:
            version, local, peer, port = question.decode().split()
            if version != VERSION:
                return f"! the agent speaks version {VERSION}, and the library version {version}"
            addresses, listening = (IPv4Address(local), IPv4Address(peer)), int(port)
            if not 0 < listening <= MOST_PORT:
                raise ValueError
        except ValueError:
            return "! the agent does not understand the question"
        try:
            chosen = self._ports.port(*addresses, listening)
        except (NoPortError, HostAgentError) as error:
            LOG.warning("%s", error)
            return f"! {error}"
        if chosen is None:
            return "0"
        pace = self._ports.pace(addresses[1])
        return f"{chosen} {self._ports.source}" + ("" if pace is None else f" {pace}")

    def close(self) -> None:
        """Listen no more."""
        self.listener.close()
        if not self._name.startswith(ABSTRACT):
            with suppress(OSError):
                os.unlink(self._name)
