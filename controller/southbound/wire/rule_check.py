"""Check of the lengths in matches, actions, instructions and buckets (OpenFlow 1.3.5, sections 7.2 and 7.3)."""

from __future__ import annotations

import struct

from controller.southbound.wire.length_check import (
    ANY_EXPERIMENTER,
    Check,
    MalformedError,
    after,
    always,
    anything,
    by_type,
    elements,
    exactly,
    padded_size,
    room,
)

MOST_NESTED = 4
"""Lists of actions inside of actions (Nicira's connection tracking has one)."""

NICIRA, ONF = 0x2320, 0x4F4E4600
OXM_EXPERIMENTER = 0xFFFF
_NICIRA_CT, _CT_ACTIONS_AT = 35, 24

_ONE = struct.Struct("!H")
_TWO = struct.Struct("!HH")
_WORD = struct.Struct("!I")

_OXM_BASIC = 0x8000
OXM_SIZES = (
    4,
    4,
    8,
    6,
    6,
    2,
    2,
    1,
    1,
    1,
    1,
    4,
    4,
    2,
    2,
    2,
    2,
    2,
    2,
    1,
    1,
    2,
    4,
    4,
    6,
    6,
    16,
    16,
    4,
    1,
    1,
    16,
    6,
    6,
    4,
    1,
    1,
    3,
    8,
    2,
)
"""Bytes of each field of the basic class, by number, from OFPXMT_OFB_IN_PORT to OFPXMT_OFB_IPV6_EXTHDR."""


def _oxm(data: bytes, at: int, end: int) -> int:
    """Check one field; return where it ends."""
    room("a match field", 4, at, end)
    (head,) = _WORD.unpack_from(data, at)
    length, masked = head & 0xFF, head >> 8 & 1
    if length > end - at - 4:
        raise MalformedError(f"a match field at byte {at} has length {length}; {end - at - 4} bytes are left")
    kind, number = head >> 16, head >> 9 & 0x7F
    if kind == _OXM_BASIC:
        size = OXM_SIZES[number] if number < len(OXM_SIZES) else 0
        if size and length != size << masked:
            raise MalformedError(f"match field {number} at byte {at} has length {length}, not {size << masked}")
    least = 1
    if kind == OXM_EXPERIMENTER:
        # Its value begins with the experimenter; ONF's field 0 has a type of its own, too.
        is_onf = length >= 4 and not number and _WORD.unpack_from(data, at + 4)[0] == ONF
        least = 7 if is_onf else 5
    if length < least + masked:
        raise MalformedError(f"a match field at byte {at} has length {length}: it has no value")
    return at + 4 + int(length)


def _oxms(data: bytes, at: int, end: int) -> None:
    while at < end:
        at = _oxm(data, at, end)


def match(what: str, rest: Check) -> Check:
    """Return a check for a match (section 7.2.3.1) with its padding, followed by ``rest``."""

    def check_match(data: bytes, at: int, end: int) -> None:
        room(f"the match of {what}", 8, at, end)
        kind, length = _TWO.unpack_from(data, at)
        if kind != 1:
            raise MalformedError(f"the match of {what} is of type {kind}, not OXM")
        if length < 4 or padded_size(length) > end - at:
            raise MalformedError(f"the match of {what} has length {length} instead of 4 to {end - at}")
        _oxms(data, at + 4, at + length)
        rest(data, at + padded_size(length), end)

    return check_match


def _set_field(data: bytes, at: int, end: int) -> None:
    if end - _oxm(data, at + 4, end) > 7:
        raise MalformedError(f"the set-field action at byte {at} is longer than its field")


def _experimenter_action(data: bytes, at: int, end: int, depth: int) -> None:
    if _WORD.unpack_from(data, at + 4)[0] != NICIRA:
        return
    room("a Nicira action", 16, at, end)
    if _ONE.unpack_from(data, at + 8)[0] == _NICIRA_CT:
        room("a connection tracking action", _CT_ACTIONS_AT, at, end)
        if depth == MOST_NESTED:
            raise MalformedError(f"actions are nested more than {MOST_NESTED} deep")
        _ACTIONS[depth + 1](data, at + _CT_ACTIONS_AT, end)


_SHORT, _OUTPUT = exactly("the action", 8), exactly("the output action", 16)


def _actions_at(depth: int) -> Check:
    table: dict[int, Check] = dict.fromkeys((*range(11, 13), *range(15, 25), 26, 27), _SHORT)
    table[0], table[25] = _OUTPUT, _set_field
    table[ANY_EXPERIMENTER] = lambda data, at, end: _experimenter_action(data, at, end, depth)
    return elements("the action", 8, of=by_type(table), aligned=True)


_ACTIONS = [_actions_at(depth) for depth in range(MOST_NESTED + 1)]
ACTIONS = _ACTIONS[0]

_INSTRUCTION_KINDS: dict[int, Check] = {
    1: exactly("the goto-table instruction", 8),
    2: exactly("the write-metadata instruction", 24),
    **dict.fromkeys((3, 4, 5), after("an instruction", 8, ACTIONS)),
    6: exactly("the meter instruction", 8),
    ANY_EXPERIMENTER: anything,
}
INSTRUCTIONS = elements("the instruction", 8, of=by_type(_INSTRUCTION_KINDS), aligned=True)

BUCKETS = elements("the bucket", 16, of=always(after("a bucket", 16, ACTIONS)), typed=False, length_at=0, aligned=True)
