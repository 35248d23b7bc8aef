"""Signals that end a process must let the clean-up run, once and undisturbed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ending_by_exception() -> Iterator[None]:
    """SIGTERM and SIGHUP raise ``SystemExit`` (128 + number, as shells count) where they would end the process at
    once, without any ``finally``. A handler that somebody has set stays. Only the main thread can do this; elsewhere
    nothing changes."""
    changed = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                changed[number] = signal.signal(number, _leave)
    try:
        yield
    finally:
        for number, before in changed.items():
            signal.signal(number, before)


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


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
