"""The access log: one line for each request."""

from __future__ import annotations

import logging
from http import HTTPStatus

LOG = logging.getLogger("controller.rest.security.access")


def log_access(
    client: str, method: str, path: str, status: int, size: int, seconds: float, *, routine: bool = False
) -> None:
    """Log one line for a request, whose id the log adds.

    Successful reads, and what clients send all the time (``routine``), are for debugging only.
    """
    quiet = (routine or method in ("GET", "HEAD", "OPTIONS")) and status < HTTPStatus.BAD_REQUEST
    level = logging.DEBUG if quiet else logging.INFO
    if not LOG.isEnabledFor(level):
        return
    LOG.log(level, "%s %s %s %d %d bytes %.1f ms", client, method, path[:200], status, size, seconds * 1e3)
