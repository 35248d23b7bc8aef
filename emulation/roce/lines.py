"""JSON values as lines, over pipes and TCP connections: how processes of an emulation talk beside the fabric."""

from __future__ import annotations

import json
from typing import Any

MAX_LINE = 64 << 20


class LineError(ValueError):
    """A line that is no JSON object, or one without an end."""


class LineBuffer:
    """Collects bytes as they come and gives back the objects whose lines are complete."""

    def __init__(self) -> None:
        """Start with an empty buffer."""
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Add received bytes, and return the objects of all complete lines.

        Raises:
            LineError: a line is too long or is not a JSON object.
        """
        self._rest += data
        if b"\n" not in data:
            if len(self._rest) > MAX_LINE:
                raise LineError(f"a line of more than {MAX_LINE} bytes")
            return []
        *whole, rest = self._rest.split(b"\n")
        self._rest = rest
        return [_object(bytes(line)) for line in whole if line.strip()]


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:  # bytes that are no text raise a kind of it as well
        raise LineError("a line that is not JSON") from None
    if not isinstance(value, dict):
        raise LineError("a line that is not a JSON object")
    return value


def to_line(value: dict[str, Any]) -> bytes:
    """Encode an object as one line of JSON."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"
