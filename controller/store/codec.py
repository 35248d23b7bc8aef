"""Encoding of documents and arrays as few bytes, and decoding.

Arrays are kept byte plane by byte plane (all lowest bytes first, and so on), keys as their differences: neighbours are
alike then, and zlib at its fastest makes of a million paths a few bytes each. Nothing is pickled, so a store that
a third party has changed can yield wrong values, but run no code.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import TypeAdapter

from controller.model.fabric import IntArray
from controller.model.priority import JobClass
from controller.model.timing import Schedule
from controller.routing import PreviousPlan

FORMAT = b"fs1"
"""First bytes of all packed data; they end with the version of the format."""

_LENGTHS = struct.Struct("<QQ")
"""Before each section: its length, and its compressed length."""

_SCHEDULE: TypeAdapter[Schedule | None] = TypeAdapter(Schedule | None)
_CLASSES: TypeAdapter[tuple[JobClass, ...]] = TypeAdapter(tuple[JobClass, ...])

_LEVEL = 1
"""zlib's fastest: its default takes twice as long for a twentieth less."""


class DamagedError(ValueError):
    """Bytes that ``pack`` has not made."""


def pack(sections: Iterable[bytes]) -> bytes:
    """Compress several byte strings into one. Holds no lock of the interpreter for long."""
    parts = [FORMAT]
    for section in sections:
        packed = zlib.compress(section, _LEVEL)
        parts += [_LENGTHS.pack(len(section), len(packed)), packed]
    return b"".join(parts)


def unpack(data: bytes, count: int) -> list[bytes]:
    """Return the byte strings that were packed.

    Raises:
        DamagedError: it did not make this of so many sections.
    """
    if not data.startswith(FORMAT):
        raise DamagedError("it does not begin like packed data")
    sections = list(_sections(memoryview(data)[len(FORMAT) :]))
    if len(sections) != count:
        raise DamagedError("the number of its parts is wrong")
    return sections


def _sections(rest: memoryview) -> Iterator[bytes]:
    while rest:
        if len(rest) < _LENGTHS.size:
            raise DamagedError("it ends early")
        length, packed = _LENGTHS.unpack_from(rest)
        rest = rest[_LENGTHS.size :]
        reader = zlib.decompressobj()
        try:
            # The extra byte reveals a wrong length, and memory is bounded by the stated length in any case.
            section = reader.decompress(rest[:packed], length + 1)
        except (zlib.error, OverflowError) as error:
            raise DamagedError(str(error)) from None
        if len(section) != length or not reader.eof or len(rest) < packed:
            raise DamagedError("the length of a part is wrong")
        yield section
        rest = rest[packed:]


def pack_ports(udp_src: IntArray) -> bytes:
    """Encode UDP source ports [F]."""
    return pack([_planes(udp_src, "<i4")])


def unpack_ports(data: bytes) -> IntArray:
    """Decode UDP source ports [F].

    Raises:
        DamagedError: the bytes are not ``pack_ports``'.
    """
    return _array(unpack(data, 1)[0], "<i4").astype(np.int32)


def pack_paths(paths: PreviousPlan) -> bytes:
    """Encode the paths of a plan."""
    chosen = {"classes": [list(row) for row in paths.classes]} if paths.classes else {}
    names = orjson.dumps({"hosts": paths.hosts, "paths": paths.paths, "schedule": paths.schedule} | chosen)
    # Differences wrap around where they must, and adding them up wraps back.
    key = np.diff(paths.key, prepend=np.int64(0))
    return pack([names, _planes(key, "<i8"), _planes(paths.path, "<i4"), _planes(paths.share, "<f8")])


def unpack_paths(data: bytes) -> PreviousPlan:
    """Decode the paths of a plan.

    Raises:
        DamagedError: the bytes are not ``pack_paths``'.
    """
    names, key, path, share = unpack(data, 4)
    try:
        known = orjson.loads(names)
        paths = PreviousPlan(
            tuple(known["hosts"]),
            tuple(known["paths"]),
            np.cumsum(_array(key, "<i8"), dtype=np.int64),
            _array(path, "<i4").astype(np.int32, copy=False),
            _array(share, "<f8").astype(np.float64, copy=False),
            # Records of versions without schedules do not have it.
            _SCHEDULE.validate_python(known.get("schedule")),
            _CLASSES.validate_python(known.get("classes", ())),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(str(error)) from None
    if not len(paths.key) == len(paths.path) == len(paths.share):
        raise DamagedError("the columns of its rows differ in length")
    return paths


def _planes(array: NDArray[Any], kind: str) -> bytes:
    items = np.ascontiguousarray(array, dtype=kind)
    return items.view(np.uint8).reshape(len(items), items.itemsize).T.tobytes()


def _array(planes: bytes, kind: str) -> NDArray[Any]:
    width = np.dtype(kind).itemsize
    if len(planes) % width:
        raise DamagedError("an array ends within an item")
    items = np.frombuffer(planes, dtype=np.uint8).reshape(width, -1).T
    return np.ascontiguousarray(items).view(kind).reshape(-1)
