"""Requests and responses as plain values: what the resources take and give, whatever server is around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

JSON = "application/json"


def no_body() -> bytes:
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
        read_body: reads the body; called at most once, and only where a body is of use, so that what is refused
            anyway is not read. Raises ``ProblemError`` for a body that is too large, broken or too slow.
    """

    method: str
    path: str
    query: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    read_body: Callable[[], bytes] = no_body


@dataclass(frozen=True)
class Response:
    """One response. ``media_type`` is empty where there is no body to describe."""

    status: int
    body: bytes = b""
    media_type: str = ""
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def status_line(self) -> str:
        """``404 Not Found``."""
        return f"{self.status} {HTTPStatus(self.status).phrase}"

    def header_list(self) -> list[tuple[str, str]]:
        """All headers, with the type and the length of the body."""
        listed = [*self.headers, ("Cache-Control", "no-cache"), ("X-Content-Type-Options", "nosniff")]
        if self.media_type:
            listed.append(("Content-Type", self.media_type))
        # A 204 must not carry a length (RFC 9110, section 8.6).
        if self.status != HTTPStatus.NO_CONTENT:
            listed.append(("Content-Length", str(len(self.body))))
        return listed

    def closing_bytes(self, *, head_only: bool = False) -> bytes:
        """The response as it goes over the wire where it is the connection's last."""
        head = [f"HTTP/1.1 {self.status_line}"]
        head += [f"{name}: {value}" for name, value in (*self.header_list(), ("Connection", "close"))]
        return "\r\n".join([*head, "", ""]).encode("latin-1") + (b"" if head_only else self.body)
