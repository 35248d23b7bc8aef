"""A controller that acts writes nothing while a job goes on unchanged, and plans a ring of another order in time."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address

import numpy as np
import pytest

from controller.service.learning.learned_planning import BETWEEN_PLANS
from tests.unit.learning.drawn_sightings import Draw, Transfers, edges, polled_counters
from tests.unit.service.test_learning import FABRIC, GB, RING, body_of, learned
from tests.unit.service.world import World
from tests.unit.southbound.cabling.networks import seen


@pytest.fixture
def world() -> Iterator[World]:
    made = World(FABRIC, seen(FABRIC), learning="act").planned()
    yield made
    made.close()


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
        """Look at what was told and act on it, as if the last plan was long ago: a plan that only pays may be made."""
        self.world.service._learner.look(self.world.service.state)
        planning = self.world.service._acting.learned
        planning._last = -BETWEEN_PLANS
        planning.step()


def test_a_hundred_varying_iterations_write_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    iterations, count = Iterations(world, monkeypatch), 100
    iterations.begin(RING, 8 + count)
    iterations.go_on(8)
    world.until(lambda: any(job.planned for job in learned(world).jobs))
    world.planned()
    epoch, installations = world.service.state.epoch, len(world.installed)
    for _ in range(count):
        iterations.go_on()
        iterations.look()
        assert [job.planned for job in learned(world).jobs] == [True]
    assert (world.service.state.epoch, len(world.installed)) == (epoch, installations)


def test_a_ring_of_another_order_is_planned_after_four_iterations(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rules of flows that have ended may stay for half a minute."""
    iterations = Iterations(world, monkeypatch)
    iterations.begin(RING, 12)
    iterations.go_on(8)
    world.until(lambda: any(job.planned for job in learned(world).jobs))
    order = [0, 2, 4, 1, 3, 5]
    pairs = [(a, order[(i + 1) % len(order)]) for i, a in enumerate(order)]
    iterations.begin(edges(pairs, GB, 0.3, 0.7, first_qp=100), 4)
    for _ in range(4):
        iterations.go_on()
        iterations.look()
    (job,) = world.service._learner.jobs
    assert {(key.src, key.dst) for key in job.qps} == {
        (int(IPv4Address(FABRIC.hosts[a].ip)), int(IPv4Address(FABRIC.hosts[b].ip))) for a, b in pairs
    }
    traffic = world.planned().service.state.traffic
    assert set(pairs) <= set(zip(traffic.src.tolist(), traffic.dst.tolist(), strict=True))
