"""Requests and responses as plain values: what the resources take and give, whatever server is around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol

JSON = "application/json"


EVENT_STREAM = "text/event-stream"

PROMETHEUS, OPEN_METRICS = "text/plain", "application/openmetrics-text"


def no_body(_at_most: int | None) -> bytes:
    """Body of a request that has none."""
    return b""


@dataclass(frozen=True)
class Request:
    """One request.

    Attributes:
        method: as sent; methods are case-sensitive.
        path: the path without the query, percent-encoded in the one normal way (RFC 3986, section 6.2.2).
        query: the query as sent, percent-encoded, without the question mark.
        variables: percent-decoded parts of the path, by their name in the resource's template.
        headers: by lower-case name; lines of one name joined by commas.
        read_body: reads the body, which may have so many bytes (``None``: as many as the server lets through); called
            at most once, and only where a body is of use, so that what is refused anyway is not read. Raises
            ``ProblemError`` for a body that is too large, broken or too slow.
        at_work: entered while the controller works on the request, told whether that may take long; entering raises
            ``ProblemError`` where it works on too many of that kind already.
    """

    method: str
    path: str
    query: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    read_body: Callable[[int | None], bytes] = no_body
    at_work: Callable[[bool], AbstractContextManager[object]] = nullcontext


class Stream(Protocol):
    """A body without a known length: pieces that are sent as they come."""

    def __iter__(self) -> Iterator[bytes]: ...
    def __next__(self) -> bytes: ...
    def close(self) -> None:
        """Must be called at the end, read to its end or not; harmless when called twice."""


@dataclass(frozen=True)
class Response:
    """One response. ``media_type`` is empty where there is no body to describe.

    ``stream``: in place of a body whose length is known.
    """

    status: int
    body: bytes = b""
    media_type: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    stream: Stream | None = None

    @property
    def status_line(self) -> str:
        """``404 Not Found``."""
        return f"{self.status} {HTTPStatus(self.status).phrase}"

    def header_list(self) -> list[tuple[str, str]]:
        """All headers, with the type and the length of the body (a stream of events has none)."""
        listed = [*self.headers, ("Cache-Control", "no-cache"), ("X-Content-Type-Options", "nosniff")]
        if self.media_type:
            listed.append(("Content-Type", self.media_type))
        # A 204 must not carry a length, and a 304 none but that of the file (RFC 9110, section 8.6).
        bodyless = self.status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
        if not bodyless and self.media_type != EVENT_STREAM:
            listed.append(("Content-Length", str(len(self.body))))
        return listed

    def closing_bytes(self, *, head_only: bool = False) -> bytes:
        """The response as it goes over the wire where it is the connection's last."""
        head = [f"HTTP/1.1 {self.status_line}"]
        head += [f"{name}: {value}" for name, value in (*self.header_list(), ("Connection", "close"))]
        return "\r\n".join([*head, "", ""]).encode("latin-1") + (b"" if head_only else self.body)
