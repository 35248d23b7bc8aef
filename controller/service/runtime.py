"""What the service needs of the world, so that it imports neither Ryu nor eventlet and reads no clock itself."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Signal(Protocol):
    """Something that one task waits for and another one gives."""

    def wait(self, seconds: float | None = None) -> object:
        """Block the calling task until ``set``, at most so long; what it returns says nothing."""

    def set(self) -> None:
        """Wake whoever waits; harmless when nobody does."""

    def clear(self) -> None:
        """Make the next ``wait`` wait again."""


class Runtime(Protocol):
    """Tasks, waiting, time, and a place for heavy work."""

    def spawn(self, task: Callable[[], None]) -> None:
        """Run a task beside the others, until it returns or the program ends."""

    def sleep(self, seconds: float) -> None:
        """Block the calling task."""

    def signal(self) -> Signal:
        """A new signal, not set."""

    def lock(self) -> AbstractContextManager[Any]:
        """A new lock: one task at a time."""

    def offload(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function off the event loop, block the calling task meanwhile, return its result."""

    def start_process(self, command: list[str]) -> subprocess.Popen[bytes]:
        """Run a command with pipes for its standard input and output, which block the thread that uses them."""

    def now(self) -> float:
        """Seconds since the epoch, to tell people when something happened."""

    def clock(self) -> float:
        """Seconds that only ever grow, to measure by."""
