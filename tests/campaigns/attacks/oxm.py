"""Nested structures of OpenFlow 1.3: matches, actions, instructions, buckets, meter bands (1.3.5, section 7.2).

Every function draws one valid structure from a random generator.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.campaigns.attacks.piece import LengthField, MessagePart, counted, join, pack
from tests.openflow_writer import EXPERIMENTER, OPENFLOW_BASIC

NICIRA = 0x00002320
ONF = 0x4F4E4600

OXM_FIELDS: tuple[tuple[int, bool], ...] = (
    *((4, False), (4, False), (8, True), (6, True), (6, True), (2, False), (2, True), (1, False), (1, False)),
    *((1, False), (1, False), (4, True), (4, True), (2, False), (2, False), (2, False), (2, False), (2, False)),
    *((2, False), (1, False), (1, False), (2, False), (4, True), (4, True), (6, True), (6, True), (16, True)),
    *((16, True), (4, True), (1, False), (1, False), (16, False), (6, False), (6, False), (4, False), (1, False)),
    *((1, False), (3, True), (8, True), (2, True)),
)
"""By number of the field (OXM_OF_IN_PORT is 0): bytes of its value, and whether it can be masked (table 12)."""

MOST_FIELDS = 6
MOST_ACTIONS = 4
MOST_INSTRUCTIONS = 3

SPECIAL_PORTS = (0, 1, 2, 0xFFFFFF00, 0xFFFFFFF8, 0xFFFFFFF9, 0xFFFFFFFB, 0xFFFFFFFD, 0xFFFFFFFE, 0xFFFFFFFF)


def port_number(rng: random.Random) -> int:
    """Draw a small port number, a reserved one, or any 32-bit number."""
    return rng.choice((rng.randint(1, 48), rng.choice(SPECIAL_PORTS), rng.getrandbits(32)))


def oxm(rng: random.Random, *, masked: bool | None = None) -> MessagePart:
    """One match field with its header. ``masked``: whether it has a mask; ``None``: drawn."""
    number = rng.randrange(len(OXM_FIELDS))
    size, can = OXM_FIELDS[number]
    mask = can and rng.random() < 0.3 if masked is None else can and masked
    value = rng.randbytes(2 * size if mask else size)
    header = pack("HBB", OPENFLOW_BASIC, number << 1 | mask, len(value))
    return MessagePart(header.data + value, (LengthField(3, 1),))


def match(rng: random.Random) -> MessagePart:
    """``struct ofp_match``, padded to 8 bytes."""
    fields = join(oxm(rng) for _ in range(rng.randint(0, MOST_FIELDS)))
    return counted(pack("H", 1), fields, multiple=8, with_padding=False)


def _output(rng: random.Random) -> MessagePart:
    return pack("IH6x", port_number(rng), rng.getrandbits(16))


def _nothing(rng: random.Random) -> MessagePart:
    return pack("4x")


def _byte(rng: random.Random) -> MessagePart:
    return pack("B3x", rng.getrandbits(8))


def _ethertype(rng: random.Random) -> MessagePart:
    return pack("H2x", rng.choice((0x8100, 0x88A8, 0x8847, 0x8848, 0x88E7)))


def _number(rng: random.Random) -> MessagePart:
    return pack("I", rng.getrandbits(32))


def _field(rng: random.Random) -> MessagePart:
    return oxm(rng, masked=False)


def _experiment(rng: random.Random) -> MessagePart:
    return pack("I", rng.getrandbits(31)) + MessagePart(rng.randbytes(8 * rng.randint(0, 3)))


_ACTIONS: tuple[tuple[int, Callable[[random.Random], MessagePart]], ...] = (
    (0, _output),
    *((number, _nothing) for number in (11, 12, 16, 18, 24, 27)),
    *((number, _byte) for number in (15, 23)),
    *((number, _ethertype) for number in (17, 19, 20, 26)),
    *((number, _number) for number in (21, 22)),
    (25, _field),
    (EXPERIMENTER, _experiment),
)


def action(rng: random.Random) -> MessagePart:
    """One action (section 7.2.5)."""
    number, body = rng.choice(_ACTIONS)
    return counted(pack("H", number), body(rng), multiple=8)


def actions(rng: random.Random) -> MessagePart:
    """Draw a list of actions, which may be empty."""
    return join(action(rng) for _ in range(rng.randint(0, MOST_ACTIONS)))


def instruction(rng: random.Random) -> MessagePart:
    """One instruction (section 7.2.4)."""
    number = rng.randint(1, 6)
    if number == 1:
        body = _byte(rng)
    elif number == 2:
        body = pack("4xQQ", rng.getrandbits(64), rng.getrandbits(64))
    elif number == 6:
        body = _number(rng)
    else:
        body = pack("4x") + actions(rng)
    return counted(pack("H", number), body, multiple=8)


def instructions(rng: random.Random) -> MessagePart:
    """Draw a list of instructions, which may be empty."""
    return join(instruction(rng) for _ in range(rng.randint(0, MOST_INSTRUCTIONS)))


def bucket(rng: random.Random) -> MessagePart:
    """One bucket of a group."""
    head = pack("HII4x", rng.getrandbits(16), port_number(rng), rng.getrandbits(32))
    return counted(MessagePart(), head + actions(rng), multiple=8)


def band(rng: random.Random) -> MessagePart:
    """One band of a meter: drop, DSCP remark, or an experimenter's."""
    number = rng.choice((1, 2, EXPERIMENTER))
    rates = pack("II", rng.getrandbits(32), rng.getrandbits(32))
    last = {1: pack("4x"), 2: pack("B3x", rng.getrandbits(8)), EXPERIMENTER: pack("I", rng.getrandbits(31))}
    return counted(pack("H", number), rates + last[number])
