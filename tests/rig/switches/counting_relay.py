"""Carries OpenFlow connections to a controller, and counts what it sends to switches by type of message."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter

from ryu.ofproto import ofproto_v1_3 as ofp

CHANGES = (ofp.OFPT_FLOW_MOD, ofp.OFPT_GROUP_MOD, ofp.OFPT_METER_MOD, ofp.OFPT_EXPERIMENTER)
"""Bundles of changes are messages of an experimenter."""

_HEAD = 8


class CountingRelay:
    """Listens on a port of the machine; use it in a ``with`` statement."""

    def __init__(self, controller: tuple[str, int]) -> None:
        """Store where the controller listens."""
        self._controller, self._sockets = controller, list[socket.socket]()
        self._counts, self._lock = Counter[int](), threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()

    def __enter__(self) -> CountingRelay:
        """Start it."""
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """End all connections."""
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def changes(self) -> int:
        """How many messages that change rules, groups or meters have been sent so far."""
        with self._lock:
            return sum(self._counts[kind] for kind in CHANGES)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                switch, _ = self._listener.accept()
                try:
                    controller = socket.create_connection(self._controller)
                except OSError:
                    # It does not listen yet; the switch tries again.
                    switch.close()
                    continue
                self._sockets += [switch, controller]
                threading.Thread(target=self._carry, args=(switch, controller, False), daemon=True).start()
                threading.Thread(target=self._carry, args=(controller, switch, True), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:
        left = b""
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if counted:
                    left = self._count(left + data)
                sink.sendall(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _count(self, data: bytes) -> bytes:
        """Count whole messages, and return what is left."""
        while len(data) >= _HEAD and len(data) >= (length := int.from_bytes(data[2:4], "big")):
            with self._lock:
                self._counts[data[1]] += 1
            data = data[length:]
        return data
