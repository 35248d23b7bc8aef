"""What leaves count of flows in no plan reaches learning, while learning and the mode allow it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import IPv4Address

import pytest

from controller.learning.sightings import QpKey
from controller.model.files.clos import clos
from controller.service.tasks.vital_tasks import VitalTasks
from controller.southbound.rollout.watch_rules import FlowCount, WatchedFlow
from tests.unit.service.world import ANN, World
from tests.unit.southbound.cabling.networks import seen

FABRIC = clos(leaves=3, spines=2, hosts_per_leaf=2)
A, B = (int(IPv4Address(FABRIC.hosts[i].ip)) for i in (0, 4))


@pytest.fixture
def world() -> Iterator[World]:
    made = World(FABRIC, seen(FABRIC), learning_watch="on").planned()
    yield made
    made.close()


def test_what_leaves_count_is_seen_by_learning(world: World) -> None:
    world.until(lambda: world.southbound.watched is not None)
    leaves, hosts = world.southbound.watched or ([], frozenset())
    assert list(leaves) == [leaf.dpid for leaf in FABRIC.leaves]
    assert {A, B} < hosts
    now = world.runtime.now()
    flow = WatchedFlow(A, B, 50000)
    world.southbound.counted = [FlowCount(flow, 17, now - 1, 1000), FlowCount(flow, 17, now, 5000)]
    odometers = world.service._learner._odometers
    world.until(lambda: odometers.samples(0.0).sent.tolist() == [0, 4000])
    assert odometers.keys == [QpKey(A, B, 50000, 17)]


def test_watching_ends_with_learning_in_mode_frozen_and_where_ports_choose_paths(world: World) -> None:
    for stop, resume in (
        (lambda: world.service.set_learning("off", ANN), lambda: world.service.set_learning("observe", ANN)),
        (
            lambda: world.service.set_mode("frozen", None, ANN),
            lambda: world.service.set_mode("planned", None, ANN),
        ),
        (
            lambda: world.service.set_mode(None, "source_port", ANN),
            lambda: world.service.set_mode(None, "per_flow", ANN),
        ),
    ):
        world.until(lambda: world.southbound.watched is not None)
        stop()
        world.until(lambda: world.southbound.watched is None)
        resume()
    world.until(lambda: world.southbound.watched is not None)


@pytest.mark.parametrize("option", ["off", "on"])
def test_the_task_runs_with_the_option_alone(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = list[str]()
    spawn = VitalTasks.spawn

    def spawned(tasks: VitalTasks, name: str, task: Callable[[], None]) -> None:
        names.append(name)
        spawn(tasks, name, task)

    monkeypatch.setattr(VitalTasks, "spawn", spawned)
    made = World(FABRIC, seen(FABRIC), learning_watch=option).planned()
    made.close()
    assert "learning" in names
    assert ("watch" in names) == (option == "on")
