"""How much all clients together may hold: bytes in memory, requests at work, streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from controller.rest.problems import unavailable


class Budget:
    """A number of things to share. Not for several threads."""

    def __init__(self, most: int, what: str) -> None:
        """``what``: what a client is told there is too much of."""
        self._most, self._what = most, what
        self.used = 0

    def take(self, amount: int = 1, *, alone: bool = False) -> None:
        """Take some, to be given back.

        Args:
            alone: more than there ever is may be taken while nothing else is.

        Raises:
            ProblemError: 503, there is not as much left.
        """
        if amount and self.used + amount > self._most and not (alone and self.used == 0):
            raise unavailable(f"{self._what}; try again")
        self.used += amount

    def give(self, amount: int = 1) -> None:
        """Give back what was taken."""
        self.used -= amount

    @contextmanager
    def held(self, amount: int = 1) -> Iterator[None]:
        """Take some for as long as the block runs.

        Raises:
            ProblemError: 503, there is not as much left.
        """
        self.take(amount)
        try:
            yield
        finally:
            self.give(amount)
