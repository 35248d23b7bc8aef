"""Bodies of OpenFlow 1.3 multipart replies of every type, drawn at random and valid (OpenFlow 1.3.5, 7.3.5)."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.campaigns.attacks.oxm import (
    OXM_FIELDS,
    action,
    band,
    bucket,
    instruction,
    instructions,
    match,
    port_number,
)
from tests.campaigns.attacks.piece import MessagePart, counted, join, pack
from tests.openflow_writer import (
    AGGREGATE,
    DESC,
    EXPERIMENTER,
    FLOW,
    GROUP,
    GROUP_DESC,
    GROUP_FEATURES,
    METER,
    METER_CONFIG,
    METER_FEATURES,
    PORT_DESC,
    PORT_STATS,
    QUEUE,
    TABLE,
    TABLE_FEATURES,
)

Body = Callable[[random.Random], MessagePart]


def text(rng: random.Random, size: int) -> bytes:
    """Text with zeros behind it; sometimes without an end, or no text at all."""
    drawn = rng.random()
    if drawn < 0.1:
        return rng.randbytes(size)
    return b"x" * size if drawn < 0.2 else f"rogue {rng.getrandbits(16)}".encode()[:size].ljust(size, b"\0")


def numbers(rng: random.Random, count: int, bits: int) -> MessagePart:
    """So many counters of 32 or 64 bits."""
    return join(pack("Q" if bits == 64 else "I", rng.getrandbits(bits)) for _ in range(count))


def port(rng: random.Random, number: int | None = None) -> MessagePart:
    """``struct ofp_port``, 64 bytes."""
    told = port_number(rng) if number is None else number
    head = pack("I4x6s2x16s", told, rng.randbytes(6), text(rng, 16))
    return head + pack("II", rng.choice((0, 1, 0x64)), rng.choice((0, 1, 2, 4))) + numbers(rng, 6, 32)


def desc(rng: random.Random) -> MessagePart:
    """Draw a description of a switch."""
    return MessagePart(b"".join(text(rng, size) for size in (256, 256, 256, 32, 256)))


def flow(rng: random.Random) -> MessagePart:
    """Draw an entry of flow statistics."""
    head = pack("BxII", rng.getrandbits(8), rng.getrandbits(32), rng.getrandbits(32))
    head += pack("HHHH4x", *(rng.getrandbits(16) for _ in range(4))) + numbers(rng, 3, 64)
    return counted(MessagePart(), head + match(rng) + instructions(rng))


def aggregate(rng: random.Random) -> MessagePart:
    """Draw aggregate flow statistics."""
    return numbers(rng, 2, 64) + pack("I4x", rng.getrandbits(32))


def table(rng: random.Random) -> MessagePart:
    """Draw an entry of table statistics."""
    return pack("B3xI", rng.getrandbits(8), rng.getrandbits(32)) + numbers(rng, 2, 64)


def port_stats(rng: random.Random) -> MessagePart:
    """Draw an entry of port statistics."""
    return pack("I4x", port_number(rng)) + numbers(rng, 12, 64) + numbers(rng, 2, 32)


def queue(rng: random.Random) -> MessagePart:
    """Draw an entry of queue statistics."""
    return numbers(rng, 2, 32) + numbers(rng, 3, 64) + numbers(rng, 2, 32)


def group(rng: random.Random) -> MessagePart:
    """Draw an entry of group statistics."""
    n = rng.randint(0, 8)
    body = pack("2xII4x", rng.getrandbits(32), rng.getrandbits(32)) + numbers(rng, 2, 64) + numbers(rng, 2, 32)
    return counted(MessagePart(), body + numbers(rng, 2 * n, 64))


def group_desc(rng: random.Random) -> MessagePart:
    """Draw a description of a group."""
    body = pack("BxI", rng.randint(0, 3), rng.getrandbits(32)) + join(bucket(rng) for _ in range(rng.randint(0, 5)))
    return counted(MessagePart(), body)


def group_features(rng: random.Random) -> MessagePart:
    """Draw the group features of a switch."""
    return numbers(rng, 10, 32)


def meter(rng: random.Random) -> MessagePart:
    """Draw an entry of meter statistics."""
    n = rng.randint(0, 4)
    body = pack("6xI", rng.getrandbits(32)) + numbers(rng, 2, 64) + numbers(rng, 2, 32) + numbers(rng, 2 * n, 64)
    return counted(pack("I", rng.getrandbits(32)), body)


def meter_config(rng: random.Random) -> MessagePart:
    """Draw the configuration of a meter."""
    body = pack("HI", rng.getrandbits(4), rng.getrandbits(32)) + join(band(rng) for _ in range(rng.randint(0, 4)))
    return counted(MessagePart(), body)


def meter_features(rng: random.Random) -> MessagePart:
    """Draw the meter features of a switch."""
    return numbers(rng, 3, 32) + pack("BB2x", rng.getrandbits(8), rng.getrandbits(8))


def table_features(rng: random.Random) -> MessagePart:
    """Draw the features of a table."""
    head = pack("B5x32s", rng.getrandbits(8), text(rng, 32)) + numbers(rng, 2, 64) + numbers(rng, 2, 32)
    return counted(MessagePart(), head + join(_property(rng) for _ in range(rng.randint(0, 5))))


def _property(rng: random.Random) -> MessagePart:
    """Draw a property of a table; its length does not include the padding (section 7.3.5.5.2)."""
    number = rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 14, 15, EXPERIMENTER - 1, EXPERIMENTER))
    some = range(rng.randint(0, 5))
    if number < 2:
        body = join(_bare(instruction(rng)) for _ in some)
    elif number < 4:
        body = MessagePart(rng.randbytes(len(some)))
    elif number < 8:
        body = join(_bare(action(rng)) for _ in some)
    elif number < EXPERIMENTER - 1:
        body = join(_oxm_id(rng) for _ in some)
    else:
        body = pack("II", rng.getrandbits(31), rng.getrandbits(32)) + MessagePart(rng.randbytes(4 * len(some)))
    return counted(pack("H", number), body, multiple=8, with_padding=False)


def _bare(whole: MessagePart) -> MessagePart:
    """Return the id of an instruction or action: its type, and a length of 4."""
    return (
        counted(MessagePart(whole.data[:2]), MessagePart())
        if whole.data[:2] != b"\xff\xff"
        else counted(pack("H", 0), MessagePart())
    )


def _oxm_id(rng: random.Random) -> MessagePart:
    number = rng.randrange(len(OXM_FIELDS))
    return pack("HBB", 0x8000, number << 1, OXM_FIELDS[number][0])


def port_desc(rng: random.Random) -> MessagePart:
    """Draw a description of a port."""
    return port(rng)


def experimenter(rng: random.Random) -> MessagePart:
    """Draw an experimenter's multipart body."""
    return pack("II", rng.getrandbits(31), rng.getrandbits(32)) + MessagePart(rng.randbytes(rng.randint(0, 64)))


ENTRY: dict[int, Body] = {
    DESC: desc,
    FLOW: flow,
    AGGREGATE: aggregate,
    TABLE: table,
    PORT_STATS: port_stats,
    QUEUE: queue,
    GROUP: group,
    GROUP_DESC: group_desc,
    GROUP_FEATURES: group_features,
    METER: meter,
    METER_CONFIG: meter_config,
    METER_FEATURES: meter_features,
    TABLE_FEATURES: table_features,
    PORT_DESC: port_desc,
    EXPERIMENTER: experimenter,
}
"""By type: one entry of the body, or the whole body where there is only one."""

SINGLE = frozenset({DESC, AGGREGATE, GROUP_FEATURES, METER_FEATURES, EXPERIMENTER})


def body(rng: random.Random, kind: int, *, entries: int | None = None) -> MessagePart:
    """Draw the body of a reply without the multipart header; ``entries`` is their number where several are possible."""
    if kind in SINGLE:
        return ENTRY[kind](rng)
    count = rng.randint(0, 6) if entries is None else entries
    return join(ENTRY[kind](rng) for _ in range(count))
