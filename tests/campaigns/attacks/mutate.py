"""Mutators, which turn valid messages into invalid ones for parser tests. Pure: equal seeds give equal bytes."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

from tests.campaigns.attacks.piece import LengthField, MessagePart
from tests.openflow_writer import HEADER

LENGTH_AT = 2
"""Where a message's own length stands."""


def outer(data: bytes) -> bytes:
    """Return the message with a correct length in its header, so that it is read as one message."""
    if len(data) < HEADER.size:
        data = data.ljust(HEADER.size, b"\0")
    data = data[:0xFFFF]
    return data[:LENGTH_AT] + struct.pack("!H", len(data)) + data[LENGTH_AT + 2 :]


def inner_length(rng: random.Random, made: MessagePart) -> bytes:
    """One length inside the message is 0, 1, odd, one off, far too long, or any."""
    inside = [field for field in made.fields if field.at != LENGTH_AT]
    return _relength(rng, made, rng.choice(inside)) if inside else truncated(rng, made)


def outer_length(rng: random.Random, made: MessagePart) -> bytes:
    """Set a wrong length in the header, so that the following messages are split at wrong places, or never end."""
    return _relength(rng, made, made.fields[0])


def _relength(rng: random.Random, made: MessagePart, field: LengthField) -> bytes:
    now = made.value(field)
    value = rng.choice((0, 0, 1, 3, 4, 7, 8, now - 1, now + 1, now + 8, now - 8, now | 1, 0xFFFF, rng.getrandbits(16)))
    return made.with_value(field, value).data


def truncated(rng: random.Random, made: MessagePart) -> bytes:
    """Cut anywhere behind the header, with a header that agrees."""
    return outer(made.data[: rng.randint(HEADER.size, max(HEADER.size, len(made) - 1))])


def flipped(rng: random.Random, made: MessagePart) -> bytes:
    """Flip some bits outside the header."""
    data = bytearray(made.data)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        if len(data) > HEADER.size:
            data[rng.randrange(HEADER.size, len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def typed(rng: random.Random, made: MessagePart) -> bytes:
    """Set another type in the header, and sometimes another version, so that the body does not match it."""
    version = made.data[0] if rng.random() < 0.7 else rng.getrandbits(8)
    return bytes((version, rng.choice((rng.randrange(36), rng.getrandbits(8))))) + made.data[2:]


def grown(rng: random.Random, made: MessagePart) -> bytes:
    """Bytes too many at the end, up to the longest message there is."""
    extra = rng.choice((1, 7, 8, 64, 4096, 0xFFFF))
    filler = rng.choice((bytes(extra), b"\xff" * extra, rng.randbytes(extra)))
    return outer(made.data + filler)


def spliced(rng: random.Random, made: MessagePart, other: MessagePart) -> bytes:
    """Join the beginning of one message and the end of another."""
    here = rng.randint(HEADER.size, len(made))
    return outer(made.data[:here] + other.data[rng.randint(min(HEADER.size, len(other)), len(other)) :])


def zeroed(rng: random.Random, made: MessagePart) -> bytes:
    """Set a range of bytes to zero, which gives consecutive entries of length 0."""
    at = rng.randint(HEADER.size, len(made))
    size = rng.choice((2, 4, 8, 64, 1024))
    return outer(made.data[:at] + bytes(min(size, max(0, len(made) - at))) + made.data[at + size :])


ONE: tuple[Callable[[random.Random, MessagePart], bytes], ...] = (
    inner_length,
    inner_length,
    inner_length,
    outer_length,
    truncated,
    flipped,
    flipped,
    typed,
    grown,
    zeroed,
)
"""Mutators of one message; the most effective ones are drawn more often."""


def mutated(rng: random.Random, made: MessagePart, other: MessagePart) -> bytes:
    """Apply one mutator to a message; ``other`` is the message to splice it with."""
    if rng.random() < 0.1:
        return spliced(rng, made, other)
    return rng.choice(ONE)(rng, made)


def stream(rng: random.Random, pieces: Sequence[MessagePart]) -> bytes:
    """Return a byte stream of messages: each mutated or unchanged, some repeated, sometimes in random order."""
    parts = []
    for number, made in enumerate(pieces):
        data = mutated(rng, made, pieces[number - 1]) if rng.random() < 0.8 else made.data
        parts += [data] * rng.choice((1, 1, 1, 2, 5))
    if rng.random() < 0.3:
        rng.shuffle(parts)
    return b"".join(parts)
