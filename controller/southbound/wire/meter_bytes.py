"""Meters as the bytes of OpenFlow 1.3 messages. Section numbers are those of OpenFlow 1.3.5."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from controller.southbound.forwarding.leaf_guards import METER_BASE, METER_MASK, METERS, Meter
from controller.southbound.wire.rule_bytes import Template, template
from controller.southbound.wire.rule_reading import entries

METER_MOD, METER_CONFIG, METER_FEATURES = 29, 10, 11
ADD, MODIFY = 0, 1
PACKETS, BURST = 2, 4
"""Flags of a meter: its rate is in packets a second; its burst counts."""
DROP = 1
_MOD = struct.Struct("!HHI")
_BAND = struct.Struct("!HHII4x")
_CONFIG = struct.Struct("!HHI")
_FEATURES = struct.Struct("!IIIBB2x")
_BODY = 16


def put_meter(meter: Meter, *, replaces: bool) -> Template:
    """Return the message that makes a meter, or gives the one that has its id this content (section 7.3.4.4)."""
    band = _BAND.pack(DROP, _BAND.size, meter.per_second, meter.burst)
    return template(METER_MOD, _MOD.pack(MODIFY if replaces else ADD, PACKETS | BURST, meter.id) + band)


def can_count_packets(parts: Iterable[bytes]) -> bool:
    """Return whether a switch has enough meters that drop by packets a second (section 7.3.5.14).

    Raises:
        ValueError: these are no meter features.
    """
    whole = list(parts)
    if len(whole) != 1 or len(whole[0]) != _BODY + _FEATURES.size or whole[0][8:10] != b"\0\x0b":
        raise ValueError("no meter features")
    most, bands, can, bands_each, _ = _FEATURES.unpack_from(whole[0], _BODY)
    return bool(most >= len(METERS) and bands & 1 << DROP and can & PACKETS and can & BURST and bands_each)


def ours(parts: Iterable[bytes]) -> dict[int, Meter | None]:
    """Return the meters in our range, by id, of a reply with meter configurations (section 7.3.5.13).

    ``None`` stands for a meter in a form that the controller never writes.

    Raises:
        ValueError: the bytes are no such reply.
    """
    meters: dict[int, Meter | None] = {}
    for part in parts:
        for at, end in entries(part, METER_CONFIG, _CONFIG.size):
            _, flags, number = _CONFIG.unpack_from(part, at)
            if number & METER_MASK != METER_BASE:
                continue
            meters[number] = None
            if end - at == _CONFIG.size + _BAND.size and flags & ~8 == PACKETS | BURST:
                kind, _, rate, burst = _BAND.unpack_from(part, at + _CONFIG.size)
                meters[number] = Meter(number, rate, burst) if kind == DROP else None
    return meters
