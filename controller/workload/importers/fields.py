"""Numbers and names in other tools' text files: parsed strictly, rejected with file, line and value."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from controller.model.errors import InputError
from controller.workload.importers.base import Source

MAX_RANKS = 1 << 17
"""Most ranks or nodes of one input: the number of NICs in the largest training clusters, and a limit for memory
allocated from a header."""

_WHOLE = re.compile(r"[0-9]{1,20}")
_DECIMAL = re.compile(r"[0-9]{1,40}(\.[0-9]{0,40})?([eE][+-]?[0-9]{1,3})?")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class SourceField:
    """A field of a source."""

    source: Source
    field: str

    def __str__(self) -> str:
        """Return the place for notes."""
        return f"{self.source.name}: {self.field}"

    def error(self, reason: str, value: object = None) -> InputError:
        """Return an error for the field; a long text value is shortened."""
        value = value[:200] if isinstance(value, str) else value
        return InputError(reason, source=self.source.name, field=self.field, value=value)


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of a source, counted from 1."""

    source: Source
    line: int

    def __str__(self) -> str:
        """Return the place for notes."""
        return f"{self.source.name}:{self.line}"

    def error(self, reason: str, value: object = None) -> InputError:
        """Return an error for the line; a long text value is shortened."""
        value = value[:200] if isinstance(value, str) else value
        return InputError(reason, source=self.source.name, field=f"line {self.line}", value=value)

    def whole(self, text: str, what: str, least: int = 0, most: int = 2**63 - 1) -> int:
        """Parse a whole number.

        Raises:
            InputError: it is not a whole number, or outside the bounds.
        """
        if not _WHOLE.fullmatch(text):
            raise self.error(f"{what} is not an integer", text)
        return self._bounded(int(text), text, what, least, most)

    def decimal(self, text: str, what: str, most: float) -> float:
        """Parse a non-negative number, which may have a fraction or an exponent.

        Raises:
            InputError: it is not a number, or above ``most``.
        """
        if not _DECIMAL.fullmatch(text):
            raise self.error(f"{what} is not a number", text)
        number = float(text)
        if number > most:
            raise self.error(f"{what} is above {most:.6g}", text)
        return number

    def rounded_up(self, text: str, what: str, most: int) -> int:
        """Parse bytes: a whole number, or one with a fraction, which is rounded up.

        Raises:
            InputError: it is not a number, or above ``most``.
        """
        if _WHOLE.fullmatch(text):
            return self._bounded(int(text), text, what, 0, most)
        return math.ceil(self.decimal(text, what, most))

    def _bounded(self, number: int, text: str, what: str, least: int, most: int) -> int:
        if not least <= number <= most:
            raise self.error(f"{what} is not in {least} .. {most}", text)
        return number


def job_name(source: Source, default: str) -> str:
    """Derive a job's name from its file: without folders and suffix, with only the characters allowed in names."""
    stem = source.name.replace("\\", "/").rstrip("/").rpartition("/")[2].partition(".")[0]
    return _NOT_IN_NAMES.sub("-", stem).strip("-")[:63] or default
