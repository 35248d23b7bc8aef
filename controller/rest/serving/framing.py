"""Read where a request's head and body begin and end (RFC 9112), strictly.

Eventlet and the parser of the standard library below it accept what the RFC forbids, and could see other requests than
a proxy in front of them: bare CR and LF, folded lines, space before the colon, several Host headers, signs and
underscores in lengths, endless chunk-size lines. Each rule here has a test that plain eventlet fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from typing import BinaryIO, Protocol

from controller.rest.problems import ProblemError

PIECE_BYTES = 64 * 1024
"""Bodies are read and written in pieces of this size, so that no client blocks the event loop."""

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST_LINE = re.compile(_TOKEN + rb" [^\x00-\x1f\x7f]+ HTTP/[^\x00-\x1f\x7f]+\r\n")
_FIELD_LINE = re.compile(_TOKEN + rb":[\t\x20-\x7e\x80-\xff]*\r\n")
_LENGTH = re.compile(r"[0-9]+")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n")
_LONGEST_CHUNK_LINE = 256
_LONGEST_TRAILER_SECTION = 8192
_END_OF_HEAD = b"\r\n"
_ACTED_ON = ("connection", "expect")
MOST_FIELDS = 99
"""As many as the standard library takes."""


class Lines(Protocol):
    """A source of lines."""

    def readline(self, size: int = -1) -> bytes:
        """Return the next line with its end, or its first ``size`` bytes."""


class HeadFields:
    """The fields of a head, as eventlet reads them of a message of the standard library."""

    def __init__(self) -> None:
        """Begin without fields."""
        self._headers: list[tuple[str, str]] = []
        self._first: dict[str, str] = {}

    def add(self, name: str, value: str) -> None:
        """Add a field behind the others."""
        self._headers.append((name, value))
        self._first.setdefault(name.lower(), value)

    def __len__(self) -> int:
        """Return the number of fields."""
        return len(self._headers)

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the first value of a field, whatever the case of its name."""
        return self._first.get(name.lower(), default)

    def items(self) -> list[tuple[str, str]]:
        """Return all fields in the order sent."""
        return self._headers

    def get_content_type(self) -> str:
        """Return the type of a body whose client declared none: it has none."""
        return ""


class HeadLines:
    """The lines of a head: the standard library's parser, which takes long, gets those that it acts on.

    Attributes:
        fields: all fields so far.
    """

    def __init__(self, lines: Lines) -> None:
        """Read lines from ``lines``."""
        self._lines, self.fields = lines, HeadFields()

    def readline(self, size: int = -1) -> bytes:
        """Return the next line that the parser needs, or the last one.

        Raises:
            HTTPException: there are too many lines.
            ProblemError: 400, a line is malformed.
        """
        while (line := self._lines.readline(size)) != _END_OF_HEAD:
            if not _FIELD_LINE.fullmatch(line):
                raise _malformed("header line: expected NAME: VALUE and CR LF")
            if len(self.fields) >= MOST_FIELDS:
                raise HTTPException(f"more than {MOST_FIELDS} header fields")
            name, _, value = line.decode("iso-8859-1").partition(":")
            self.fields.add(name, value.lstrip(" \t").rstrip("\r\n"))
            if name.lower() in _ACTED_ON:
                break
        return line


def check_request_line(line: bytes) -> None:
    """Check the first line of a request.

    Raises:
        ProblemError: 400, the line is malformed.
    """
    if not _REQUEST_LINE.fullmatch(line):
        raise _malformed("request line: expected METHOD TARGET HTTP/VERSION and CR LF")


@dataclass(frozen=True)
class Framing:
    """The length of a request's body. Neither ``length`` nor ``chunked``: the request has no body.

    ``awaits_continue``: the client sends the body after ``100 Continue``.
    """

    length: int | None = None
    chunked: bool = False
    awaits_continue: bool = False

    @property
    def has_body(self) -> bool:
        """True if the body has at least one byte."""
        return self.chunked or bool(self.length)


def framing(version: str, fields: Mapping[str, list[str]]) -> Framing:
    """Return how a request's body is delimited.

    Args:
        version: ``HTTP/1.1`` or ``HTTP/1.0``.
        fields: values by lower-case name, in the order sent.

    Raises:
        ProblemError: 400 ambiguous, 413 a length beyond all limits, 417 an unknown expectation, 501 an unsupported
            transfer coding.
    """
    hosts, lengths, codings = (fields.get(name, []) for name in ("host", "content-length", "transfer-encoding"))
    if len(hosts) > 1 or (not hosts and version != "HTTP/1.0"):
        raise ProblemError(HTTPStatus.BAD_REQUEST, "exactly one Host header is required")
    expectation = ", ".join(fields.get("expect", [])).lower()
    if expectation not in ("", "100-continue"):
        raise ProblemError(HTTPStatus.EXPECTATION_FAILED, "the only supported expectation is 100-continue")
    # A list of equal lengths may count as one (RFC 9112, section 6.3), but no well-behaved client sends it.
    if lengths and (len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0])):
        raise _malformed("Content-Length")
    if lengths and len(lengths[0]) > 18:
        raise ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the Content-Length exceeds all limits")
    if codings and ", ".join(codings).lower() != "chunked":
        raise ProblemError(HTTPStatus.NOT_IMPLEMENTED, "the only supported transfer coding is chunked")
    if codings and (lengths or version == "HTTP/1.0"):
        raise ProblemError(HTTPStatus.BAD_REQUEST, "Transfer-Encoding with Content-Length, or in HTTP/1.0")
    return Framing(int(lengths[0]) if lengths else None, bool(codings), bool(expectation) and version != "HTTP/1.0")


def body_pieces(stream: BinaryIO, framing: Framing, *, at_most: int) -> Iterator[bytes]:
    """Yield the body of one request, piece by piece; afterwards the stream is at the next request.

    Args:
        stream: buffered and blocking: ``read(n)`` returns fewer bytes only at the end.
        framing: the length of the body, from its header.
        at_most: limit on the body's length, in bytes.

    Raises:
        ProblemError: 411 no length was given, 413 too large (before anything of a body that says so itself is read),
            400 malformed chunks or an early end.
        OSError: reading the stream failed.
    """
    if framing.chunked:
        yield from _chunked_pieces(stream, at_most)
    elif framing.length is None:
        raise ProblemError(HTTPStatus.LENGTH_REQUIRED, "a body with a Content-Length, or chunked, is required")
    elif framing.length > at_most:
        raise _too_large(at_most)
    else:
        yield from _exactly(stream, framing.length)


def _chunked_pieces(stream: BinaryIO, at_most: int) -> Iterator[bytes]:
    left = at_most
    while size := _chunk_size(stream):
        if size > left:
            raise _too_large(at_most)
        left -= size
        yield from _exactly(stream, size)
        if stream.read(2) != b"\r\n":
            raise _malformed("chunk: the length of the data differs from the size")
    room = _LONGEST_TRAILER_SECTION
    while (line := stream.readline(room)) != b"\r\n":
        room -= len(line)
        if not line.endswith(b"\r\n") or b"\r" in line[:-2] or b"\0" in line or room <= 0:
            raise _malformed("trailer section, or it is too long")


def _chunk_size(stream: BinaryIO) -> int:
    line = _CHUNK_LINE.fullmatch(stream.readline(_LONGEST_CHUNK_LINE))
    if line is None:
        raise _malformed("chunk size")
    return int(line[1], 16)


def _exactly(stream: BinaryIO, length: int) -> Iterator[bytes]:
    left = length
    while left:
        piece = stream.read(min(left, PIECE_BYTES))
        if not piece:
            raise ProblemError(HTTPStatus.BAD_REQUEST, f"the body ended {left} bytes early")
        left -= len(piece)
        yield piece


def _malformed(what: str) -> ProblemError:
    return ProblemError(HTTPStatus.BAD_REQUEST, f"malformed {what}")


def _too_large(at_most: int) -> ProblemError:
    return ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have at most {at_most} bytes")
