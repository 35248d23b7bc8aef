"""Iterations of a job that a controller learns."""

from __future__ import annotations

import numpy as np
import pytest

from controller.service.learning.learned_planning import BETWEEN_PLANS
from tests.unit.learning.drawn_sightings import Draw, Transfers, polled_counters
from tests.unit.service.learning.by_hand import look, step
from tests.unit.service.learning.learned_ring import body_of
from tests.unit.service.world import World


class Iterations:
    """Iterations of a ring, and of another one in its place, told to a controller at the times of a clock set here."""

    PERIOD = 0.7

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """Begin now; the jitter of a ring's iterations is 1 % of the bytes and 5 % of the period."""
        self.world, self.now = world, world.runtime.now()
        monkeypatch.setattr(world.runtime, "now", lambda: self.now)

    def begin(self, transfers: Transfers, iterations: int) -> None:
        """Send by these transfers from now on, so many iterations at most."""
        draw = Draw(self.PERIOD, iterations + 1, self.now, period_jitter=0.05, bytes_jitter=0.01)
        self.sent, self.told = polled_counters(transfers, draw, 0.05, np.random.default_rng(1)), self.now

    def go_on(self, iterations: int = 1) -> None:
        """Let iterations pass and tell what was sent."""
        self.now += iterations * self.PERIOD
        rows = (self.sent.at >= self.told) & (self.sent.at < self.now)
        sent = self.sent._replace(qp=self.sent.qp[rows], at=self.sent.at[rows], sent=self.sent.sent[rows])
        self.world.service.see(body_of(sent))
        self.told = self.now

    def look(self) -> None:
        """Look at what was told and act on it, as if the last plan was long ago: a plan that only pays may be made.

        Only ``by_hand``.
        """
        look(self.world)
        self.world.service._acting.learned._last = -BETWEEN_PLANS
        step(self.world)
