"""Calls of one function, spaced out.

``Spaced``: the function is requested for each of a thousand switches and runs now and then. ``OneTimer``: it runs a
fixed time after the requests, by one timer for all of them.
"""

from __future__ import annotations

from collections.abc import Callable

PART = 0.1
"""The part of the time that the function may take, about."""

LATE = 1.0
"""Seconds that ``OneTimer`` may be late."""


class Spaced:
    """Runs a function at once, or a little later together with the next calls.

    After each run it rests for a time in proportion to what the run took. The function runs once more after the last
    call, so its input is never older than that call.
    """

    def __init__(
        self,
        function: Callable[[], None],
        later: Callable[[float, Callable[[], None]], None],
        clock: Callable[[], float],
    ) -> None:
        """Space out the calls of a function.

        Args:
            function: runs on the event loop.
            later: runs a task once, after so many seconds.
            clock: seconds of a monotonic clock.
        """
        self._function, self._later, self._clock = function, later, clock
        self._free_at = clock()
        self._waiting = self._running = False

    def __call__(self) -> None:
        """Run the function now, or together with the next calls."""
        if self._waiting:
            return
        wait = self._free_at - self._clock()
        if wait > 0 or self._running:
            self._waiting = True
            self._later(max(wait, 0.0), self._again)
        else:
            self._run()

    def _again(self) -> None:
        self._waiting = False
        self()

    def _run(self) -> None:
        began = self._clock()
        self._running = True
        try:
            self._function()
        finally:
            self._running = False
            now = self._clock()
            self._free_at = now + (now - began) * (1 / PART - 1)


class OneTimer:
    """Runs a function a fixed time after it was asked for, with one timer at a time however often it is asked for.

    A run follows each request by the time given at least, and at most ``LATE`` seconds later.
    """

    def __init__(
        self,
        function: Callable[[], None],
        seconds: float,
        later: Callable[[float, Callable[[], None]], None],
        clock: Callable[[], float],
    ) -> None:
        """Run a function some time after each request.

        Args:
            function: runs on the event loop.
            seconds: between a request and the run.
            later: runs a task once, after so many seconds.
            clock: seconds of a monotonic clock.
        """
        self._function, self._seconds, self._later, self._clock = function, seconds, later, clock
        self._wanted_at = float("-inf")
        self._pending = False

    def __call__(self) -> None:
        """Request a run after ``seconds``."""
        self._wanted_at = self._clock() + self._seconds
        if not self._pending:
            self._wait(self._seconds)

    def _wait(self, seconds: float) -> None:
        self._pending = True
        self._later(seconds, self._over)

    def _over(self) -> None:
        self._pending = False
        left = self._wanted_at - self._clock()
        if left > 0:
            self._wait(min(left, LATE))
        self._function()
