"""Files, compressed files and archives as ``Source`` s, read as streams: nothing is unpacked to disk or held in memory.

Input from a pipe (``-`` or a FIFO) can be read only once, so it is kept unchanged in a temporary file.
The type of a file is detected from its first bytes, not its name. gzip (RFC 1952) and tar (POSIX ustar and pax, also
within gzip) are read; a member of an archive is read in place, so its name is a label and never a path.
"""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from controller.model.errors import InputError
from controller.workload.importers.base import Source

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAX_LINE = 1 << 20
"""Most characters of a line, unless a format has longer ones."""

STDIN = "-"

MAX_MEMBERS = 100_000
"""Most files in one archive."""

MOST_GROWTH = 300
"""How many times as large as its compressed data a file may be beyond the first ``FREE_GROWTH`` bytes. Logs and traces
shrink to a tenth or a fiftieth; gzip can reach a thousandth, with data that repeat one line."""

FREE_GROWTH = 64 << 20

CHUNK = 1 << 16

OnRead = Callable[[int], None]
"""A function that is called with the number of bytes just read from disk."""

_READS_BEYOND = 8  # at the end of an archive that is whole: one

_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
_USTAR = slice(257, 262)
_FOREIGN = {
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf\x27\x1c": "7-zip",
}


def open_sources(paths: Sequence[str | Path], on_read: OnRead | None = None) -> tuple[Source, ...]:
    """Return the files, and in place of each archive its members; ``-`` is standard input.

    Args:
        paths: the files and archives.
        on_read: called as the sources are read; an archive's table of contents is read here without calls.

    Raises:
        InputError: a file cannot be read, its compression is not supported, or an archive is broken or has
            no files. Errors in a file's content are raised as it is read.
    """
    tell = on_read or _nobody
    return tuple(source for path in paths for source in _sources(Path(path), tell))


def text_source(name: str, text: str) -> Source:
    """Return a source of a text from a request."""
    content = text.encode("utf-8", "surrogatepass")
    return Source(name, lambda: io.BytesIO(content), len(content))


def lines(source: Source, *, limit: int = MAX_LINE, cut: bool = False) -> Iterator[tuple[int, str]]:
    """Yield line numbers from 1 and lines without their ends; bytes that are not UTF-8 become U+FFFD.

    Args:
        source: the source to read.
        limit: most bytes of a line.
        cut: whether a longer line is cut instead of rejected.

    Raises:
        InputError: a line is too long, or the stream is broken.
    """
    number = 0
    with source.open() as stream:
        while line := stream.readline(limit + 1):
            number += 1
            if len(line) > limit and not line.endswith(b"\n"):
                if not cut:
                    raise InputError(
                        f"the line is longer than {limit} bytes", source=source.name, field=f"line {number}"
                    )
                while (rest := stream.readline(CHUNK)) and not rest.endswith(b"\n"):
                    pass
                line = line[:limit]
            if number == 1:
                line = line.removeprefix(_BOM)
            yield number, line.decode("utf-8", "replace").rstrip("\r\n")


def at_line(source: Source, number: int) -> str:
    """Return a place such as ``rank0.log:17``, for notes."""
    return f"{source.name}:{number}"


def _nobody(_count: int) -> None:
    return


def _sources(path: Path, tell: OnRead) -> Iterable[Source]:
    name = str(path)
    kept = None
    try:
        if path.is_dir():
            raise InputError("is a directory; give the files in it", source=name)
        if name == STDIN or path.is_fifo():
            name = "standard input" if name == STDIN else name
            with nullcontext(sys.stdin.buffer) if path == Path(STDIN) else path.open("rb") as pipe:
                kept = _keep(pipe, tell)
            path, tell = Path(kept.file.name), _nobody
        if not path.is_file():
            raise InputError("is not a file" if path.exists() else "no such file", source=name)
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=name) from None
    for magic, kind in _FOREIGN.items():
        if head.startswith(magic):
            raise InputError(
                f"is compressed with {kind}: unpack it first (gzip and tar are read as they are)", source=name
            )
    content = partial(_content, path, head.startswith(_GZIP))
    with _reading(name):
        with content(_nobody) as stream:
            is_tar = stream.read(512)[_USTAR] == b"ustar"
        if is_tar:
            return _members(name, content, size, tell, kept)
    return [Source(name, partial(_opened, name, content, tell, kept), size)]


def _opened(name: str, content: Callable[[OnRead], BinaryIO], tell: OnRead, _kept: _Kept | None) -> BinaryIO:
    """Open a file at its beginning; a pipe's temporary file is kept as long as this function may be called."""
    return _checked(name, lambda: content(tell))


def _keep(stream: BinaryIO, tell: OnRead) -> _Kept:
    """Copy a pipe to a temporary file, since importers read their input several times."""
    kept = _Kept()
    while data := stream.read(CHUNK):
        kept.file.write(data)
        tell(len(data))
    kept.file.flush()
    return kept


class _Kept:
    """A temporary file that is removed with the last source that reads it."""

    def __init__(self) -> None:
        self.file = tempfile.NamedTemporaryFile(prefix="fairspine-import-")  # noqa: SIM115

    def __del__(self) -> None:
        self.file.close()


def _content(path: Path, compressed: bool, tell: OnRead) -> BinaryIO:
    """Open a file at its beginning, uncompressed."""
    file = io.BufferedReader(_Counted(path, tell), CHUNK)
    return _gunzip(file) if compressed else file


def _gunzip(file: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, _Unpacked(file))


class _GrowthError(Exception):
    """Compressed data hold far more than logs and traces do; the text says how much."""


class _Unpacked(gzip.GzipFile):
    """A gzip stream that limits how much it holds, and that also closes the file below it."""

    def __init__(self, file: BinaryIO) -> None:
        self._packed = _Packed(file)
        super().__init__(fileobj=cast(BinaryIO, self._packed), mode="rb")

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        if self.tell() > FREE_GROWTH + MOST_GROWTH * self._packed.count:
            raise _GrowthError(f"{self._packed.count} compressed bytes hold at least {self.tell()}")
        return data

    def close(self) -> None:
        super().close()
        self._packed.file.close()


class _Packed:
    """A compressed file, with the number of bytes that were read."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(size)
        self.count += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        self.count = 0
        return self.file.seek(offset, whence)


class _Counted(io.FileIO):
    """A file that reports the number of bytes read."""

    def __init__(self, path: Path, tell: OnRead) -> None:
        super().__init__(path, "rb")
        self._tell = tell

    def readinto(self, buffer: Buffer) -> int | None:
        count = super().readinto(buffer)
        self._tell(count or 0)
        return count


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Convert the errors of a compressed file or an archive to one kind of error."""
    try:
        yield
    except _GrowthError as error:
        raise InputError(
            f"{error}, and at most {MOST_GROWTH} times as many are accepted, beyond {FREE_GROWTH >> 20} MiB: unpack it",
            source=name,
        ) from None
    except EOFError:
        raise InputError("ends within its compressed data", source=name) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"is damaged: {error}", source=name) from None
    except tarfile.TarError as error:
        raise InputError(f"is not a readable archive: {error}", source=name) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", source=name) from None


class _Checked(io.RawIOBase):
    """A stream whose failures are ``InputError`` s with the source's name, and which is cut after ``left`` bytes."""

    def __init__(self, name: str, inner: BinaryIO, left: int | None, done: Callable[[], None]) -> None:
        super().__init__()
        self._name = name
        self._inner = inner
        self._left = left
        self._done = done

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        want = len(view) if self._left is None else min(len(view), self._left)
        with _reading(self._name):
            data = self._inner.read(want) if want else b""
        if self._left is not None:
            if want and not data:
                raise InputError("ends within this file of the archive", source=self._name)
            self._left -= len(data)
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._done()
        super().close()


def _checked(name: str, start: Callable[[], BinaryIO]) -> BinaryIO:
    with _reading(name):
        inner = start()
    return io.BufferedReader(_Checked(name, inner, None, inner.close), CHUNK)


@dataclass
class _Archive:
    """A reader of archive members in place.

    One stream is kept where the last member ended, because a compressed archive can only be
    read forward: members that are opened in their order, one after the other, cost one pass over the archive.
    """

    start: Callable[[], BinaryIO]
    kept: list[BinaryIO] = field(default_factory=list)
    file: _Kept | None = None

    def open(self, name: str, offset: int, size: int) -> BinaryIO:
        with _reading(name):
            stream = self.kept.pop() if self.kept else self.start()
            if stream.tell() > offset:
                stream.close()
                stream = self.start()
            stream.seek(offset)
        return io.BufferedReader(_Checked(name, stream, size, partial(self._keep, stream)), CHUNK)

    def __del__(self) -> None:
        while self.kept:
            self.kept.pop().close()

    def _keep(self, stream: BinaryIO) -> None:
        while self.kept:
            self.kept.pop().close()
        self.kept.append(stream)


class _Ending:
    """A stream that limits reads beyond its end, which ``tarfile`` does to skip a file of any stated size."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._empty = 0

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._empty = 0 if data else self._empty + 1
        if self._empty > _READS_BEYOND:
            raise tarfile.ReadError("unexpected end of data")
        return data


def _ending(stream: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, _Ending(stream))


def _members(
    name: str, content: Callable[[OnRead], BinaryIO], size: int, tell: OnRead, kept: _Kept | None
) -> list[Source]:
    members: list[tuple[str, int, int]] = []
    with content(_nobody) as stream, tarfile.open(fileobj=_ending(stream), mode="r|") as archive:
        for member in archive:
            # Links and devices hold no trace; a sparse file's data are not in one piece.
            if not member.isreg() or member.issparse() or member.name.rpartition("/")[2].startswith("._"):
                continue
            if len(members) == MAX_MEMBERS:
                raise InputError(f"has more than {MAX_MEMBERS} files", source=name)
            members.append((f"{name}/{member.name}", member.offset_data, member.size))
    if not members:
        raise InputError("is an archive without files", source=name)
    shared = _Archive(lambda: content(tell), file=kept)
    whole = max(1, sum(length for _, _, length in members))
    return [_member(shared, *row, on_disk=size * row[2] // whole) for row in members]


def _member(archive: _Archive, name: str, offset: int, length: int, *, on_disk: int) -> Source:
    def open_member() -> BinaryIO:
        stream = archive.open(name, offset, length)
        compressed = cast(io.BufferedReader, stream).peek(2).startswith(_GZIP)
        return _checked(name, lambda: _gunzip(stream)) if compressed else stream

    return Source(name, open_member, on_disk)
