"""The errors of invalid input, unknown names and requests that cannot be answered now."""

from __future__ import annotations

from collections.abc import Iterator

_MOST_BITS = 10_000  # of an integer that is written; Python refuses to write 4,301 digits


class InputError(ValueError):
    """Input that cannot be used; the message names source, field, value and reason, in one line.

    Attributes:
        source: the file (or request) it came from; empty until a caller that knows it fills it in.
        field: dotted path of the field, such as ``clos.spines`` or ``collectives[2].ranks``.
        value: the invalid value as given; ``None`` if there is none.
        reason: what is wrong with it, without a final stop.
    """

    def __init__(self, reason: str, *, field: str = "", value: object = None, source: str = "") -> None:
        """Create the error; see the class for the arguments."""
        super().__init__(reason)
        self.reason = reason
        self.field = field
        self.value = value
        self.source = source

    def with_source(self, source: str) -> InputError:
        """Return the same error with its source (an existing source stays: it is the more precise one)."""
        return type(self)(self.reason, field=self.field, value=self.value, source=self.source or source)

    def __str__(self) -> str:
        """Return source, field, value and reason in one line."""
        parts = [part for part in (self.source, self.field) if part]
        if self.value is not None:
            parts.append(shorten(self.value))
        parts.append(self.reason)
        return one_line(": ".join(parts))


def one_line(text: str) -> str:
    """Return text without line ends and other control characters, which external names may contain."""
    return "".join(c if c.isprintable() else " " for c in text)


def shorten(value: object, limit: int = 80) -> str:
    """Return ``repr`` of a value, cut to ``limit`` characters and one line; the rest of a large value is not read."""
    text = ""
    for piece in _representation(value, limit):
        text += piece
        if len(text) > limit:
            break
    text = text.replace("\n", " ")
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _representation(value: object, limit: int) -> Iterator[str]:
    """Yield ``repr`` of a value in pieces; texts and numbers in it are cut after some ``limit`` characters."""
    if isinstance(value, dict):
        yield "{"
        for i, (key, one) in enumerate(value.items()):
            yield ", " * (i > 0)
            yield from _representation(key, limit)
            yield ": "
            yield from _representation(one, limit)
        yield "}"
    elif isinstance(value, list | tuple):
        yield "[" if isinstance(value, list) else "("
        for i, one in enumerate(value):
            yield ", " * (i > 0)
            yield from _representation(one, limit)
        yield "]" if isinstance(value, list) else ",)" if len(value) == 1 else ")"
    elif isinstance(value, str | bytes | bytearray):
        yield repr(value[: limit + 1])
    elif isinstance(value, int) and value.bit_length() > _MOST_BITS:
        yield f"an integer of {value.bit_length()} bits"
    else:
        yield repr(value)


class NotFoundError(LookupError):
    """A thing that was requested by name does not exist.

    Attributes:
        kind: the kind of thing, in one word: ``job``, ``host``, ``link``.
        name: the name as given.
        kinds: the kind for people, where one word does not say it: ``cable, switch or pod``.
        field: the field of the request that has the name, such as ``delete[2]``; the kind where it is no field.
    """

    def __init__(self, kind: str, name: str, kinds: str = "", *, field: str = "") -> None:
        """Create the error for a thing of this kind and name, which has the name in a field of the request."""
        super().__init__(kind, name, kinds)
        self.kind = kind
        self.name = name
        self.kinds = kinds or kind
        self.field = field or kind

    def in_field(self, field: str) -> NotFoundError:
        """Return the same error of a name in this field of the request."""
        return NotFoundError(self.kind, self.name, self.kinds, field=field)

    def __str__(self) -> str:
        """Return the message, with the kind and the name."""
        return f"no {self.kinds} has the name {shorten(self.name)}"


class UnavailableError(RuntimeError):
    """A valid request that cannot be answered yet, or not now; holds the reason and after how many seconds to retry."""

    def __init__(self, reason: str, *, retry_after_seconds: int = 1) -> None:
        """Create the error; ``retry_after_seconds`` is the proposed wait in seconds."""
        super().__init__(reason)
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds
