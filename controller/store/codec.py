"""Documents and arrays as few bytes, and back.

Arrays are kept byte plane by byte plane (all lowest bytes first, and so on), keys as their differences: neighbours are
alike then, and zlib at its fastest makes of a million paths a few bytes each. Nothing is pickled, so a store that
somebody has tampered with can be wrong, and no worse.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from controller.model.fabric import IntArray
from controller.store.values import KeptPaths

FORMAT = b"fs1"
"""First bytes of everything that is packed. Another way of packing is another number."""

_LENGTHS = struct.Struct("<QQ")
"""Before each section: its length, and how long it is packed."""

_LEVEL = 1
"""zlib's fastest: its default takes twice as long for a twentieth less."""


class DamagedError(ValueError):
    """Bytes that ``pack`` has not made."""


def pack(sections: Iterable[bytes]) -> bytes:
    """Several byte strings as one, compressed. Takes no lock of the interpreter for long."""
    parts = [FORMAT]
    for section in sections:
        packed = zlib.compress(section, _LEVEL)
        parts += [_LENGTHS.pack(len(section), len(packed)), packed]
    return b"".join(parts)


def unpack(data: bytes, count: int) -> list[bytes]:
    """What ``pack`` was given.

    Raises:
        DamagedError: it did not make this of so many sections.
    """
    if not data.startswith(FORMAT):
        raise DamagedError("it begins otherwise than packed data")
    sections = list(_sections(memoryview(data)[len(FORMAT) :]))
    if len(sections) != count:
        raise DamagedError("it holds another number of parts")
    return sections


def _sections(rest: memoryview) -> Iterator[bytes]:
    while rest:
        if len(rest) < _LENGTHS.size:
            raise DamagedError("it ends early")
        length, packed = _LENGTHS.unpack_from(rest)
        rest = rest[_LENGTHS.size :]
        reader = zlib.decompressobj()
        try:
            # One byte more would show that the length is a lie, and no lie makes this use more memory than it says.
            section = reader.decompress(rest[:packed], length + 1)
        except (zlib.error, OverflowError) as error:
            raise DamagedError(str(error)) from None
        if len(section) != length or not reader.eof or len(rest) < packed:
            raise DamagedError("a part has another length than it says")
        yield section
        rest = rest[packed:]


def pack_ports(udp_src: IntArray) -> bytes:
    """UDP source ports [F]."""
    return pack([_planes(udp_src, "<i4")])


def unpack_ports(data: bytes) -> IntArray:
    """The ports again.

    Raises:
        DamagedError: the bytes are not ``pack_ports``'.
    """
    return _array(unpack(data, 1)[0], "<i4").astype(np.int32)


def pack_paths(paths: KeptPaths) -> bytes:
    """The paths of a plan."""
    names = orjson.dumps({"hosts": paths.hosts, "paths": paths.paths})
    # Differences wrap around where they must, and adding them up wraps back.
    key = np.diff(paths.key, prepend=np.int64(0))
    return pack([names, _planes(key, "<i8"), _planes(paths.path, "<i4"), _planes(paths.share, "<f8")])


def unpack_paths(data: bytes) -> KeptPaths:
    """The paths again.

    Raises:
        DamagedError: the bytes are not ``pack_paths``'.
    """
    names, key, path, share = unpack(data, 4)
    try:
        known = orjson.loads(names)
        return KeptPaths(
            tuple(known["hosts"]),
            tuple(known["paths"]),
            np.cumsum(_array(key, "<i8"), dtype=np.int64),
            _array(path, "<i4"),
            _array(share, "<f8"),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(str(error)) from None


def _planes(array: NDArray[Any], kind: str) -> bytes:
    items = np.ascontiguousarray(array, dtype=kind)
    return items.view(np.uint8).reshape(len(items), items.itemsize).T.tobytes()


def _array(planes: bytes, kind: str) -> NDArray[Any]:
    width = np.dtype(kind).itemsize
    if len(planes) % width:
        raise DamagedError("an array has half an item")
    items = np.frombuffer(planes, dtype=np.uint8).reshape(width, -1).T
    return np.ascontiguousarray(items).view(kind).reshape(-1)
