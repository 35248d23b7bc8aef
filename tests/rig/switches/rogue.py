"""A switch that misbehaves: a raw connection to a controller, and what happens to the controller meanwhile."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable

from ryu.ofproto import ofproto_v1_3 as ofp

from tests import openflow_writer as writer
from tests.fake_switch import encode
from tests.fake_switch.decode import header
from tests.fake_switch.ports import Port

PATIENCE_SECONDS = 180.0
PAGE = os.sysconf("SC_PAGE_SIZE")


def memory(pid: int) -> int:
    """Bytes of memory that a process has."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * PAGE


def processor_seconds(pid: int) -> float:
    """Processor time that a process has used."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ports(count: int) -> list[Port]:
    return [
        Port(number, f"p{number}", f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}", 10.0)
        for number in range(1, count + 1)
    ]


def packet_in(port: int, frame: bytes) -> bytes:
    return writer.packet_in(frame, writer.in_port_match(port))


class Rogue:
    """One connection, answered as by a switch without rules until it is told to do otherwise.

    Args:
        answers: called with each request but echoes; the bytes that answer it, ``None``: as a switch would.
    """

    def __init__(
        self, address: tuple[str, int], *, dpid: int = 0xBAD, answers: Callable[[bytes], bytes | None] | None = None
    ) -> None:
        self.dpid, self._answers = dpid, answers
        self.socket = socket.create_connection(address, timeout=PATIENCE_SECONDS)
        self.requests: list[int] = []
        self.echoes = 0
        self._sending = threading.Lock()
        self._answering = False
        self._reader: threading.Thread | None = None

    def __enter__(self) -> Rogue:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        if self._reader is not None:
            self._reader.join(PATIENCE_SECONDS)
        self.socket.close()

    def send(self, data: bytes) -> bool:
        """Send; whether the connection still took it."""
        # A lock goes to whoever asks at the right moment: a flood would keep the answers to echo requests waiting.
        while self._answering and threading.current_thread() is not self._reader:
            time.sleep(0.001)
        try:
            with self._sending:
                self.socket.sendall(data)
        except OSError:
            return False
        return True

    def closed_within(self, seconds: float) -> bool:
        """Whether the other side ends the connection in time; what it says before is dropped."""
        deadline = time.monotonic() + seconds
        said = select.poll()  # ``select.select`` takes file descriptors below 1,024 only
        said.register(self.socket, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            ready = said.poll(1000 * left)
            try:
                if ready and not self.socket.recv(64 * 1024):
                    return True
            except ConnectionError:
                return True
        return False

    def greet(self, port_count: int = 3) -> Rogue:
        """Begin the handshake, and answer what is asked from then on."""
        self._ports = ports(port_count)
        self.send(writer.hello())
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def join(self, port_count: int = 3) -> Rogue:
        """``greet``, and wait until the controller has let this switch in."""
        self.greet(port_count)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while ofp.OFPT_BARRIER_REQUEST not in self.requests:
            assert time.monotonic() < deadline, "the controller has not asked for anything"
            time.sleep(0.01)
        return self

    @property
    def ended(self) -> bool:
        """Whether the other side has ended a connection that had joined."""
        return self._reader is not None and not self._reader.is_alive()

    def _read(self) -> None:
        data = bytearray()
        while True:
            try:
                piece = self.socket.recv(64 * 1024)
            except OSError:
                return
            if not piece:
                return
            data += piece
            while len(data) >= 8 and len(data) >= header(bytes(data[:8])).length:
                length = header(bytes(data[:8])).length
                message = bytes(data[:length])
                del data[:length]
                self._answer(message)

    def _answer(self, message: bytes) -> None:
        self._answering = True
        try:
            self._answer_now(message)
        finally:
            self._answering = False

    def _answer_now(self, message: bytes) -> None:
        head = header(message)
        self.requests.append(head.type)
        if head.type == ofp.OFPT_ECHO_REQUEST:
            self.echoes += 1
            self.send(writer.message(ofp.OFPT_ECHO_REPLY, head.xid, message[8:]))
            return
        answer = None if self._answers is None else self._answers(message)
        if answer is None and head.type == ofp.OFPT_FEATURES_REQUEST:
            answer = encode.features(head.xid, self.dpid, 8)
        elif answer is None and head.type == ofp.OFPT_BARRIER_REQUEST:
            answer = writer.message(ofp.OFPT_BARRIER_REPLY, head.xid)
        elif answer is None and head.type == ofp.OFPT_MULTIPART_REQUEST:
            (kind,) = struct.unpack_from("!H", message, 8)
            entries = map(encode.port, self._ports) if kind == ofp.OFPMP_PORT_DESC else ()
            answer = b"".join(writer.multipart(kind, head.xid, entries, part_bytes=32_000))
        if answer:
            self.send(answer)
