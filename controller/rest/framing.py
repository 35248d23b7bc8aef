"""Where a request's body begins and ends (RFC 9112, sections 6 and 7), read strictly.

Eventlet's own reader takes what the RFC forbids (signs and underscores in lengths, chunk-size lines without end), so
the head is checked here and the body is read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import BinaryIO

from controller.rest.problems import ProblemError

PIECE_BYTES = 64 * 1024
"""Bodies are read and written in pieces of this size, so that one client never has the event loop for long."""

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_FIELD_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_LENGTH = re.compile(r"[0-9]+")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")
_LONGEST_CHUNK_LINE = 256
_LONGEST_TRAILER_SECTION = 8192


@dataclass(frozen=True)
class Framing:
    """How the body is delimited. Neither ``length`` nor ``chunked``: the request has no body at all.

    ``awaits_continue``: the client holds the body back until it is told ``100 Continue``.
    """

    length: int | None = None
    chunked: bool = False
    awaits_continue: bool = False

    @property
    def has_body(self) -> bool:
        return self.chunked or bool(self.length)


def check_head(method: str, version: str, headers: Iterable[tuple[str, str]]) -> Framing:
    """Check a request's head, as far as it decides where the request ends.

    Args:
        version: ``HTTP/1.1`` or ``HTTP/1.0``.
        headers: names and values, latin-1 decoded, in the order sent.

    Raises:
        ProblemError: 400 malformed or ambiguous, 417 another expectation, 501 another transfer coding.
    """
    fields: dict[str, list[str]] = {}
    for name, value in headers:
        value = value.strip(" \t")
        if not _TOKEN.fullmatch(name) or not _FIELD_VALUE.fullmatch(value):
            raise ProblemError(HTTPStatus.BAD_REQUEST, f"malformed header {name[:80]!a}")
        fields.setdefault(name.lower(), []).append(value)
    if not _TOKEN.fullmatch(method):
        raise ProblemError(HTTPStatus.BAD_REQUEST, "malformed method")
    hosts = fields.get("host", [])
    if len(hosts) > 1 or (not hosts and version != "HTTP/1.0"):
        raise ProblemError(HTTPStatus.BAD_REQUEST, "exactly one Host header is required")
    expectation = ", ".join(fields.get("expect", [])).lower()
    if expectation not in ("", "100-continue"):
        raise ProblemError(HTTPStatus.EXPECTATION_FAILED, "the only expectation known is 100-continue")
    length = _content_length(fields.get("content-length", []))
    chunked = _is_chunked(fields.get("transfer-encoding", []))
    if chunked and (length is not None or version == "HTTP/1.0"):
        raise ProblemError(HTTPStatus.BAD_REQUEST, "Transfer-Encoding with Content-Length, or in HTTP/1.0")
    return Framing(length, chunked, bool(expectation) and version != "HTTP/1.0")


def _content_length(values: list[str]) -> int | None:
    # A list of equal lengths may count as one (RFC 9112, section 6.3), and no honest client sends it.
    if not values:
        return None
    if len(values) > 1 or not _LENGTH.fullmatch(values[0]):
        raise ProblemError(HTTPStatus.BAD_REQUEST, "malformed Content-Length")
    if len(values[0]) > 18:
        raise ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the Content-Length is beyond all bounds")
    return int(values[0])


def _is_chunked(values: list[str]) -> bool:
    if not values:
        return False
    if ", ".join(values).lower() != "chunked":
        raise ProblemError(HTTPStatus.NOT_IMPLEMENTED, "the only transfer coding known is chunked")
    return True


def body_pieces(stream: BinaryIO, framing: Framing, *, at_most: int) -> Iterator[bytes]:
    """The body of one request from a connection, piece by piece; afterwards the stream is at the next request.

    Args:
        stream: buffered and blocking: ``read(n)`` returns fewer bytes only at the end.
        at_most: bytes that the body may have.

    Raises:
        ProblemError: 411 no length was given, 413 too large (before anything of a body that says so itself is read),
            400 malformed chunks or an end before the end.
        OSError: whatever reading the stream raises.
    """
    if framing.chunked:
        yield from _chunked_pieces(stream, at_most)
        return
    if framing.length is None:
        raise ProblemError(HTTPStatus.LENGTH_REQUIRED, "a body is required, with a Content-Length or chunked")
    if framing.length > at_most:
        raise _too_large(at_most)
    yield from _exactly(stream, framing.length)


def _chunked_pieces(stream: BinaryIO, at_most: int) -> Iterator[bytes]:
    left = at_most
    while size := _chunk_size(stream):
        if size > left:
            raise _too_large(at_most)
        left -= size
        yield from _exactly(stream, size)
        if stream.readline(3) not in (b"\r\n", b"\n"):
            raise ProblemError(HTTPStatus.BAD_REQUEST, "malformed chunk: its data is not as long as it says")
    room = _LONGEST_TRAILER_SECTION
    while (line := stream.readline(room)) not in (b"\r\n", b"\n"):
        room -= len(line)
        if not line.endswith(b"\n") or room <= 0:
            raise ProblemError(HTTPStatus.BAD_REQUEST, "malformed or too long trailer section")


def _chunk_size(stream: BinaryIO) -> int:
    line = _CHUNK_LINE.fullmatch(stream.readline(_LONGEST_CHUNK_LINE))
    if line is None:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "malformed chunk size")
    return int(line[1], 16)


def _exactly(stream: BinaryIO, length: int) -> Iterator[bytes]:
    left = length
    while left:
        piece = stream.read(min(left, PIECE_BYTES))
        if not piece:
            raise ProblemError(HTTPStatus.BAD_REQUEST, f"the body ended {left} bytes early")
        left -= len(piece)
        yield piece


def _too_large(at_most: int) -> ProblemError:
    return ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have at most {at_most} bytes")
