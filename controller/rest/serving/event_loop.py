"""The functions of the event loop that the HTTP interface calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def _at_once(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


@dataclass(frozen=True)
class EventLoop:
    """Functions of the event loop. The defaults are for programs without one, such as tests.

    Attributes:
        yield_turn: lets other tasks run.
        offload: runs a function with its arguments off the event loop, blocks the calling task meanwhile, and returns
            its result.
    """

    yield_turn: Callable[[], None] = lambda: None
    offload: Callable[..., Any] = _at_once
