"""The service's view of the world (controller/service/runtime.py), by eventlet."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from eventlet import tpool
from eventlet.event import Event
from eventlet.semaphore import Semaphore
from ryu.lib import hub


class EventletSignal:
    """A ``Signal`` for greenlets."""

    def __init__(self) -> None:
        self._event = Event()

    def wait(self) -> None:
        self._event.wait()

    def set(self) -> None:
        if not self._event.ready():
            self._event.send(None)

    def clear(self) -> None:
        if self._event.ready():
            self._event = Event()


class EventletRuntime:
    """A ``Runtime`` on the event loop of Ryu."""

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

    def now(self) -> float:
        return time.time()

    def clock(self) -> float:
        return time.perf_counter()

    def close(self) -> None:
        """End the worker threads, or the program would wait for them."""
        tpool.killall()
