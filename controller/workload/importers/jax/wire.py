"""Protocol buffers without their schema: the fields of a message by number (protobuf.dev, Encoding).

Profiles hold a few fields of two large schemas (XSpace and HloProto of OpenXLA), which change with every release;
numbers of fields do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_MOST_BYTES = 10


class WireError(ValueError):
    """The bytes are no message."""


class Field(NamedTuple):
    """A field of a message: a number, or bytes (``is_data``); the other one is 0 or empty."""

    tag: int
    number: int
    data: bytes
    is_data: bool


def fields(message: bytes) -> Iterator[Field]:
    """Yield the fields of a message.

    Raises:
        WireError: it is none, or cut.
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        tag, kind = key >> 3, key & 7
        if kind == _VARINT:
            number, at = _varint(message, at)
            yield Field(tag, number, b"", is_data=False)
            continue
        if kind == _BYTES:
            size, at = _varint(message, at)
        elif kind in (_EIGHT, _FOUR):
            size = 8 if kind == _EIGHT else 4
        else:
            raise WireError(f"a field of kind {kind}")
        if size > len(message) - at:
            raise WireError("is cut")
        yield Field(tag, 0, message[at : at + size], is_data=True)
        at += size


def numbers(field: Field) -> list[int]:
    """Return the integers of a repeated field, packed or one by one.

    Raises:
        WireError: they are cut.
    """
    if not field.is_data:
        return [field.number]
    values, at = [], 0
    while at < len(field.data):
        value, at = _varint(field.data, at)
        values.append(value)
    return values


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i in range(_MOST_BYTES):
        if at + i >= len(message):
            raise WireError("is cut")
        byte = message[at + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, at + i + 1
    raise WireError("a number has more than ten bytes")
