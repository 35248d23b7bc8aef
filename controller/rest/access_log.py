"""The access log: one line for each request."""

from __future__ import annotations

import logging
from http import HTTPStatus

LOG = logging.getLogger("controller.rest.security.access")


def log_access(
    client: str, method: str, path: str, status: int, size: int, seconds: float, request_id: str = "-"
) -> None:
    """Log one line for a request; successful reads for debugging only."""
    reading = method in ("GET", "HEAD", "OPTIONS") and status < HTTPStatus.BAD_REQUEST
    level = logging.DEBUG if reading else logging.INFO
    LOG.log(
        level,
        "%s %s %s %d %d bytes %.1f ms request %s",
        client,
        method,
        path[:200],
        status,
        size,
        seconds * 1e3,
        request_id,
    )
