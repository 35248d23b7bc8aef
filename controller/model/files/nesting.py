"""Documents that are nested deeper than can be written again: refused at once, since answers and logs quote them."""

from __future__ import annotations

from typing import Any

import orjson

from controller.model.errors import InputError

MOST_LEVELS = 254
"""Levels that orjson writes; it reads 1,024."""

_PATH_LENGTH = 60  # characters of the path that a message shows


def check_nesting(text: bytes, document: Any) -> None:
    """Check a document that orjson has read.

    Args:
        text: the JSON.
        document: what it holds.

    Raises:
        InputError: it is nested too deep; the field is empty, and the reason has the path.
    """
    if text.count(b"[") + text.count(b"{") <= MOST_LEVELS:
        return
    try:
        orjson.dumps(document)
    except TypeError:
        path = _deep_path(document)
        raise InputError(f"is nested deeper than {MOST_LEVELS} levels, at {path}") from None


def _deep_path(document: Any) -> str:
    """Return the beginning of the path to a value that is nested too deep."""
    waiting: list[tuple[int, str, Any]] = [(1, "", document)]
    while waiting:
        level, path, value = waiting.pop()
        if level > MOST_LEVELS:
            return path if len(path) <= _PATH_LENGTH else f"{path[:_PATH_LENGTH]}..."
        if isinstance(value, dict):
            items = [(f".{key}" if path else str(key), below) for key, below in value.items()]
        else:
            items = [(f"[{i}]", below) for i, below in enumerate(value)]
        for name, below in items:
            if isinstance(below, dict | list):
                # Only the beginning of a path is shown, and copies of long ones would take long.
                waiting.append((level + 1, path + name if len(path) <= _PATH_LENGTH else path, below))
    return "some place"
