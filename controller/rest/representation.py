"""The form in which a document is sent: entity tags, 304 and gzip (RFC 9110, sections 8.8, 13.1.2 and 12.5.3)."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple

import falcon

SMALLEST_ZIPPED = 1024
"""Bytes below which a body is sent as it is: it fits into a packet."""

LARGEST_AT_ONCE = 32 * 1024
"""Bytes up to which hashing and compressing take less than a millisecond and stay on the event loop."""

LEVEL = 4
"""Of gzip. A list of 8,192 measured links takes 9 ms, a quarter of the time at level 9, and has a fifth more bytes."""


ZIPPED = "-gzip"
"""What is appended to the strong tag of a compressed representation."""


class Representation(NamedTuple):
    """A body as it is sent. ``tag``: the entity tag of its content; empty: not wanted."""

    body: bytes
    zipped: bool
    tag: str


def takes_gzip(accepted: str) -> bool:
    """Return whether a client that sends this ``Accept-Encoding`` takes gzip.

    A weight of 0 means no; ``*`` stands for what is not named.
    """
    weights = {}
    for part in accepted.lower().split(","):
        coding, parameters = falcon.parse_header(part)
        weights[coding] = parameters.get("q", "1")
    weight = next((weights[coding] for coding in ("gzip", "x-gzip", "*") if coding in weights), "0")
    return weight not in ("0", "0.0", "0.00", "0.000")


def represent(
    request: falcon.Request,
    response: falcon.Response,
    offload: Callable[..., Any],
    *,
    tagged: bool,
    same_for_many: bool = False,
) -> None:
    """Compress the response if its client takes that, or answer 304 if the client has its content.

    Args:
        request: the request.
        response: the response with its document, which is changed.
        offload: runs a function off the event loop (``EventLoop``); for large documents.
        tagged: whether the response gets an entity tag. The tag is weak: it is the same with gzip and without.
        same_for_many: whether many clients get these bytes: then they are compressed once.
    """
    body = response.data
    if not body or response.status_code not in (HTTPStatus.OK, HTTPStatus.CREATED):
        return
    response.append_header("Vary", "Accept-Encoding")
    zips = len(body) >= SMALLEST_ZIPPED and takes_gzip(request.get_header("Accept-Encoding", default=""))
    known = {str(tag) for tag in request.if_none_match or ()} if tagged else set[str]()
    if same_for_many and not tagged and zips and body in _KEPT:
        made = _KEPT[body]
    elif len(body) > LARGEST_AT_ONCE and (zips or tagged):
        made = offload(_representation, body, zips, tagged, known)
    else:
        made = _representation(body, zips, tagged, known)
    if same_for_many and made.zipped and body not in _KEPT:
        while len(_KEPT) >= MOST_KEPT:
            del _KEPT[next(iter(_KEPT))]
        _KEPT[body] = made
    if made.tag:
        response.etag = f'W/"{made.tag}"'
        if made.tag in known or "*" in known:
            response.status, response.data = HTTPStatus.NOT_MODIFIED, None
            return
    response.data = made.body
    if made.zipped:
        if response.etag and not made.tag:
            # A strong tag is one of these bytes (RFC 9110, section 8.8.3.3), so the compressed ones have another.
            response.etag = response.etag[:-1] + f'{ZIPPED}"'
        response.set_header("Content-Encoding", "gzip")


_KEPT: dict[bytes, Representation] = {}
"""Compressed bodies that many clients get, by what they were, the oldest first."""

MOST_KEPT = 4


def _representation(body: bytes, zips: bool, tagged: bool, known: set[str]) -> Representation:
    tag = hashlib.blake2b(body, digest_size=12).hexdigest() if tagged else ""
    if not zips or tag in known:
        return Representation(body, False, tag)
    return Representation(gzip.compress(body, LEVEL, mtime=0), True, tag)
