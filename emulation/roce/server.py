"""The measuring server: takes writes from any number of clients and checks every message.

Queue pair numbers, first PSNs, keys and sizes are exchanged over a TCP connection beside the data, as the programs of
perftest do (``ib_write_bw``, also TCP port 18515): RDMA needs something of that kind before the first packet. One JSON
object a line, ``{"error": reason}`` where something is wrong:

* client: ``{"mtu", "memory", "writes": [[va, length, crc32]...], "qps": [{"qp", "psn"}...]}``
* server: ``{"qps": [{"qp", "rkey"}...]}``; then the data goes
* client: ``{"end": true}``; server: its counters
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any
from zlib import crc32

from controller.model.errors import InputError
from controller.model.packets.port_numbers import ROCE_PORT
from emulation.roce.lines import LineBuffer, LineError, to_line
from emulation.roce.receiver import Receiver
from emulation.roce.udp import UdpEndpoint
from emulation.roce.wire import PATH_MTUS

CONTROL_PORT = 18515
MAX_MEMORY = 1 << 28
MAX_QUEUE_PAIRS = 1024
_FIRST_QP = 0x100
_SEND_SECONDS = 5.0


class RoceServer:
    """Listens on ``ip``; ``serve`` blocks until ``until()`` holds.

    Args:
        opened: gets each client's address and how many queue pairs it has opened.
        report: gets one result a client.

    Raises:
        InputError: the address or a port cannot be used.
    """

    def __init__(
        self,
        ip: str,
        *,
        control_port: int = CONTROL_PORT,
        port: int = ROCE_PORT,
        opened: Callable[[str, int], None] = lambda client, queue_pairs: None,
        report: Callable[[dict[str, Any]], None] = lambda result: None,
    ) -> None:
        """Listen on the control port; ``opened`` and ``report`` are called at the start and end of a session."""
        self.reported = 0
        self.opened = opened
        self._report = report
        self.endpoint = UdpEndpoint(ip, port=port, failed=self._on_failure)
        self._clients: set[_Session] = set()
        self._sessions: dict[int, _Session] = {}
        self._next_qp = _FIRST_QP
        self._listener = socket.socket()
        try:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind((ip, control_port))
            self._listener.listen()
        except OSError as error:
            self.close()
            reason = f"cannot listen for clients: {error.strerror}"
            raise InputError(reason, value=f"{ip}:{control_port}") from error
        self.endpoint.loop.watch(self._listener, self._on_client)

    def __enter__(self) -> RoceServer:
        """Return the server."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the server."""
        self.close()

    def close(self) -> None:
        """Close all connections and sockets."""
        for session in self._clients:
            session.connection.close()
        self._listener.close()
        self.endpoint.close()

    def serve(self, until: Callable[[], bool] = lambda: False) -> None:
        """Serve clients until ``until`` returns true."""
        self.endpoint.loop.run(until)

    def open_queue_pair(self, session: _Session, receiver: Receiver, peer_ip: str) -> int:
        """Add a receiver of a session, and return its queue pair number."""
        qp = self._next_qp
        self._next_qp += 1
        self.endpoint.add_receiver(qp, receiver, (peer_ip,), session.on_arrival)
        self._sessions[qp] = session
        return qp

    def close_queue_pair(self, qp: int) -> None:
        """Remove a queue pair."""
        self.endpoint.remove_receiver(qp)
        del self._sessions[qp]

    def _on_client(self) -> None:
        connection, (peer_ip, _) = self._listener.accept()
        connection.settimeout(_SEND_SECONDS)
        session = _Session(self, connection, peer_ip)
        self._clients.add(session)
        self.endpoint.loop.watch(connection, session.on_readable)

    def finished(self, result: dict[str, Any]) -> None:
        """Count and report the result of a session."""
        self.reported += 1
        self._report(result)

    def forget(self, session: _Session) -> None:
        """Remove a session and close its connection."""
        self._clients.discard(session)
        self.endpoint.loop.unwatch(session.connection)
        session.connection.close()

    def _on_failure(self, qp: int, reason: str) -> None:
        self._sessions[qp].fail(f"queue pair {qp} {reason}")


class _Session:
    """One client."""

    def __init__(self, server: RoceServer, connection: socket.socket, peer_ip: str) -> None:
        self.connection = connection
        self._server = server
        self._peer_ip = peer_ip
        self._lines = LineBuffer()
        self._memory = memoryview(b"")
        self._expected: dict[tuple[int, int], int] = {}
        self._receivers: dict[int, Receiver] = {}
        self._broken = 0
        self._closed = False
        self._opened_at = self._last_at = 0.0

    def on_readable(self) -> None:
        if self._closed:  # by a packet of the same round of events
            return
        try:
            data = self.connection.recv(64 * 1024)
            requests = self._lines.feed(data)
        except (OSError, LineError) as error:
            self.fail(str(error))
            return
        if not data:
            if self._receivers:
                self.fail("the client closed the connection")
            else:
                self._close()  # somebody only looked whether the port is open
            return
        for request in requests:
            if request.get("end"):
                self._finish()
                return
            try:
                self._open(request)
            except InputError as error:
                self.fail(str(error))
                return

    def on_arrival(self, va: int, length: int) -> None:
        self._last_at = time.monotonic()
        if crc32(self._memory[va : va + length]) != self._expected.get((va, length)):
            self._broken += 1

    def fail(self, reason: str) -> None:
        self._tell({"error": reason})
        self._server.finished({"client": self._peer_ip, "error": reason})
        self._close()

    def _open(self, request: dict[str, Any]) -> None:
        memory, mtu, queue_pairs, writes = (request.get(key) for key in ("memory", "mtu", "qps", "writes"))
        if not isinstance(memory, int) or not 0 <= memory <= MAX_MEMORY:
            raise InputError(f"at most {MAX_MEMORY} bytes of memory are allowed", field="memory", value=memory)
        if mtu not in PATH_MTUS:
            raise InputError("not a path MTU of InfiniBand", field="mtu", value=mtu)
        if self._receivers or not isinstance(queue_pairs, list) or not 0 < len(queue_pairs) <= MAX_QUEUE_PAIRS:
            raise InputError(f"1 to {MAX_QUEUE_PAIRS} queue pairs, opened once", field="qps")
        try:
            self._expected = {(int(va), int(length)): int(crc) for va, length, crc in writes or ()}
            peers = [(int(row["qp"]), int(row["psn"])) for row in queue_pairs]
        except (TypeError, ValueError, KeyError) as error:
            raise InputError(f"not understood: {error!r}", field="qps") from error
        self._memory = memoryview(bytearray(memory))
        answer = []
        for peer_qp, psn in peers:
            rkey = secrets.randbits(32)
            receiver = Receiver(peer_qp, self._memory, rkey, mtu=mtu, first_psn=psn & 0xFFFFFF)
            qp = self._server.open_queue_pair(self, receiver, self._peer_ip)
            self._receivers[qp] = receiver
            answer.append({"qp": qp, "rkey": rkey})
        self._opened_at = self._last_at = time.monotonic()
        self._tell({"qps": answer})
        self._server.opened(self._peer_ip, len(answer))

    def _finish(self) -> None:
        rows = [asdict(receiver.counters) for receiver in self._receivers.values()]
        result: dict[str, Any] = {key: sum(row[key] for row in rows) for key in (rows[0] if rows else ())}
        result["client"] = self._peer_ip
        result["intact"] = self._broken == 0
        result["seconds"] = self._last_at - self._opened_at
        result["refused_datagrams"] = self._server.endpoint.counters.refused
        self._tell(result)
        self._server.finished(result)
        self._close()

    def _tell(self, value: dict[str, Any]) -> None:
        with suppress(OSError):  # a client that is gone says so by its end of the connection
            self.connection.sendall(to_line(value))

    def _close(self) -> None:
        self._closed = True
        for qp in self._receivers:
            self._server.close_queue_pair(qp)
        self._server.forget(self)
