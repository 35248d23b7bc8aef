"""Signals that end a process must let the clean-up run, once and undisturbed."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SAME_WISH_SECONDS = 1.0
"""Signals so close together (a supervisor's SIGTERM and SIGHUP, an impatient Ctrl-C) ask for one end, not for two."""


@contextmanager
def ending_by_exception() -> Iterator[None]:
    """SIGTERM and SIGHUP raise ``SystemExit`` (128 + number, as shells count) where they would end the process at
    once, without any ``finally``, and SIGINT ``KeyboardInterrupt``; what follows at once does not interrupt the way
    out. A handler that somebody has set stays. Only the main thread can do this; elsewhere nothing changes."""
    changed = {}
    if threading.current_thread() is threading.main_thread():
        handler = _Ending()
        for number in _ENDING:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                changed[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, before in changed.items():
            signal.signal(number, before)


class _Ending:
    """The handler: raises once, and is deaf for a moment."""

    def __init__(self) -> None:
        self._raised = -_SAME_WISH_SECONDS

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self._raised < _SAME_WISH_SECONDS:
            return
        self._raised = now
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)


@contextmanager
def deaf() -> Iterator[None]:
    """Signals that end a process are ignored: a second Ctrl-C does not cut the clean-up short. In other threads than
    the main one nothing changes: signals go to the main thread anyway."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [signal.signal(number, signal.SIG_IGN) for number in _ENDING]
    try:
        yield
    finally:
        for number, handler in zip(_ENDING, before, strict=True):
            signal.signal(number, handler)
