"""A runtime whose clock stands still while a task works, and jumps to the next one that waits."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import greenlet


class VirtualSignal:
    """A ``Signal`` of tasks in virtual time."""

    def __init__(self, runtime: VirtualTime) -> None:
        self._runtime, self.is_set = runtime, False

    def set(self) -> None:
        self.is_set = True

    def clear(self) -> None:
        self.is_set = False

    def wait(self, seconds: float | None = None) -> None:
        self._runtime.wait(seconds, lambda: self.is_set)


class VirtualTime:
    """A runtime of tasks that run one at a time, in the order in which they began to wait.

    Attributes:
        offload_seconds: how long offloaded work takes, by the name of its function.
    """

    def __init__(self) -> None:
        self.offload_seconds: dict[str, float] = {}
        self._now = 0.0
        self._numbers = itertools.count()
        self._loop = greenlet.getcurrent()
        self._waiting: dict[int, tuple[float, Callable[[], bool], greenlet.greenlet]] = {}

    def run_until(self, ready: Callable[[], bool], most_seconds: float) -> float:
        """The seconds until something is true; fails if it is not within so many."""
        began = self._now
        while not ready():
            woken = [number for number, (at, is_woken, _) in self._waiting.items() if at <= self._now or is_woken()]
            if woken:
                self._waiting.pop(woken[0])[2].switch()
                continue
            self._now = min(at for at, _, _ in self._waiting.values())
            assert self._now - began <= most_seconds, f"it did not come about within {most_seconds} s"
        return self._now - began

    def run_for(self, seconds: float) -> None:
        """Have tasks work for so long."""
        end = self._now + seconds
        self._waiting[next(self._numbers)] = end, lambda: False, greenlet.greenlet(lambda: None, self._loop)
        self.run_until(lambda: self._now >= end, seconds)

    def wait(self, seconds: float | None, ready: Callable[[], bool]) -> None:
        until = float("inf") if seconds is None else self._now + max(0.0, seconds)
        self._waiting[next(self._numbers)] = until, ready, greenlet.getcurrent()
        self._loop.switch()

    def spawn(self, task: Callable[[], None]) -> None:
        self._waiting[next(self._numbers)] = self._now, lambda: True, greenlet.greenlet(task, self._loop)

    def sleep(self, seconds: float) -> None:
        self.wait(seconds, lambda: False)

    def signal(self) -> VirtualSignal:
        return VirtualSignal(self)

    def lock(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def offload(self, function: Callable[..., Any], *args: Any) -> Any:
        self.sleep(self.offload_seconds.get(function.__name__, 0.0))
        return function(*args)

    def rest(self) -> None:
        pass

    def start_process(self, command: list[str]) -> Any:
        raise AssertionError("small jobs need no process")

    def now(self) -> float:
        return 1_700_000_000 + self._now

    def clock(self) -> float:
        return self._now
