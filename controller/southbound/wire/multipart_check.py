"""Check of the lengths in multipart replies (OpenFlow 1.3.5, section 7.3.5)."""

from __future__ import annotations

import struct

from controller.southbound.wire.length_check import (
    ANY_EXPERIMENTER,
    Check,
    MalformedError,
    after,
    always,
    anything,
    at_least,
    by_type,
    elements,
    entries_of,
    exactly,
    room,
)
from controller.southbound.wire.rule_check import BUCKETS, INSTRUCTIONS, OXM_EXPERIMENTER, match

_ONE = struct.Struct("!H")

_BAND = exactly("the meter band", 16)
METER_BANDS = elements("the meter band", 16, of=by_type({1: _BAND, 2: _BAND, ANY_EXPERIMENTER: anything}))

_IDS = after("a table feature", 4, elements("the identifier in a table feature", 4, of=always(anything)))


def _oxm_ids(data: bytes, at: int, end: int) -> None:
    at += 4
    while at < end:
        room("a match field's identifier", 4, at, end)
        size = 8 if _ONE.unpack_from(data, at)[0] == OXM_EXPERIMENTER else 4
        room("a match field's identifier", size, at, end)
        at += size


def _experimenter_feature(_data: bytes, at: int, end: int) -> None:
    if end - at < 12 or (end - at) % 4:
        raise MalformedError(f"an experimenter's table feature at byte {at} has length {end - at}")


_FEATURE_KINDS: dict[int, Check] = {
    **dict.fromkeys((0, 1, 4, 5, 6, 7), _IDS),
    **dict.fromkeys((2, 3), anything),
    **dict.fromkeys((8, 10, 12, 13, 14, 15), _oxm_ids),
    **dict.fromkeys((0xFFFE, 0xFFFF), _experimenter_feature),
}
TABLE_FEATURES = elements("the table feature", 4, of=lambda kind: _FEATURE_KINDS.get(kind, anything), padded=True)

_FLOW = after("a flow entry", 48, match("a flow entry", INSTRUCTIONS))
_GROUP = after("a group", 40, entries_of("bucket counter", 16))
_GROUP_DESC = after("a group", 8, BUCKETS)
_METER = after("a meter", 40, entries_of("band counter", 16))
_METER_CONFIG = after("a meter", 8, METER_BANDS)
_TABLE = after("a table", 64, TABLE_FEATURES)


def _listed(what: str, least: int, inside: Check, length_at: int = 0) -> Check:
    return elements(what, least, of=always(inside), typed=False, length_at=length_at, aligned=True)


MULTIPARTS: dict[int, Check] = {
    0: exactly("the description", 1056),
    1: _listed("the flow entry", 56, _FLOW),
    2: exactly("the aggregate", 24),
    3: entries_of("table", 24),
    4: entries_of("port", 112),
    5: entries_of("queue", 40),
    6: _listed("the group", 40, _GROUP),
    7: _listed("the group", 8, _GROUP_DESC),
    8: exactly("the group features", 40),
    9: _listed("the meter", 40, _METER, length_at=4),
    10: _listed("the meter", 8, _METER_CONFIG),
    11: exactly("the meter features", 16),
    12: _listed("the table", 64, _TABLE),
    13: entries_of("port", 64),
    0xFFFF: at_least("the experimenter's reply", 8),
}
"""By ofp_multipart_type: what follows the 16 bytes of header."""


def multipart(data: bytes, at: int, end: int) -> None:
    """Check a multipart reply from behind its first eight bytes on.

    Raises:
        MalformedError: a length, or the type, is wrong.
    """
    room("a multipart reply", 8, at, end)
    (kind,) = _ONE.unpack_from(data, at)
    body = MULTIPARTS.get(kind)
    if body is None:
        raise MalformedError(f"a multipart reply of the unknown type {kind}")
    body(data, at + 8, end)
