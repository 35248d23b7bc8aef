"""Rounds over many switches: one switch after the other, evenly over a period, until stopped."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from controller.southbound.limits.quiet_log import QuietLog

IDLE_SECONDS = 0.2
"""Between two looks for switches while none is connected."""

REST_SECONDS = 1.0
"""After a round that failed."""


class World(Protocol):
    """The services that rounds need from their surroundings."""

    def spawn(self, task: Callable[[], None]) -> None:
        """Run a task beside the others."""

    def sleep(self, seconds: float) -> None:
        """Block the calling task."""

    def clock(self) -> float:
        """Return the seconds of a monotonic clock."""


class Round(NamedTuple):
    """One round: the switches, by datapath id, and the seconds over which they are spread."""

    dpids: Sequence[int]
    seconds: float


class PacedRounds:
    """The task of the rounds. A turn does not block: long work runs beside it."""

    def __init__(
        self, world: World, log: logging.Logger, what: str, *, begin: Callable[[], Round], turn: Callable[[int], None]
    ) -> None:
        """Prepare the rounds; ``start`` begins them.

        Args:
            world: tasks, waiting and time.
            log: for failures.
            what: the activity, for people: ``polling``.
            begin: called at the beginning of each round.
            turn: called for each of its switches.
        """
        self._world, self._log, self._what = world, log, what
        self._begin, self._turn = begin, turn
        self._running = False
        self._quiet = QuietLog(log, clock=world.clock)

    def start(self) -> None:
        """Start the task that runs the rounds."""
        self._running = True
        self._world.spawn(self._run)

    def stop(self) -> None:
        """End with the next switch."""
        self._running = False

    def _run(self) -> None:
        while self._running:
            try:
                self._round()
            except Exception as error:
                # Continue: this is a programming error.
                self._quiet.write(logging.ERROR, "round", "a round of %s failed: %r", self._what, error)
                self._log.debug("a round of %s failed", self._what, exc_info=error)
                self._world.sleep(REST_SECONDS)

    def _round(self) -> None:
        began = self._world.clock()
        dpids, seconds = self._begin()
        for number, dpid in enumerate(dpids):
            self._wait_until(began + number * seconds / len(dpids))
            if not self._running:
                return
            try:
                self._turn(dpid)
            except Exception as error:
                # Continue with the other switches.
                self._quiet.write(logging.ERROR, dpid, "switch %#x: %s failed: %r", dpid, self._what, error)
        self._wait_until(began + (seconds if dpids else min(seconds, IDLE_SECONDS)))

    def _wait_until(self, moment: float) -> None:
        # Yield at least once: a round that takes longer than its time must not starve other tasks.
        self._world.sleep(max(moment - self._world.clock(), 0.0))
