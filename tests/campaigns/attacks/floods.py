"""Floods by a switch that has been through the handshake: valid messages as fast as they go."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests import openflow_writer as writer
from tests.campaigns.attacks import frames, messages
from tests.campaigns.attacks.messages import message
from tests.campaigns.attacks.rogue import Attack, Rogue

AT_ONCE = 50
VARIETY = 40
"""Different messages that a flood repeats: they are drawn once, since drawing is slower than sending."""


def _flood(rogue: Rogue, made: Callable[[Rogue], bytes], *, fresh: bool = False) -> None:
    """Send the messages that ``made`` returns; ``fresh``: always new ones."""
    drawn = [made(rogue) for _ in range(VARIETY)]
    while rogue.going:
        if (joined := rogue.joined(known=rogue.rng.random() < 0.5)) is None:
            continue
        line, switch = joined
        while rogue.going and not line.closed:
            burst = [made(rogue) for _ in range(AT_ONCE)] if fresh else rogue.rng.choices(drawn, k=AT_ONCE)
            line.send(b"".join(burst))
            for request in line.receive(0.0):
                for answer in switch.answers(request):
                    line.send(answer.data)
        line.close()


def _drawn(kind: int, rogue: Rogue) -> bytes:
    return messages.draw(rogue.rng, kind).data


def _packet_in(rogue: Rogue) -> bytes:
    """Return a PACKET_IN with ARP of a host at another place or of an unknown host, or with random bytes."""
    me, victims = rogue.order.me, list(rogue.order.victims)
    frame = rogue.rng.choice((frames.forged_arp(rogue.rng, me, victims), frames.random_arp(rogue.rng), b"\0" * 60))
    return message(writer.PACKET_IN, messages.packet_in_of(rogue.rng, frame, rogue.rng.randint(1, 8)), 0).data


def _new_port(rogue: Rogue) -> bytes:
    """Return a PORT_STATUS for a random port number."""
    number = rogue.rng.randint(1, 0xFFFFFEFF)
    return message(writer.PORT_STATUS, messages.port_status(rogue.rng, number), 0).data


ATTACKS: dict[str, Attack] = {
    "flood of packet-ins": partial(_flood, made=_packet_in),
    "flood of ports": partial(_flood, made=_new_port, fresh=True),
    "flood of echo requests": partial(_flood, made=partial(_drawn, writer.ECHO_REQUEST)),
    "flood of errors": partial(_flood, made=partial(_drawn, writer.ERROR)),
    "flood of flow-removed": partial(_flood, made=partial(_drawn, writer.FLOW_REMOVED)),
    "flood of replies": partial(_flood, made=partial(_drawn, writer.MULTIPART_REPLY)),
}
