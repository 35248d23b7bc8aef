"""The service's view of the world (controller/service/runtime.py), by eventlet."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

from eventlet import patcher, tpool
from eventlet.event import Event
from eventlet.semaphore import Semaphore
from ryu.lib import hub

_subprocess, _time = patcher.original("subprocess"), patcher.original("time")


class EventletSignal:
    """A ``Signal`` for greenlets."""

    def __init__(self) -> None:
        self._event = Event()

    def wait(self, seconds: float | None = None) -> object:
        return self._event.wait(seconds)

    def set(self) -> None:
        if not self._event.ready():
            self._event.send(None)

    def clear(self) -> None:
        if self._event.ready():
            self._event = Event()


FULL_COLLECTION = 600.0
"""Seconds between two full garbage collections."""


class EventletRuntime:
    """A ``Runtime`` on the event loop of Ryu."""

    def start(self) -> None:
        """Take over garbage collection, once everything is loaded.

        Making the rules of a large plan would set off full collections, and each looks at every object there is while
        it holds the event loop (docs/ryu.md has figures). Plans hold no reference cycles, so young objects are
        collected as always and the rest on a long clock.
        """
        gc.collect()
        gc.freeze()
        gc.set_threshold(700, 10, 1_000_000_000)
        hub.spawn(self._collect)

    def _collect(self) -> None:
        while True:
            hub.sleep(FULL_COLLECTION)
            gc.collect()

    def spawn(self, task: Callable[[], None]) -> None:
        hub.spawn(task)

    def later(self, seconds: float, task: Callable[[], None]) -> None:
        """Run a task once, after so long."""
        hub.spawn_after(seconds, task)

    def sleep(self, seconds: float) -> None:
        hub.sleep(seconds)

    def signal(self) -> EventletSignal:
        return EventletSignal()

    def lock(self) -> Semaphore:
        return Semaphore(1)

    def offload(self, function: Callable[..., Any], *args: Any) -> Any:
        return tpool.execute(function, *args)

    def rest(self) -> None:
        """Give up the interpreter's lock for a moment; called in offloaded work that takes long in Python.

        The event loop would get the lock anyhow, but 5 ms later, and again and again: it gives it back at every system
        call.
        """
        _time.sleep(1e-4)

    def start_process(self, command: list[str]) -> Any:
        # Eventlet's own pipes would give a worker thread an event loop of its own, and short reads.
        return _subprocess.Popen(command, stdin=_subprocess.PIPE, stdout=_subprocess.PIPE)

    def now(self) -> float:
        return time.time()

    def clock(self) -> float:
        return time.perf_counter()

    def close(self) -> None:
        """End the worker threads, or the program would wait for them."""
        tpool.killall()
