"""One rank's part in a collective: memory, messages that land in it, messages that leave."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emulation.roce.collectives.pattern import Array


class Send(NamedTuple):
    """A message for rank ``peer``, to be written at byte ``va`` of its memory. Its data stay as they are until then."""

    peer: int
    va: int
    data: Array


class Slot(NamedTuple):
    """Destination of one message of an iteration: elements [start, stop) of the area, written by rank ``peer``."""

    start: int
    stop: int
    peer: int
    what: str
    chunk: int


class RankProgram(ABC):
    """Base of all operations.

    The memory has one area, or two areas that iterations use in turn if there is more than one: a peer may be one
    iteration ahead, but never two, as each rank waits for messages of every other. Within an area each message has a
    separate slot, so an arriving message never overwrites unused data. Empty messages are neither sent nor expected.

    Attributes:
        memory: [areas * area] elements that peers write into.
    """

    def __init__(self, slots: Sequence[Slot], area: int, dtype: np.dtype[Any], iterations: int) -> None:
        """Allocate the memory: one or two areas of ``area`` elements."""
        self.memory = touched((2 if iterations > 1 else 1) * area, dtype)
        self._slots = sorted(slot for slot in slots if slot.stop > slot.start)
        self._starts = [slot.start for slot in self._slots]
        self._area = area
        self._iteration = -1
        self._missing: set[Slot] = set()
        self._early: list[Slot] = []
        self._bytes = [[0] * len(self._slots) for _ in range(2)]

    # -- called by the owner ----------------------------------------------------------------------------------

    def begin(self, iteration: int) -> list[Send]:
        """Start iteration 0, 1, ... and return the first messages; the previous iteration must be complete and sent."""
        self._iteration = iteration
        self._missing = set(self._slots)
        sends = self._start()
        early, self._early = self._early, []
        for slot in early:
            sends += self._take(slot)
        return [send for send in sends if len(send.data)]

    def arrived(self, va: int, length: int) -> list[Send]:
        """Note that ``length`` bytes of a message were written at byte ``va``; return the messages to send next.

        Raises:
            ValueError: no message may be written there.
        """
        area, at = divmod(va // self.memory.itemsize, self._area)
        index = bisect_right(self._starts, at) - 1
        if index < 0 or at >= self._slots[index].stop:
            raise ValueError(f"unexpected write of {length} bytes to {va}")
        slot = self._slots[index]
        received = self._bytes[area]
        received[index] += length
        if received[index] < (slot.stop - slot.start) * self.memory.itemsize:
            return []
        received[index] = 0
        if area != self._iteration % 2:
            self._early.append(slot)
            return []
        return [send for send in self._take(slot) if len(send.data)]

    @property
    def complete(self) -> bool:
        """Whether all messages of this iteration have arrived."""
        return not self._missing

    def missing(self) -> str:
        """Return the missing messages as text."""
        rows = [f"{slot.what} {slot.chunk} from rank {slot.peer}" for slot in sorted(self._missing)]
        return ", ".join(rows[:3]) + (f" and {len(rows) - 3} more" if len(rows) > 3 else "")

    @abstractmethod
    def check(self) -> str:
        """Return the error in the result of the complete iteration as text; empty if it is correct."""

    # -- defined by each operation ----------------------------------------------------------------------------

    @abstractmethod
    def _start(self) -> list[Send]:
        """Return the first messages of an iteration."""

    @abstractmethod
    def _on_slot(self, slot: Slot) -> list[Send]:
        """Process a complete message, and return the messages to send next."""

    def _take(self, slot: Slot) -> list[Send]:
        self._missing.discard(slot)
        return self._on_slot(slot)

    def _view(self, start: int, stop: int) -> Array:
        """Elements of the area that this iteration uses."""
        base = self._iteration % 2 * self._area
        return self.memory[base + start : base + stop]

    def _va(self, start: int) -> int:
        """Byte address of an element of this iteration's area; every rank's areas are laid out alike."""
        return (self._iteration % 2 * self._area + start) * self.memory.itemsize


def touched(elements: int, dtype: np.dtype[Any]) -> Array:
    """Memory that the process has in fact, as registered memory is pinned: no page fault later, while packets wait."""
    memory: Array = np.empty(elements, dtype=dtype)
    memory.fill(0)
    return memory


def difference(name: str, have: Array, expected: NDArray[Any]) -> str:
    """Describe the first element that is not as expected; empty if there is none."""
    wrong = np.flatnonzero(have != expected)
    if not len(wrong):
        return ""
    first = int(wrong[0])
    return (
        f"{name}: {len(wrong)} of {len(have)} elements wrong, element {first} is {have[first]}, not {expected[first]}"
    )
