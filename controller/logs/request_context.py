"""The request on behalf of which the calling task works, for the lines that it logs.

Each greenlet and each thread has a context of its own, so a line never has the id of another task's request.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_request_id: ContextVar[str] = ContextVar("request_id", default="")


def current_request() -> str:
    """Return the id of the request that the calling task works for; empty: there is none."""
    return _request_id.get()


def begin_request(request_id: str) -> None:
    """Set the id of the request that the calling task works for, until the next one; empty: it works for none."""
    _request_id.set(request_id)


@contextmanager
def working_for(request_id: str) -> Iterator[None]:
    """Have the lines that the calling task logs meanwhile name a request."""
    token = _request_id.set(request_id)
    try:
        yield
    finally:
        _request_id.reset(token)
