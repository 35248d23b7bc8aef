"""A limit of large exchanges at a time: many switches that are filled or read at once would all be late.

A switch has to answer a barrier within seconds. Where a thousand of them get thousands of rules each, what is sent to
one waits behind what is sent to all others, in the controller, the network, and on switches that share a processor.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from eventlet.semaphore import Semaphore
from ryu.lib import hub

AT_ONCE = 24
"""Large exchanges at a time."""

LONGEST = 1.0
"""Seconds after which the next one begins in any case: a switch that does not answer does not hold up others."""


class TransferLimiter:
    """Bounds how many large exchanges run at once; slots are given in the order in which they were asked for."""

    def __init__(self, at_once: int = AT_ONCE, longest: float = LONGEST) -> None:
        """Allow ``at_once`` exchanges, each for ``longest`` seconds."""
        self._free, self._longest = Semaphore(at_once), longest

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Wait for a slot; it ends with the block, or after ``longest`` seconds."""
        self._free.acquire()
        ended = False

        def end() -> None:
            nonlocal ended
            if not ended:
                ended = True
                self._free.release()

        timer = hub.spawn_after(self._longest, end)
        try:
            yield
        finally:
            timer.cancel()
            end()
