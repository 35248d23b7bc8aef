"""One connection of a rogue switch, and the answers that an ordinary, empty switch would give on it."""

from __future__ import annotations

import random
import socket
import struct
import time

from tests import openflow_writer as writer
from tests.campaigns.attacks import messages, multipart
from tests.campaigns.attacks.messages import message
from tests.campaigns.attacks.piece import MessagePart
from tests.campaigns.attacks.transcript import Transcript

SEND_SECONDS = 0.5
"""Seconds without progress in sending after which a peer is given up."""
JOIN_SECONDS = 2.0
LARGEST_READ = 1 << 16


class Line:
    """A TCP connection to the controller. It raises no connection errors, but becomes ``closed``.

    Args:
        number: number of the connection in the transcript.
        receive_buffer: size in bytes; a small one makes the controller wait.
    """

    def __init__(
        self, address: tuple[str, int], transcript: Transcript, number: int, *, receive_buffer: int | None = None
    ) -> None:
        """Connect to ``address``; on failure the line is ``closed``."""
        self.number, self.closed = number, False
        self._transcript = transcript
        self._rest = b""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(SEND_SECONDS)
        try:
            self._socket.connect(address)
        except OSError:
            self.close()

    def send(self, data: bytes) -> bool:
        """Send bytes; whether all of them went out."""
        if self.closed:
            return False
        try:
            self._socket.sendall(data)
        except OSError:
            self.close()
            return False
        self._transcript.sent(self.number, data)
        return True

    def receive(self, timeout: float) -> list[bytes]:
        """Return the complete messages that arrive within ``timeout`` seconds, as soon as there is any data."""
        if self.closed:
            return []
        try:
            self._socket.settimeout(max(timeout, 0.0001))
            data = self._socket.recv(LARGEST_READ)
            self._socket.settimeout(SEND_SECONDS)
        except TimeoutError:
            return []
        except OSError:
            data = b""
        if not data:
            self.close()
            return []
        found, self._rest = writer.split(self._rest + data)
        return found

    def half_close(self) -> None:
        """Close the sending direction and keep the receiving one open."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()

    def close(self) -> None:
        """Close the connection."""
        self.closed = True
        self._socket.close()


class EmptySwitch:
    """Answers of a switch without rules, sufficient for the controller to admit it.

    Args:
        ports: port numbers of the switch.
    """

    def __init__(self, rng: random.Random, dpid: int, ports: tuple[int, ...]) -> None:
        """Store the datapath id and ports; ``rng`` draws the remaining fields."""
        self._rng, self._dpid, self._ports = rng, dpid, ports

    def answers(self, request: bytes) -> list[MessagePart]:
        """Return the answers to one message of the controller; none if it needs none."""
        kind, xid = request[1], struct.unpack_from("!I", request, 4)[0]
        replies = {
            writer.ECHO_REQUEST: (writer.ECHO_REPLY, MessagePart(request[8:])),
            writer.FEATURES_REQUEST: (writer.FEATURES_REPLY, messages.features_of(self._dpid)),
            writer.GET_CONFIG_REQUEST: (writer.GET_CONFIG_REPLY, MessagePart(writer.config())),
            writer.BARRIER_REQUEST: (writer.BARRIER_REPLY, MessagePart()),
            writer.ROLE_REQUEST: (writer.ROLE_REPLY, MessagePart(request[8:24])),
            writer.ASYNC_REQUEST: (writer.ASYNC_REPLY, MessagePart(bytes(24))),
        }
        if kind == writer.MULTIPART_REQUEST:
            return [message(writer.MULTIPART_REPLY, self.reply(request), xid)]
        return [message(*replies[kind], xid)] if kind in replies else []

    def reply(self, request: bytes) -> MessagePart:
        """Return the multipart header and body that answer a request: no rules, no groups, this switch's ports."""
        (kind,) = struct.unpack_from("!H", request, 8)
        head = MessagePart(writer.multipart_head(kind))
        if kind == writer.PORT_DESC:
            return head + MessagePart(b"".join(map(self._port, self._ports)))
        if kind in multipart.SINGLE:
            return head + multipart.body(self._rng, kind)
        return head

    def _port(self, number: int) -> bytes:
        mac, name = self._rng.randbytes(6), f"eth{number}".encode()
        return writer.port(number, mac, name, state=4, features=0x2840, kbps=10_000_000)


def join_as(
    rng: random.Random, line: Line, dpid: int, ports: tuple[int, ...], *, settle: float = 0.1
) -> EmptySwitch | None:
    """Complete the handshake, and answer requests for ``settle`` seconds more after the port description.

    Returns:
        The switch that answers further requests; ``None`` if the connection was closed.
    """
    switch = EmptySwitch(rng, dpid, ports)
    line.send(message(writer.HELLO, MessagePart(), 1).data)
    until = time.monotonic() + JOIN_SECONDS
    asked = False
    while not line.closed and (left := until - time.monotonic()) > 0:
        for request in line.receive(left):
            for answer in switch.answers(request):
                line.send(answer.data)
            if request[1] == writer.MULTIPART_REQUEST and not asked:
                asked, until = True, time.monotonic() + settle
    return None if line.closed else switch
