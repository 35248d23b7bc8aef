"""Attacks by a peer that never becomes a switch: bad first words, connections without end, connections that stall."""

from __future__ import annotations

import resource
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress

from tests import openflow_writer as writer
from tests.campaigns.attacks import messages
from tests.campaigns.attacks.line import Line
from tests.campaigns.attacks.messages import message
from tests.campaigns.attacks.mutate import mutated, outer, stream
from tests.campaigns.attacks.piece import MessagePart, counted, pack
from tests.campaigns.attacks.rogue import Attack, Rogue
from tests.openflow_writer import HELLO, LONGEST

MANY = 1200
"""Connections held at a time: more than the open files (1,024) that the controller may have."""
TLS_RECORD = 1 << 14
SLOW_LINES = 20
STALL_SECONDS = 0.05


def hello_elements(rogue: Rogue) -> None:
    """Send a HELLO whose element has a length of 0, 1, 3, or beyond its end: twelve bytes, before any handshake."""
    while rogue.going:
        kind, length = rogue.rng.choice((1, 2, 0xFFFF)), rogue.rng.choice((0, 0, 1, 3, 7, 9, 0xFFFF))
        line = rogue.line()
        line.send(message(HELLO, pack("HH", kind, length) + MessagePart(bytes(rogue.rng.choice((0, 4, 64)))), 1).data)
        line.receive(0.05)
        line.close()


def first_messages(rogue: Rogue) -> None:
    """Drawn messages, mutated, in place of a HELLO."""
    while rogue.going:
        line = rogue.line()
        line.send(stream(rogue.rng, [messages.draw(rogue.rng) for _ in range(5)]))
        line.receive(0.02)
        line.close()


def other_versions(rogue: Rogue) -> None:
    """Send a HELLO, and then random messages, in unsupported versions of OpenFlow."""
    while rogue.going:
        version = rogue.rng.choice((0, 1, 2, 3, 5, 6, 0x7F, 0xFF))
        line = rogue.line()
        line.send(message(HELLO, MessagePart(), 1, version).data)
        for _ in range(3):
            made = messages.draw(rogue.rng)
            line.send(bytes((version,)) + made.data[1:])
        line.receive(0.02)
        line.close()


def noise(rogue: Rogue) -> None:
    """Send random bytes, and headers with the largest or the smallest length."""
    while rogue.going:
        line = rogue.line()
        line.send(message(HELLO, MessagePart(), 1).data if rogue.rng.random() < 0.5 else b"")
        for _ in range(5):
            length = rogue.rng.choice((0, 1, 7, 8, LONGEST))
            head = bytes((4, rogue.rng.getrandbits(8))) + length.to_bytes(2, "big") + rogue.rng.randbytes(4)
            line.send(rogue.rng.choice((head, b"")) + rogue.rng.randbytes(rogue.rng.choice((1, 100, 70_000))))
        line.receive(0.02)
        line.close()


def huge_messages(rogue: Rogue) -> None:
    """Send messages of 64 KB: of unknown types, and of known types with excess bytes."""
    while rogue.going:
        line = rogue.line()
        line.send(message(HELLO, MessagePart(), 1).data)
        for _ in range(20):
            made = messages.draw(rogue.rng)
            data = outer(made.data + bytes(LONGEST))
            unknown = bytes((4, rogue.rng.randrange(30, 256))) + data[2:]
            if not line.send(rogue.rng.choice((data, unknown))):
                break
        line.close()


def tls_client(rogue: Rogue) -> None:
    """Send a TLS client hello to the plain TCP port, and the bytes that a client sends after it."""
    while rogue.going:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_hostname="controller")
        with suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        line = rogue.line()
        line.send(outgoing.read())
        line.send(b"\x17\x03\x03\x40\x00" + rogue.rng.randbytes(TLS_RECORD))
        line.receive(0.05)
        line.close()


def _beginnings(rogue: Rogue) -> Iterator[bytes]:
    """Yield the bytes that stalled connections send first: none, half a header, a HELLO, half a handshake."""
    hello = message(HELLO, MessagePart(), 1).data
    features = message(writer.FEATURES_REPLY, messages.features_of(rogue.rng.getrandbits(63)), 2).data
    while True:
        yield from (b"", hello[:3], hello, hello + features[:9], hello + features)


def idle_connections(rogue: Rogue) -> None:
    """Keep hundreds of connections open that send nothing, or the start of a message; replace closed ones."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * MANY, 2 * MANY))
    beginnings = _beginnings(rogue)
    held: list[Line] = []
    while rogue.going:
        while rogue.going and len(held) < MANY:
            line = rogue.line()
            line.send(next(beginnings))
            held.append(line)
        for line in held:
            if rogue.going:
                line.receive(0.0)
        held = [line for line in held if not line.closed]
        time.sleep(min(STALL_SECONDS, rogue.left))
    for line in held:
        line.close()


def slow_senders(rogue: Rogue) -> None:
    """Twenty peers that send a byte at a time, of messages that promise 64 KB, or of a handshake."""
    data = message(HELLO, MessagePart(), 1).data + counted(pack("BB", 4, 19), MessagePart(bytes(LONGEST - 4))).data
    lines: list[tuple[Line, int]] = []
    while rogue.going:
        lines += ((rogue.line(), 0) for _ in range(SLOW_LINES - len(lines)))
        lines = [(line, at + 1) for line, at in lines if line.send(data[at % len(data) :][:1])]
        time.sleep(min(STALL_SECONDS, rogue.left))
    for line, _ in lines:
        line.close()


def connection_storm(rogue: Rogue) -> None:
    """Open and close connections as fast as possible, some of them with a complete or partial message."""
    beginnings = _beginnings(rogue)
    while rogue.going:
        line = rogue.line()
        line.send(next(beginnings))
        if rogue.rng.random() < 0.1:
            line.half_close()
            line.receive(0.01)
        line.close()


def half_handshakes(rogue: Rogue) -> None:
    """Send HELLO and the features, and then leave requests unanswered, or half-close the connection."""
    held: list[Line] = []
    while rogue.going:
        line = rogue.line()
        line.send(message(HELLO, MessagePart(), 1).data)
        line.receive(0.02)
        if rogue.rng.random() < 0.5:
            line.send(message(writer.FEATURES_REPLY, messages.features_of(rogue.rng.getrandbits(63)), 2).data)
        if rogue.rng.random() < 0.3:
            line.half_close()
        held.append(line)
        if len(held) > 200:
            held.pop(0).close()
    for line in held:
        line.close()


def unframed(rogue: Rogue) -> None:
    """After a true HELLO, messages that are mutated one by one, answered or not."""
    while rogue.going:
        line = rogue.line()
        line.send(message(HELLO, MessagePart(), 1).data)
        for _ in range(10):
            made, other = messages.draw(rogue.rng), messages.draw(rogue.rng)
            if not line.send(mutated(rogue.rng, made, other)):
                break
        line.receive(0.02)
        line.close()


ATTACKS: dict[str, Attack] = {
    "hello elements": hello_elements,
    "mutated first messages": first_messages,
    "mutated messages before the handshake ends": unframed,
    "other versions": other_versions,
    "noise": noise,
    "huge messages": huge_messages,
    "tls to the plain port": tls_client,
    "idle connections": idle_connections,
    "slow senders": slow_senders,
    "connection storm": connection_storm,
    "half handshakes": half_handshakes,
}
