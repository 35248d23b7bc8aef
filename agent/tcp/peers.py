"""Questions between agents: which ports of one host lead what the other one sends back over its path.

An agent answers hosts only to which its plan has connections, by the address from which they ask. A question is one
line of JSON, ``{"listening": 29500, "ports": [50000, 50001]}``, and the answer another one, ``{"port": 50001}``.
"""

from __future__ import annotations

import json
import logging
import socket
import time
from contextlib import suppress
from ipaddress import IPv4Address
from typing import Any

from agent.errors import HostAgentError
from agent.fields import member
from agent.plans.flow_keys import Address
from agent.ports.probe_task import MOST_PORT
from agent.tcp.connection_ports import MOST_ASKED, PEER_SECONDS, ConnectionPorts, NoPortError
from controller.model.errors import InputError

LOG = logging.getLogger("fairspine.agent")

PEER_PORT = 4792
"""TCP port of the agents of TCP programs, on the address of their host."""

_MOST_BYTES = 4096
_READ_SECONDS = 0.3
_LATE_SECONDS = 0.1
"""Of the time of a question, for its way."""


def ask_peer(source: Address, peer: Address, question: dict[str, Any], until: float) -> int | None:
    """Ask the agent of another host; return its port, or ``None`` if none of them is right.

    Args:
        source: address of this host.
        peer: the other one.
        question: as above.
        until: by the monotonic clock.

    Raises:
        HostAgentError: it does not answer.
    """
    seconds = max(until - time.monotonic(), _LATE_SECONDS)
    try:
        with socket.create_connection((str(peer), PEER_PORT), seconds, (str(source), 0)) as connection:
            connection.sendall(json.dumps(question).encode() + b"\n")
            answer = json.loads(_line(connection))
        port: int | None = answer["port"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        reason = getattr(error, "strerror", None) or "it refuses"
        raise HostAgentError(f"the agent of {peer} does not say which ports lead back: {reason}") from None
    if port is not None and port not in question["ports"]:
        raise HostAgentError(f"the agent of {peer} answers with a port that was not asked for")
    return port


class PeerServer:
    """Answers the agents of other hosts, on the address of this one."""

    def __init__(self, ports: ConnectionPorts) -> None:
        """Store what knows the answers; nothing listens yet."""
        self._ports = ports
        self._listener: socket.socket | None = None
        self._at: Address | None = None

    def listen(self) -> socket.socket | None:
        """Return the socket that listens at the address of the host, if that is known and can be used."""
        source = self._ports.source
        if source is None or source == self._at:
            return self._listener
        self.close()
        self._at = source
        try:
            self._listener = socket.create_server((str(source), PEER_PORT))
        except OSError as error:
            LOG.error("%s:%d: %s: agents of other hosts are not answered", source, PEER_PORT, error.strerror)
        return self._listener

    def serve(self) -> None:
        """Answer one question that has arrived; whatever is wrong with it ends with its connection."""
        assert self._listener is not None
        with suppress(OSError):
            connection, address = self._listener.accept()
            with connection:
                answer = self._answer(connection, IPv4Address(address[0]))
                if answer is not None:
                    connection.sendall(json.dumps(answer).encode() + b"\n")

    def _answer(self, connection: socket.socket, peer: Address) -> dict[str, Any] | None:
        until = time.monotonic() + PEER_SECONDS - _LATE_SECONDS
        if not self._ports.answers(peer):
            return None
        connection.settimeout(_READ_SECONDS)
        try:
            question = json.loads(_line(connection))
            listening, ports = _port(question, "listening"), member(question, "", "ports", list)
            if not 0 < len(ports) <= MOST_ASKED or not all(
                type(each) is int and 0 < each <= MOST_PORT for each in ports
            ):
                raise InputError("are no ports", field="ports")
            return {"port": self._ports.for_peer(peer, listening, ports, until)}
        except (ValueError, InputError, NoPortError, HostAgentError) as error:
            LOG.warning("a question of %s cannot be answered: %s", peer, error)
            return None

    def close(self) -> None:
        """Listen no more."""
        if self._listener is not None:
            self._listener.close()
        self._listener = self._at = None


def _port(question: Any, name: str) -> int:
    port = member(question, "", name, int)
    if not 0 < port <= MOST_PORT:
        raise InputError("is no port", field=name, value=port)
    return port


def _line(connection: socket.socket) -> bytes:
    """Read a line.

    Raises:
        ValueError: it does not end in time, or is too long.
    """
    received = bytearray()
    while not received.endswith(b"\n"):
        part = connection.recv(_MOST_BYTES)
        received += part
        if not part or len(received) > _MOST_BYTES:
            raise ValueError("is no line")
    return bytes(received)
