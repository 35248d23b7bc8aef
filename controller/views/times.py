"""Times of day in documents."""

from __future__ import annotations

from datetime import UTC, datetime


def when(seconds: float) -> str:
    """Format a time (seconds since 1970) as RFC 3339, UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
