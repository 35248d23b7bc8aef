"""Values of the last 24 hours in memory of a fixed size: the older a value, the longer the time for which it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.model.fabric import FloatArray
from controller.model.tolerances import TOLERANCE


class Resolution(NamedTuple):
    """``slots`` slots, each of ``step`` seconds."""

    step: int
    slots: int


RESOLUTIONS = (Resolution(10, 60), Resolution(60, 120), Resolution(600, 144))
"""10 minutes, 2 hours and 24 hours."""


class StoredForm(NamedTuple):
    """How values are stored: rounded up to 1 / ``steps``, as ``kind``, whose largest value stands for unknown.

    Values are at least 0; larger ones than ``kind`` can hold are stored as its second largest.
    """

    kind: type[np.uint8] | type[np.uint16]
    steps: int

    @property
    def unknown(self) -> int:
        """The stored form of NaN."""
        return int(np.iinfo(self.kind).max)

    def store(self, values: NDArray[np.floating[Any]]) -> NDArray[np.uint8 | np.uint16]:
        """Return values in their stored form."""
        # A value that is one of the steps must not become the next one by the error of the product.
        steps = np.ceil(values * self.steps - TOLERANCE)
        return np.where(np.isnan(values), self.unknown, np.clip(steps, 0, self.unknown - 1)).astype(self.kind)

    def read(self, stored: NDArray[np.uint8 | np.uint16]) -> FloatArray:
        """Return the values of their stored form."""
        return np.where(stored == self.unknown, np.nan, stored / self.steps)


LOADS = StoredForm(np.uint8, 200)
"""Parts of a link's capacity, in steps of half a percent."""

SPEEDS = StoredForm(np.uint16, 10_000)


@dataclass(frozen=True)
class Series:
    """One key's values of one resolution, oldest first.

    Attributes:
        step: seconds of a slot.
        ends: seconds between the end of the last slot and the time of the question; negative: the slot goes on.
        mean: of the known values in each slot; NaN: none is known.
        worst: of these, the one that is worst.
    """

    step: int
    ends: float
    mean: FloatArray
    worst: FloatArray


class _Ring:
    """The slots of one resolution."""

    _NOTHING = np.array([[0.0], [0.0], [np.nan]], dtype=np.float32)

    def __init__(self, resolution: Resolution, scale: StoredForm, worst: np.ufunc) -> None:
        self.step, self.slots = resolution
        self._scale, self._worst = scale, worst
        # [mean or worst, S, K], and of the slot that goes on: [sum, count or worst, K].
        self._stored = np.empty((2, self.slots, 0), dtype=scale.kind)
        self._open = np.empty((3, 0), dtype=np.float32)
        self._number = -1

    def choose(self, columns: NDArray[np.int64]) -> None:
        """Take other keys: each one's column now, -1 for a new key."""
        self._stored = _taken(self._stored, columns, np.array(self._scale.unknown, dtype=self._scale.kind))
        self._open = _taken(self._open, columns, self._NOTHING)

    def add(self, at: float, values: FloatArray) -> None:
        number = int(at // self.step)
        if number != self._number:
            # Slots without samples are unknown, also those that still hold what was a whole round ago.
            first = max(self._number + 1, number - self.slots + 1)
            self._stored[:, [passed % self.slots for passed in range(first, number + 1)]] = self._scale.unknown
            self._open[:] = self._NOTHING
            self._number = number
        total, count, worst = self._open
        known = ~np.isnan(values)
        total[known] += values[known]
        count[known] += 1
        worst[:] = self._worst(worst, values)
        mean = np.divide(total, count, where=count > 0, out=np.full(len(values), np.nan, dtype=np.float32))
        self._stored[:, number % self.slots] = self._scale.store(mean), self._scale.store(worst)

    def read(self, column: int, now: float) -> Series:
        number = int(now // self.step)
        numbers = np.arange(max(number - self.slots + 1, 0), number + 1)
        there = (numbers <= self._number) & (numbers > self._number - self.slots)
        stored = np.full((2, len(numbers)), self._scale.unknown, dtype=self._scale.kind)
        stored[:, there] = self._stored[:, numbers[there] % self.slots, column]
        mean, worst = self._scale.read(stored)
        return Series(self.step, now - (number + 1) * self.step, mean, worst)

    @property
    def nbytes(self) -> int:
        return self._stored.nbytes + self._open.nbytes


def _taken(array: NDArray[Any], columns: NDArray[np.int64], fill: NDArray[Any]) -> NDArray[Any]:
    """Return the columns of an array, ``fill`` for those that are -1."""
    taken = np.empty((*array.shape[:-1], len(columns)), dtype=array.dtype)
    taken[...] = fill
    taken[..., columns >= 0] = array[..., columns[columns >= 0]]
    return taken


class FallingSeries:
    """Series of values by key, in three resolutions. Times are those of a clock that never goes back."""

    def __init__(self, scale: StoredForm, worst: np.ufunc) -> None:
        """Begin without keys; ``worst`` is ``np.fmax`` or ``np.fmin``."""
        self._rings = [_Ring(resolution, scale, worst) for resolution in RESOLUTIONS]
        self._column: dict[str, int] = {}

    def add(self, at: float, keys: Sequence[str], values: FloatArray) -> None:
        """Add a sample, not before the one before it.

        Args:
            at: when it was taken, seconds.
            keys: [K] the present keys: the series of others are forgotten.
            values: [K] NaN where a value is not known.
        """
        if list(self._column) != list(keys):
            columns = np.array([self._column.get(key, -1) for key in keys], dtype=np.int64)
            for ring in self._rings:
                ring.choose(columns)
            self._column = {key: column for column, key in enumerate(keys)}
        for ring in self._rings:
            ring.add(at, values)

    def read(self, key: str, now: float) -> list[Series]:
        """Return the series of a key until now, the finest resolution first; empty: there is no such key."""
        column = self._column.get(key)
        return [] if column is None else [ring.read(column, now) for ring in self._rings]

    @property
    def nbytes(self) -> int:
        """The bytes that the values take."""
        return sum(ring.nbytes for ring in self._rings)
