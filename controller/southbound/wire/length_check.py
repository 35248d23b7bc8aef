"""The parts that tables of checks are made of: a number of bytes, entries of one size, elements with a length field.

Pure: nothing but bytes and numbers. The time is linear in the number of bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

ANY_EXPERIMENTER = 0xFFFF
"""The type that the standard leaves to experimenters."""

_ONE = struct.Struct("!H")


class MalformedError(ValueError):
    """A length in a message is wrong. The text names it, for people."""


Check = Callable[[bytes, int, int], None]
"""Looks at the bytes from one offset to another.

Raises:
    MalformedError: they are not what they should be.
"""


def padded_size(length: int) -> int:
    """Round a length up to a multiple of 8 bytes."""
    return (length + 7) // 8 * 8


def room(what: str, least: int, at: int, end: int) -> None:
    """Raise ``MalformedError`` where fewer bytes than ``least`` are left."""
    if end - at < least:
        raise MalformedError(f"{what} has {end - at} bytes, at least {least} are needed")


def exactly(what: str, size: int) -> Check:
    """Return a check for exactly ``size`` bytes."""

    def check_size(_data: bytes, at: int, end: int) -> None:
        if end - at != size:
            raise MalformedError(f"{what} has {end - at} bytes, not {size}")

    return check_size


def at_least(what: str, size: int) -> Check:
    """Return a check for at least ``size`` bytes, whose content is not examined."""

    def check_size(_data: bytes, at: int, end: int) -> None:
        room(what, size, at, end)

    return check_size


def entries_of(what: str, size: int) -> Check:
    """Return a check for any number of entries of the same size."""

    def check_sizes(_data: bytes, at: int, end: int) -> None:
        if (end - at) % size:
            raise MalformedError(f"{end - at} bytes are not a whole number of {what}s of {size} bytes")

    return check_sizes


def after(what: str, size: int, rest: Check) -> Check:
    """Return a check for ``size`` bytes followed by ``rest``."""

    def check_both(data: bytes, at: int, end: int) -> None:
        room(what, size, at, end)
        rest(data, at + size, end)

    return check_both


def elements(
    what: str,
    least: int,
    *,
    of: Callable[[int], Check | None],
    typed: bool = True,
    length_at: int = 2,
    aligned: bool = False,
    padded: bool = False,
) -> Check:
    """Return a check for any number of elements that hold their own length.

    Args:
        what: name of an element, for errors.
        least: bytes of the shortest one.
        of: what an element of a type holds, from its first byte on; ``None``: there is no such type.
        typed: whether an element begins with its type.
        length_at: offset of the length in an element.
        aligned: lengths are multiples of 8.
        padded: the next element begins at a multiple of 8 bytes, which the length does not count.
    """

    def check_elements(data: bytes, at: int, end: int) -> None:
        while at < end:
            room(what, least, at, end)
            kind = _ONE.unpack_from(data, at)[0] if typed else 0
            length = _ONE.unpack_from(data, at + length_at)[0]
            if length < least or length > end - at:
                raise MalformedError(f"{what} at byte {at} has length {length} instead of {least} to {end - at}")
            if aligned and length % 8:
                raise MalformedError(f"{what} at byte {at} has length {length}, which is not a multiple of 8")
            inside = of(kind)
            if inside is None:
                raise MalformedError(f"{what} at byte {at} has the unknown type {kind}")
            inside(data, at, at + length)
            at += padded_size(length) if padded else length

    return check_elements


def anything(_data: bytes, _at: int, _end: int) -> None:
    """Accept any bytes."""


def by_type(table: Mapping[int, Check]) -> Callable[[int], Check | None]:
    """Return, for ``elements``, the checks of each type."""
    return table.get


def always(check: Check) -> Callable[[int], Check]:
    """Return, for ``elements``, the same check for all types."""
    return lambda _kind: check
