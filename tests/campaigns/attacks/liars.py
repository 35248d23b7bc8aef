"""Attacks by a peer that completes the handshake: as an unknown switch, a disconnected one, or a connected one."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from contextlib import closing

from tests import openflow_writer as writer
from tests.campaigns.attacks import frames, messages, multipart
from tests.campaigns.attacks.line import EmptySwitch, Line, join_as
from tests.campaigns.attacks.messages import message
from tests.campaigns.attacks.mutate import mutated, stream
from tests.campaigns.attacks.piece import MessagePart, join, pack
from tests.campaigns.attacks.rogue import Attack, Rogue
from tests.openflow_writer import MULTIPART_REPLY, MULTIPART_REQUEST

LARGE_BODY = 60_000
REPLIES_AT_ONCE = 10
SMALL_BUFFER = 2048
ASKS_SECONDS = 0.3
"""A switch that has just joined is asked things one after the other; after so long it has been."""

Respond = Callable[[EmptySwitch, bytes], list[bytes]]


def _serve(
    rogue: Rogue,
    line: Line,
    switch: EmptySwitch,
    answer: Respond,
    idle: Callable[[], bytes],
    *,
    patience: float = float("inf"),
) -> None:
    """Answer requests until the connection or the time ends, then close it; send other messages between requests.

    Args:
        rogue: the attack's state.
        line: the connection to the controller.
        switch: the impersonated switch.
        answer: returns the answers to a request.
        idle: returns the bytes to send if no request arrives.
        patience: seconds without a request after which the connection is closed.
    """
    with closing(line):
        _talk(rogue, line, switch, answer, idle, patience)


def _talk(
    rogue: Rogue, line: Line, switch: EmptySwitch, answer: Respond, idle: Callable[[], bytes], patience: float
) -> None:
    asked = time.monotonic()
    while rogue.going and not line.closed and time.monotonic() - asked < patience:
        requests = line.receive(0.01)
        if requests:
            asked = time.monotonic()
        for request in requests:
            for data in answer(switch, request):
                if not line.send(data):
                    return
        if not requests and (data := idle()):
            line.send(data)


def _plain(switch: EmptySwitch, request: bytes) -> list[bytes]:
    return [made.data for made in switch.answers(request)]


def _mutated_messages(rogue: Rogue, *, known: bool) -> None:
    def idle() -> bytes:
        return stream(rogue.rng, [messages.draw(rogue.rng) for _ in range(5)])

    while rogue.going:
        if (joined := rogue.joined(known=known)) is not None:
            line, switch = joined
            _serve(rogue, line, switch, _plain, idle)


def mutated_messages(rogue: Rogue) -> None:
    """Join as an unknown switch, and send mutated messages of every type after the handshake."""
    _mutated_messages(rogue, known=False)


def mutated_messages_known(rogue: Rogue) -> None:
    """Join as a disconnected switch of the fabric, and send mutated messages of every type."""
    _mutated_messages(rogue, known=True)


def valid_messages(rogue: Rogue) -> None:
    """Send valid messages of every type without a request, with wrong transaction ids, some twice."""

    def idle() -> bytes:
        made = messages.draw(rogue.rng).data
        return made * rogue.rng.choice((1, 1, 2))

    while rogue.going:
        if (joined := rogue.joined(known=True)) is not None:
            line, switch = joined
            _serve(rogue, line, switch, _plain, idle)


def wrong_answers(rogue: Rogue) -> None:
    """To each request a mutated answer, one of another type, one with another id, two, or an error."""

    def answer(switch: EmptySwitch, request: bytes) -> list[bytes]:
        xid = struct.unpack_from("!I", request, 4)[0]
        drawn = messages.draw(rogue.rng)
        right = switch.answers(request)
        if request[1] == MULTIPART_REQUEST:
            (kind,) = struct.unpack_from("!H", request, 8)
            right = [message(MULTIPART_REPLY, messages.multipart_reply(rogue.rng, kind, more=False), xid)]
        what = rogue.rng.randrange(6)
        if what == 0:
            return [mutated(rogue.rng, made, drawn) for made in right]
        if what == 1:
            return [drawn.data[:4] + struct.pack("!I", xid) + drawn.data[8:]]
        if what == 2:
            return [made.data[:4] + rogue.rng.randbytes(4) + made.data[8:] for made in right]
        if what == 3:
            return [made.data for made in right] * 2
        if what == 4:
            return [message(writer.ERROR, messages.error(rogue.rng), xid).data]
        return [made.data for made in right]

    while rogue.going:
        if (joined := rogue.joined(known=rogue.rng.random() < 0.7)) is not None:
            line, switch = joined
            _serve(rogue, line, switch, answer, bytes, patience=ASKS_SECONDS)


def _large(rogue: Rogue, kind: int) -> MessagePart:
    """Return a body of nearly the largest message size."""
    if kind in multipart.SINGLE:
        return multipart.body(rogue.rng, kind)
    entry = multipart.body(rogue.rng, kind, entries=8)
    return join([entry] * max(1, LARGE_BODY // max(1, len(entry))))


def endless_replies(rogue: Rogue) -> None:
    """Answer the controller's multipart requests with endless parts that all have the MORE flag."""
    waiting: dict[int, bytes] = {}

    def answer(switch: EmptySwitch, request: bytes) -> list[bytes]:
        if request[1] != MULTIPART_REQUEST:
            return [made.data for made in switch.answers(request)]
        xid, kind = struct.unpack_from("!IH", request, 4)
        body = pack("HH4x", kind, writer.MORE) + _large(rogue, kind)
        waiting[xid] = message(MULTIPART_REPLY, body, xid).data
        return [waiting[xid]]

    while rogue.going:
        waiting.clear()
        line = rogue.line()
        away = rogue.order.away or 0xBAD0
        switch = EmptySwitch(rogue.rng, away, rogue.order.switches.get(away, (1, 2, 3)))
        # Half of them begin with the ports, which Ryu requests in the handshake; the others after the handshake.
        if rogue.rng.random() < 0.5:
            line.send(message(writer.HELLO, MessagePart(), 1).data)
        elif join_as(rogue.rng, line, away, rogue.order.switches.get(away, (1, 2, 3)), settle=0.02) is None:
            continue
        _serve(rogue, line, switch, answer, lambda: b"".join(list(waiting.values()) * REPLIES_AT_ONCE))


def never_reads(rogue: Rogue) -> None:
    """Join as a switch of the fabric, send requests and never read the answers."""
    ask = message(writer.ECHO_REQUEST, MessagePart(bytes(8000)), 7).data
    while rogue.going:
        if (joined := rogue.joined(known=True, receive_buffer=SMALL_BUFFER)) is not None:
            line, _ = joined
            while rogue.going and line.send(ask):
                pass
            line.close()


def duplicate_dpid(rogue: Rogue) -> None:
    """Connect repeatedly with the datapath id of a connected switch."""
    dpid = rogue.order.honest
    while rogue.going:
        line = rogue.line()
        switch = join_as(rogue.rng, line, dpid, rogue.order.switches[dpid])
        if switch is not None:
            _serve(rogue, line, switch, _plain, bytes)
        line.close()
        time.sleep(min(0.05, rogue.left))


def lying_switch(rogue: Rogue) -> None:
    """Join as a disconnected switch of the fabric, report changing and new ports, and never keep rules."""

    def idle() -> bytes:
        number = rogue.rng.choice((*rogue.order.switches.get(rogue.order.away, (1,)), rogue.rng.getrandbits(16)))
        time.sleep(min(0.02, rogue.left))
        return message(writer.PORT_STATUS, messages.port_status(rogue.rng, number), 0).data

    while rogue.going:
        if (joined := rogue.joined(known=True)) is not None:
            line, switch = joined
            _serve(rogue, line, switch, _plain, idle)


def forged_links(rogue: Rogue) -> None:
    """PACKET_INs with forged discovery packets from every switch's ports, and its own packets sent back from others."""
    everywhere = [(dpid, port) for dpid, ports in rogue.order.switches.items() for port in ports]

    def packet_in(frame: bytes) -> bytes:
        return message(writer.PACKET_IN, messages.packet_in_of(rogue.rng, frame, rogue.rng.randint(1, 4)), 0).data

    def idle() -> bytes:
        captured = [bytes.fromhex(text) for text in rogue.order.frames]
        forged = frames.ryu_lldp(rogue.rng.randbytes(6), *rogue.rng.choice(everywhere))
        time.sleep(min(0.005, rogue.left))
        return packet_in(rogue.rng.choice((forged, rogue.rng.choice(captured or [forged]))))

    def answer(switch: EmptySwitch, request: bytes) -> list[bytes]:
        if request[1] == writer.PACKET_OUT and len(request) > 24:
            size = struct.unpack_from("!H", request, 16)[0]
            return [packet_in(request[24 + size :])]
        return [made.data for made in switch.answers(request)]

    while rogue.going:
        if (joined := rogue.joined(known=rogue.rng.random() < 0.5)) is not None:
            line, switch = joined
            _serve(rogue, line, switch, answer, idle)


ATTACKS: dict[str, Attack] = {
    "mutated messages": mutated_messages,
    "mutated messages of a known switch": mutated_messages_known,
    "valid messages that answer nothing": valid_messages,
    "wrong answers": wrong_answers,
    "endless replies": endless_replies,
    "never reads": never_reads,
    "duplicate datapath id": duplicate_dpid,
    "lying switch": lying_switch,
    "forged links of a switch": forged_links,
}
