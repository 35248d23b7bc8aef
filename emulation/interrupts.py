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
    """Let signals that would end the process raise exceptions, so that ``finally`` blocks run.

    SIGTERM and SIGHUP raise ``SystemExit`` (128 + number, as in shells), SIGINT raises ``KeyboardInterrupt``; signals
    that follow immediately do not interrupt the clean-up. A handler that is already set is kept. Only the main thread
    can do this; in other threads nothing changes.
    """
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
    """Ignore signals that end the process, so that a second Ctrl-C does not interrupt the clean-up.

    In threads other than the main one nothing changes, since signals go to the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [signal.signal(number, signal.SIG_IGN) for number in _ENDING]
    try:
        yield
    finally:
        for number, handler in zip(_ENDING, before, strict=True):
            signal.signal(number, handler)
