"""Calls of one function a fixed time after they were asked for, by one timer for all of them."""

from __future__ import annotations

from collections.abc import Callable

LATE = 1.0
"""Seconds that ``OneTimer`` may be late."""


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
