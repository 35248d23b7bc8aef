"""How many changes each token has requested in the last minute, against the quota of the token."""

from __future__ import annotations

import math
from collections import deque
from http import HTTPStatus

from controller.core.caller import Caller
from controller.rest.problems import ProblemError

WINDOW = 60.0
"""Seconds in which the changes of a quota are counted."""


class ChangeRates:
    """Counts the requests for changes of callers that have a quota. Not thread-safe."""

    def __init__(self) -> None:
        """Begin with no requests."""
        self._requested: dict[str, deque[float]] = {}

    def count(self, caller: Caller, now: float) -> None:
        """Count a request for a change.

        Args:
            caller: who asks; without a quota for changes nothing is counted.
            now: monotonic time, seconds.

        Raises:
            ProblemError: 429, it has requested as many within the last minute as its quota allows. The request
                that is refused does not count.
        """
        most = caller.quota.changes
        if most is None:
            return
        requested = self._requested.setdefault(caller.name, deque())
        while requested and requested[0] <= now - WINDOW:
            requested.popleft()
        if len(requested) >= most:
            # With a quota that was lowered, more than one of them has to grow old.
            oldest = requested[len(requested) - most] if most else now
            raise ProblemError(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"the quota of token {caller.name} is {most} changes a minute",
                headers={"Retry-After": str(max(1, math.ceil(oldest + WINDOW - now)))},
            )
        requested.append(now)
