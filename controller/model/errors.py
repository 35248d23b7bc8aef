"""The one error that bad input raises, wherever it comes from."""

from __future__ import annotations


class InputError(ValueError):
    """Input that cannot be used: says where, which field, which value, and why, in one line.

    Attributes:
        source: the file (or request) it came from; empty until somebody who knows it fills it in.
        field: dotted path of the field, such as ``clos.spines`` or ``collectives[2].ranks``.
        value: the offending value as given; ``None`` together with an empty ``shown`` where there is none.
        reason: what is wrong with it, without a final stop.
    """

    def __init__(self, reason: str, *, field: str = "", value: object = None, source: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field
        self.value = value
        self.source = source

    def with_source(self, source: str) -> InputError:
        """The same error, told where it came from (an inner source wins: it is the more precise one)."""
        return InputError(self.reason, field=self.field, value=self.value, source=self.source or source)

    def __str__(self) -> str:
        parts = [part for part in (self.source, self.field) if part]
        if self.value is not None:
            parts.append(shorten(self.value))
        parts.append(self.reason)
        return one_line(": ".join(parts))


def one_line(text: str) -> str:
    """Text without line ends and other control characters, which names from a file or from the network may bring."""
    return "".join(c if c.isprintable() else " " for c in text)


def shorten(value: object, limit: int = 80) -> str:
    """``repr`` of a value, cut to ``limit`` characters and one line."""
    text = repr(value).replace("\n", " ")
    return text if len(text) <= limit else text[: limit - 3] + "..."


class NotFoundError(LookupError):
    """Somebody asked by name for a thing that is not there.

    Attributes:
        kind: what it would be, in one word: ``job``, ``host``, ``link``.
        name: the name as given.
    """

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(kind, name)
        self.kind = kind
        self.name = name

    def __str__(self) -> str:
        return f"no {self.kind} is named {shorten(self.name)}"


class UnavailableError(RuntimeError):
    """The request is fine and cannot be answered yet, or not now: says why, and in how many seconds to ask again."""

    def __init__(self, reason: str, *, retry_after_seconds: int = 1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds
