"""Bytes of a message that know where their length fields are, so that a mutator can aim at them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

_FORMATS = {1: "!B", 2: "!H"}


@dataclass(frozen=True, slots=True)
class LengthField:
    """A length or count: where it begins in the bytes, and how many bytes it has (1 or 2)."""

    at: int
    size: int


@dataclass(frozen=True, slots=True)
class MessagePart:
    """A part of a message, or a whole one. ``+`` joins two; the fields' places move along."""

    data: bytes = b""
    fields: tuple[LengthField, ...] = ()

    def __add__(self, other: MessagePart) -> MessagePart:
        """Concatenate two parts, with the length fields of both."""
        moved = tuple(LengthField(field.at + len(self.data), field.size) for field in other.fields)
        return MessagePart(self.data + other.data, self.fields + moved)

    def __len__(self) -> int:
        """Return the size in bytes."""
        return len(self.data)

    def value(self, field: LengthField) -> int:
        """Return the value of a length field."""
        (value,) = struct.unpack_from(_FORMATS[field.size], self.data, field.at)
        return int(value)

    def with_value(self, field: LengthField, value: int) -> MessagePart:
        """Return the part with another value in a field; only the lowest bits that fit are used."""
        put = struct.pack(_FORMATS[field.size], value & ((1 << 8 * field.size) - 1))
        return MessagePart(self.data[: field.at] + put + self.data[field.at + field.size :], self.fields)


def pack(layout: str, *values: object) -> MessagePart:
    """Plain values in network byte order, as ``struct.pack`` does it."""
    return MessagePart(struct.pack("!" + layout, *values))


def join(pieces: Iterable[MessagePart]) -> MessagePart:
    """All of them, one after the other."""
    data = bytearray()
    fields: list[LengthField] = []
    for piece in pieces:
        fields += (LengthField(field.at + len(data), field.size) for field in piece.fields)
        data += piece.data
    return MessagePart(bytes(data), tuple(fields))


def counted(
    before: MessagePart, after: MessagePart, *, multiple: int = 1, with_padding: bool = True, size: int = 2
) -> MessagePart:
    """Return a structure that contains its length: ``before``, the length, ``after`` and padding with zeros.

    Args:
        before: the bytes before the length.
        after: the bytes after the length.
        multiple: the size is padded to a multiple of this number of bytes.
        with_padding: whether the length includes the padding.
        size: size of the length field in bytes.
    """
    length = len(before) + size + len(after)
    padding = -length % multiple
    told = length + padding if with_padding else length
    field = MessagePart(struct.pack(_FORMATS[size], told), (LengthField(0, size),))
    return join((before, field, after, MessagePart(bytes(padding))))
