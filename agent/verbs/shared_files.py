"""Files that processes map: made once, and used by each agent after the one that made them."""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from pathlib import Path
from typing import NamedTuple

from agent.errors import HostAgentError
from agent.verbs.layout import HEADER, LAYOUT_VERSION, FileState, offset_of, packing

_LOCK = struct.Struct("hh4xqqi4x")
"""``struct flock`` of Linux on machines of 64 bits."""
_F_OFD_GETLK, _F_OFD_SETLK = 36, 37
_HEAD, _START = struct.Struct("<QII"), struct.Struct("<QIIII")
"""Magic, version and state, which all versions of a layout have; and these with the rows and the bytes of one."""


class RowKind(NamedTuple):
    """The rows of a file: how many, the bytes of each, and how many times the file has room for so many."""

    magic: int
    capacity: int
    row_bytes: int
    copies: int = 1


class SharedFile:
    """A file of a header, and of rows of equal size."""

    def __init__(self, path: Path, mode: int, kind: RowKind) -> None:
        """Open the file, or make it, in place of one that cannot be used.

        Args:
            path: of the file.
            mode: its permissions.
            kind: what the file has.

        Raises:
            HostAgentError: it cannot be made or written.
        """
        self._bytes = packing(HEADER).size + kind.copies * kind.capacity * kind.row_bytes
        self._start = _START.pack(kind.magic, LAYOUT_VERSION, FileState.IN_USE, kind.capacity, kind.row_bytes)
        try:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            file = _opened(path)
            if file is not None and not self._fits(file):
                _retire(file, kind.magic)
                os.close(file)
                file = None
            if file is None:
                file = self._made(path, mode)
            self.file = file
            self.map = mmap.mmap(file, self._bytes)
        except OSError as error:
            raise HostAgentError(f"--verbs {path}: {error.strerror}", exit_code=2) from None
        # Words that other processes read are written at once, each by one instruction.
        self._words = memoryview(self.map).cast("Q")

    def word(self, name: str, n: int = 0) -> int:
        """Return a field of 64 bits of the header."""
        value: int = self._words[offset_of(HEADER, name) // 8 + n]
        return value

    def set_word(self, name: str, value: int, n: int = 0) -> None:
        """Set a field of 64 bits of the header."""
        self._words[offset_of(HEADER, name) // 8 + n] = value

    def close(self) -> None:
        """Close the file, which stays."""
        self._words.release()
        self.map.close()
        os.close(self.file)

    def _fits(self, file: int) -> bool:
        return os.fstat(file).st_size == self._bytes and os.pread(file, _START.size, 0) == self._start

    def _made(self, path: Path, mode: int) -> int:
        new = path.with_name(f".{path.name}.{os.getpid()}")
        file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        # Whatever the umask says: programs of other users read it.
        os.fchmod(file, mode)
        os.ftruncate(file, self._bytes)
        os.pwrite(file, self._start, 0)
        os.rename(new, path)
        return file


def lock(file: int, at: int) -> bool:
    """Lock a byte until the file is closed; return whether nobody else has the lock."""
    try:
        fcntl.fcntl(file, _F_OFD_SETLK, _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, at, 1, 0))
    except BlockingIOError:
        return False
    return True


def is_locked(file: int, at: int) -> bool:
    """Return whether another process has locked a byte."""
    answer = fcntl.fcntl(file, _F_OFD_GETLK, _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, at, 1, 0))
    kind: int = _LOCK.unpack(answer)[0]
    return kind != fcntl.F_UNLCK


def _opened(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None


def _retire(file: int, magic: int) -> None:
    """Tell processes that use a file that there is another one now."""
    start = os.pread(file, _HEAD.size, 0)
    if len(start) == _HEAD.size and _HEAD.unpack(start)[0] == magic:
        os.pwrite(file, struct.pack("<I", FileState.RETIRED), _HEAD.size - 4)
