"""A controller that acts writes nothing while a job goes on unchanged, and plans a ring of another order in time."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address

import pytest

from tests.unit.learning.drawn_sightings import edges
from tests.unit.service.learning.by_hand import by_hand
from tests.unit.service.learning.iterations import Iterations
from tests.unit.service.learning.learned_ring import FABRIC, GB, RING, learned
from tests.unit.service.world import World
from tests.unit.southbound.cabling.networks import seen


@pytest.fixture
def world() -> Iterator[World]:
    made = World(FABRIC, seen(FABRIC), learning="act").planned()
    yield made
    made.close()


def test_a_hundred_varying_iterations_write_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    iterations, count = Iterations(world, monkeypatch), 100
    iterations.begin(RING, 8 + count)
    iterations.go_on(8)
    world.until(lambda: any(job.planned for job in learned(world).jobs))
    by_hand(world)
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
    by_hand(world)
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
