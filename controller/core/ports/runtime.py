"""The services that the core needs from its environment: it imports neither Ryu nor eventlet and reads no clock."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Signal(Protocol):
    """A signal that one task waits for and another one sets."""

    def wait(self, seconds: float | None = None) -> object:
        """Block the calling task until ``set``, at most so long; the return value has no meaning."""

    def set(self) -> None:
        """Wake the waiting tasks; does nothing if none waits."""

    def clear(self) -> None:
        """Make the next ``wait`` wait again."""


class Runtime(Protocol):
    """Tasks, waiting, time, and a place for heavy work."""

    def spawn(self, task: Callable[[], None]) -> None:
        """Run a task beside the others, until it returns or the program ends."""

    def sleep(self, seconds: float) -> None:
        """Block the calling task."""

    def signal(self) -> Signal:
        """Return a new signal, not set."""

    def lock(self) -> AbstractContextManager[Any]:
        """Return a new lock, which one task at a time can hold."""

    def offload(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function off the event loop, block the calling task meanwhile, return its result."""

    def rest(self) -> None:
        """Let other tasks run; called in offloaded work that takes long in Python."""

    def start_process(self, command: list[str]) -> subprocess.Popen[bytes]:
        """Run a command with pipes for its standard input and output, which block the thread that uses them."""

    def now(self) -> float:
        """Return the time in seconds since the epoch, to be shown to people."""

    def clock(self) -> float:
        """Return the seconds of a monotonic clock, for measuring durations."""
