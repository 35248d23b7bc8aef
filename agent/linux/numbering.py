"""Numbers for values: a value keeps its number as long as it is in use."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Numbering(Generic[T]):
    """Numbers from 1 to ``most``. That of a value which is not in use any more is given again as late as possible."""

    def __init__(self, most: int, *, taken: Iterable[int] = ()) -> None:
        """Begin; ``taken``: numbers that others use, and which are not given before all others."""
        self._most, self._numbers, self._values = most, dict[T, int](), dict[int, T]()
        self._last = max((number for number in taken if number <= most), default=0)

    def number(self, value: T) -> int | None:
        """Return the number of a value, a new one if it has none; ``None``: all are in use."""
        if (number := self._numbers.get(value)) is not None:
            return number
        if len(self._values) >= self._most:
            return None
        while True:
            self._last = self._last % self._most + 1
            if self._last not in self._values:
                self._numbers[value], self._values[self._last] = self._last, value
                return self._last

    def value(self, number: int) -> T | None:
        """Return the value that has a number."""
        return self._values.get(number)

    def drop(self, value: T) -> None:
        """Give up the number of a value, if it has one."""
        if (number := self._numbers.pop(value, None)) is not None:
            del self._values[number]

    def keep(self, values: Iterable[T]) -> None:
        """Give up the numbers of all values but these."""
        kept = set(values)
        for value in [value for value in self._numbers if value not in kept]:
            del self._values[self._numbers.pop(value)]
