"""OpenFlow 1.3 messages as a switch can send them, drawn at random and valid: the grammar of the rogue switch.

What is drawn is written here and in the modules beside it, and not by ``tests.openflow_writer``: each part knows where
its length fields are, which is what mutations aim at. Whole messages with fixed contents are the writer's.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tests import openflow_writer as writer
from tests.campaigns.attacks import multipart
from tests.campaigns.attacks.multipart import numbers, port
from tests.campaigns.attacks.oxm import match, port_number
from tests.campaigns.attacks.piece import MessagePart, counted, join, pack
from tests.openflow_writer import (
    ASYNC_REPLY,
    BARRIER_REPLY,
    ECHO_REPLY,
    ECHO_REQUEST,
    ERROR,
    EXPERIMENTER,
    FEATURES_REPLY,
    FLOW_REMOVED,
    GET_CONFIG_REPLY,
    HELLO,
    MORE,
    MULTIPART_REPLY,
    PACKET_IN,
    PORT_STATUS,
    QUEUE_REPLY,
    ROLE_REPLY,
    VENDOR,
    VERSION,
)


def message(kind: int, body: MessagePart, xid: int, version: int = VERSION) -> MessagePart:
    """Return a message with its header (section 7.1)."""
    return counted(pack("BB", version, kind), pack("I", xid) + body)


def hello(rng: random.Random) -> MessagePart:
    """HELLO with elements: version bitmaps, and others that a peer has to ignore (section 7.5.1)."""
    return join(_hello_element(rng) for _ in range(rng.randint(0, 3)))


def _hello_element(rng: random.Random) -> MessagePart:
    kind, words = rng.choice(((1, 1), (1, 2), (rng.randint(2, 9), rng.randint(0, 4))))
    bitmap = (
        pack("I", 1 << VERSION) + MessagePart(bytes(4 * (words - 1)))
        if kind == 1
        else MessagePart(rng.randbytes(4 * words))
    )
    return counted(pack("H", kind), bitmap, multiple=8, with_padding=False)


def error(rng: random.Random) -> MessagePart:
    """Draw the body of an ERROR."""
    data = MessagePart(rng.randbytes(rng.randint(0, 64)))
    if rng.random() < 0.1:
        return pack("HHI", EXPERIMENTER, rng.getrandbits(16), rng.getrandbits(31)) + data
    return pack("HH", rng.randint(0, 13), rng.randint(0, 15)) + data


def echo(rng: random.Random) -> MessagePart:
    """Draw the body of an ECHO_REQUEST or ECHO_REPLY, of 0 to 2000 bytes."""
    return MessagePart(rng.randbytes(rng.choice((0, 1, 8, rng.randint(0, 2000)))))


def vendor(rng: random.Random) -> MessagePart:
    """Draw the body of an EXPERIMENTER message."""
    return pack("II", rng.getrandbits(31), rng.getrandbits(32)) + MessagePart(rng.randbytes(rng.randint(0, 64)))


def features(rng: random.Random) -> MessagePart:
    """Draw the body of a FEATURES_REPLY."""
    return features_of(rng.getrandbits(64), rng.getrandbits(8) if rng.random() < 0.3 else 0)


def features_of(dpid: int, auxiliary: int = 0) -> MessagePart:
    """Return the body of a FEATURES_REPLY with this datapath id."""
    return MessagePart(writer.features(dpid, buffers=256, auxiliary=auxiliary))


def config(rng: random.Random) -> MessagePart:
    """Draw the body of a GET_CONFIG_REPLY."""
    return pack("HH", rng.randint(0, 3), rng.getrandbits(16))


def packet_in(rng: random.Random) -> MessagePart:
    """Draw the body of a PACKET_IN with random bytes as its frame."""
    return packet_in_of(rng, rng.randbytes(rng.randint(0, 200)))


def packet_in_of(rng: random.Random, frame: bytes, in_port: int | None = None) -> MessagePart:
    """Return the body of a PACKET_IN with this frame; ``in_port`` is the reported port, ``None`` a random match."""
    head = pack("IHBBQ", 0xFFFFFFFF, len(frame) & 0xFFFF, rng.randint(0, 2), rng.getrandbits(8), rng.getrandbits(64))
    if in_port is None:
        where = match(rng)
    else:
        where = counted(pack("H", 1), pack("HBBI", 0x8000, 0, 4, in_port), multiple=8, with_padding=False)
    return head + where + pack("2x") + MessagePart(frame)


def flow_removed(rng: random.Random) -> MessagePart:
    """Draw the body of a FLOW_REMOVED."""
    head = pack("QHBB", rng.getrandbits(64), rng.getrandbits(16), rng.randint(0, 3), rng.getrandbits(8))
    rest = pack("HH", rng.getrandbits(16), rng.getrandbits(16)) + numbers(rng, 2, 64)
    return head + numbers(rng, 2, 32) + rest + match(rng)


def port_status(rng: random.Random, number: int | None = None) -> MessagePart:
    """Return the body of a PORT_STATUS: a port was added, removed or changed."""
    return pack("B7x", rng.randint(0, 2)) + port(rng, number)


def multipart_reply(rng: random.Random, kind: int | None = None, *, more: bool | None = None) -> MessagePart:
    """Return the header and body of a multipart reply; type and the MORE flag are drawn unless given."""
    drawn = rng.choice(list(multipart.ENTRY)) if kind is None else kind
    flag = rng.random() < 0.2 if more is None else more
    return pack("HH4x", drawn, MORE if flag else 0) + multipart.body(rng, drawn)


def nothing(rng: random.Random) -> MessagePart:
    """Return an empty body."""
    return MessagePart()


def queues(rng: random.Random) -> MessagePart:
    """Draw the body of a QUEUE_GET_CONFIG_REPLY."""
    return pack("I4x", port_number(rng)) + join(_queue(rng) for _ in range(rng.randint(0, 4)))


def _queue(rng: random.Random) -> MessagePart:
    properties = join(_queue_property(rng) for _ in range(rng.randint(0, 3)))
    return counted(pack("II", rng.getrandbits(32), port_number(rng)), pack("6x") + properties)


def _queue_property(rng: random.Random) -> MessagePart:
    if rng.random() < 0.8:
        return counted(pack("H", rng.randint(1, 2)), pack("4xH6x", rng.getrandbits(16)))
    return counted(pack("H", EXPERIMENTER), pack("4xI4x", rng.getrandbits(31)) + MessagePart(rng.randbytes(8)))


def role(rng: random.Random) -> MessagePart:
    """Draw the body of a ROLE_REPLY."""
    return pack("I4xQ", rng.randint(0, 3), rng.getrandbits(64))


def asynchronous(rng: random.Random) -> MessagePart:
    """Draw the body of a GET_ASYNC_REPLY."""
    return numbers(rng, 6, 32)


BODY: dict[int, Callable[[random.Random], MessagePart]] = {
    HELLO: hello,
    ERROR: error,
    ECHO_REQUEST: echo,
    ECHO_REPLY: echo,
    VENDOR: vendor,
    FEATURES_REPLY: features,
    GET_CONFIG_REPLY: config,
    PACKET_IN: packet_in,
    FLOW_REMOVED: flow_removed,
    PORT_STATUS: port_status,
    MULTIPART_REPLY: multipart_reply,
    BARRIER_REPLY: nothing,
    QUEUE_REPLY: queues,
    ROLE_REPLY: role,
    ASYNC_REPLY: asynchronous,
}
"""Functions that draw a body, by type of the messages that a switch can send."""

HEAVY = (MULTIPART_REPLY, PACKET_IN, PORT_STATUS)
"""Types with more in them, drawn more often."""


def draw(rng: random.Random, kind: int | None = None) -> MessagePart:
    """Draw a complete message; its type is drawn unless given."""
    if kind is None:
        kind = rng.choice((*BODY, *HEAVY, *HEAVY, MULTIPART_REPLY))
    return message(kind, BODY[kind](rng), rng.getrandbits(32))
