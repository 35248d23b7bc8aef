"""The service's runtime (controller/core/ports/runtime.py), implemented with eventlet."""

from __future__ import annotations

import contextvars
import gc
import sys
import time
from collections.abc import Callable
from typing import Any

from eventlet import patcher, tpool
from eventlet.event import Event
from eventlet.semaphore import Semaphore
from ryu.lib import hub

from controller.garbage import only_young
from controller.southbound.openflow.in_turn import InTurn

_subprocess, _time = patcher.original("subprocess"), patcher.original("time")


class EventletSignal:
    """A ``Signal`` for greenlets."""

    def __init__(self) -> None:
        """Begin not set."""
        self._event = Event()

    def wait(self, seconds: float | None = None) -> object:
        """Block the greenlet until ``set``, at most so long."""
        return self._event.wait(seconds)

    def set(self) -> None:
        """Wake the waiting greenlets."""
        if not self._event.ready():
            self._event.send(None)

    def clear(self) -> None:
        """Make the next ``wait`` block again."""
        if self._event.ready():
            self._event = Event()


SWITCH_INTERVAL = 0.0001
"""Seconds after which a worker thread gives up the interpreter's lock to the event loop that waits for it.

They are paid at every system call of the loop, and answering one small request takes several: with Python's own 5 ms,
20 calls beside one busy thread took up to 37 ms, with 0.5 ms 1.2 ms, with this 0.2 ms (99th percentiles). The thread
gets a tenth less done while the loop is busy.
"""

FULL_COLLECTION = 600.0
"""Seconds between two full garbage collections."""


class EventletRuntime:
    """A ``Runtime`` on the event loop of Ryu."""

    def __init__(self) -> None:
        """Prepare the queue of ``offload_in_turn``."""
        self._in_turn = InTurn(tpool.execute)

    def start(self) -> None:
        """Take over garbage collection, once all modules are loaded, and shorten the threads' switch interval.

        Making the rules of a large plan would set off full collections, and each visits every object while
        it holds the event loop (docs/explanation/ryu.md has figures). Plans hold no reference cycles, so young objects
        are collected as always and the rest on a long clock.
        """
        sys.setswitchinterval(SWITCH_INTERVAL)
        gc.collect()
        gc.freeze()
        only_young()
        hub.spawn(self._collect)

    def _collect(self) -> None:
        while True:
            hub.sleep(FULL_COLLECTION)
            gc.collect()

    def spawn(self, task: Callable[[], None]) -> None:
        """Start a greenlet."""
        hub.spawn(task)

    def later(self, seconds: float, task: Callable[[], None]) -> None:
        """Run a task once, after so long."""
        hub.spawn_after(seconds, task)

    def sleep(self, seconds: float) -> None:
        """Block the greenlet for some seconds."""
        hub.sleep(seconds)

    def signal(self) -> EventletSignal:
        """Return a new signal, not set."""
        return EventletSignal()

    def lock(self) -> Semaphore:
        """Return a new lock."""
        return Semaphore(1)

    def offload(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function in a thread of eventlet's pool and return its result."""
        # With the context of the calling task: lines that it logs there name the same request.
        return tpool.execute(contextvars.copy_context().run, function, *args)

    def offload_in_turn(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function like ``offload``, one such call after the other: for work that many switches need at once."""
        return self._in_turn.run(function, *args)

    def rest(self) -> None:
        """Give up the interpreter's lock for a moment; called in offloaded work that takes long in Python.

        The event loop would get the lock anyhow, but 5 ms later, and again and again: it gives it back at every system
        call.
        """
        _time.sleep(1e-4)

    def start_process(self, command: list[str]) -> Any:
        """Start a process with blocking pipes, outside eventlet's control."""
        # Eventlet's own pipes would give a worker thread an event loop of its own, and short reads.
        return _subprocess.Popen(command, stdin=_subprocess.PIPE, stdout=_subprocess.PIPE)

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return time.time()

    def clock(self) -> float:
        """Return the seconds of a monotonic clock."""
        return time.perf_counter()

    def close(self) -> None:
        """End the worker threads, or the program would wait for them."""
        tpool.killall()
