"""A small mix of malicious HTTP clients, to run beside other attacks; the HTTP interface has separate tests."""

from __future__ import annotations

import socket
import time
from contextlib import suppress

from tests.campaigns.attacks.rogue import Attack, Rogue

SLOW_CLIENTS = 50

HIDDEN = (
    b"GET /healthz HTTP/1.1\r\nHost: localhost\rContent-Length: 4\r\n\r\nAAAA",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/plans/1:rollback HTTP/1.1\r\nHost: rogue.example\r\nOrigin: http://rogue.example\r\n"
    b"Content-Type: text/plain\r\nContent-Length: 0\r\n\r\n",
    b'PUT /v1/mode HTTP/1.1\r\nHost: rogue.example\r\nContent-Length: 15\r\n\r\n{"mode":"ecmp"}',
    b'PUT /v1/jobs/rogue HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000000\r\n\r\n{"flows":[',
    b"PUT /v1/mode HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nContent-Length: 40\r\n\r\n{}{}",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    b"GET /" + b"a" * 60_000 + b" HTTP/1.1\r\n\r\n",
)


def _connected(rogue: Rogue) -> socket.socket | None:
    rogue.connections += 1
    try:
        return socket.create_connection(rogue.order.http, timeout=0.5)
    except OSError:
        rogue.refused += 1
        return None


def http_mix(rogue: Rogue) -> None:
    """Slow requests on fifty connections, and between them hidden headers, foreign origins, and no HTTP at all."""
    slow: list[socket.socket] = []
    while rogue.going:
        if len(slow) < SLOW_CLIENTS and (made := _connected(rogue)) is not None:
            slow.append(made)
        for each in list(slow):
            try:
                each.send(b"G")
                rogue.transcript.sent(0, b"G")
            except OSError:
                slow.remove(each)
                each.close()
        if (one := _connected(rogue)) is not None:
            with one, suppress(OSError):
                data = rogue.rng.choice(HIDDEN)
                one.sendall(data)
                rogue.transcript.sent(1, data)
                one.settimeout(0.05)
                one.recv(4096)
        time.sleep(min(0.01, rogue.left))
    for each in slow:
        each.close()


ATTACKS: dict[str, Attack] = {"http mix": http_mix}
