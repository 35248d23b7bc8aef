"""The beginning of a file, from which formats recognise their files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from controller.workload.importers.base import Source

SIZE = 1 << 17
"""Bytes that are read."""

UTF16 = "is UTF-16 text: convert it to UTF-8 (iconv -f utf-16 -t utf-8)"
"""Why a file cannot be read."""

_BOM = b"\xef\xbb\xbf"
_KEY = re.compile(r'"([^"\\]{1,80})"\s*:')


@dataclass(frozen=True)
class Head:
    """The first ``SIZE`` bytes of a file, uncompressed."""

    name: str
    data: bytes

    @property
    def file(self) -> str:
        """The name without folders."""
        return self.name.replace("\\", "/").rpartition("/")[2]

    @cached_property
    def is_text(self) -> bool:
        """Whether the data can be text: it has no zero byte."""
        return bool(self.data) and b"\0" not in self.data

    @cached_property
    def is_utf16(self) -> bool:
        """Whether the data are text in UTF-16 that begins with ASCII, as PowerShell writes it."""
        begin = self.data.removeprefix(b"\xff\xfe").removeprefix(b"\xfe\xff")[:64]
        begin = begin[: len(begin) // 2 * 2]
        zeros, letters = (begin[1::2], begin[::2]) if begin[1:2] == b"\0" else (begin[::2], begin[1::2])
        is_ascii = all(byte < 0x7F and (byte >= 0x20 or byte in b"\t\r\n") for byte in letters)
        return len(begin) > 1 and not any(zeros) and is_ascii

    @cached_property
    def text(self) -> str:
        """The data as text; empty if it is not text."""
        return self.data.removeprefix(_BOM).decode("utf-8", "replace") if self.is_text else ""

    @cached_property
    def lines(self) -> list[str]:
        """Lines that are not blank; the last may be cut."""
        return [line for line in self.text.splitlines() if line.strip()]

    @cached_property
    def is_json(self) -> bool:
        """Whether the text begins like JSON."""
        return self.text.lstrip()[:1] in ("{", "[")

    @cached_property
    def is_xml(self) -> bool:
        """Whether the text begins like XML."""
        return self.text.lstrip().startswith("<")

    @cached_property
    def keys(self) -> frozenset[str]:
        """Keys of mappings at any depth, of a file that may be JSON."""
        return frozenset(_KEY.findall(self.text)) if self.is_json else frozenset()


def head_of(source: Source) -> Head:
    """Read the beginning of a file.

    Raises:
        InputError: the file cannot be read.
    """
    with source.open() as stream:
        return Head(source.name, stream.read(SIZE))
