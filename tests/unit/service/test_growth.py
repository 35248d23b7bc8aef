"""What a controller remembers does not grow with the number of changes that it has seen."""

from __future__ import annotations

import gc
from collections import Counter

import pytest

from controller.model.files.clos import clos
from controller.southbound.enforcement.registry import rule_enforcements
from tests.unit.service.world import ANN, World, flow
from tests.unit.southbound.cabling.networks import seen

FABRIC = clos(3, 3, 2)

BOUNDED = {"Event", "LogRecord"}
"""Events are the newest 2,000, which these are not yet; lines of the log are kept by the runner of tests."""

ROUNDS = 3


def one_round(world: World) -> None:
    """Push, replace, drain, fail, repair, undrain and delete: all is as before in the end."""
    for name, src, dst in (("a", "h1", "h3"), ("b", "h2", "h5"), ("a", "h1", "h5"), ("c", "h6", "h1")):
        world.put(name, [flow(src, dst), flow(dst, src)])
    world.service.drain("spine1", True, ANN)
    world.show(
        seen(FABRIC.without_links(["leaf1-spine2"])),
        lambda state: state.fabric is not None and not state.fabric.link_up.all(),
    )
    world.show(seen(FABRIC), lambda state: state.fabric is not None and bool(state.fabric.link_up.all()))
    world.service.drain("spine1", False, ANN)
    for name in ("a", "b", "c"):
        world.delete(name)
    world.planned()
    world.settle()


def forget_what_the_test_keeps(world: World) -> None:
    del world.installed[:-1]
    for epoch in list(world.store.records)[:-1]:
        del world.store.records[epoch]


def objects(world: World) -> Counter[str]:
    forget_what_the_test_keeps(world)
    gc.collect()
    kinds = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())
    return Counter({kind: n for kind, n in kinds.items() if kind.rpartition(".")[2] not in BOUNDED})


@pytest.mark.parametrize("enforcement", rule_enforcements())
def test_no_kind_of_object_becomes_more_with_each_round_of_changes(enforcement: str) -> None:
    world = World(FABRIC, seen(FABRIC), enforcement=enforcement).planned()
    grown: list[set[str]] = []
    before = objects(world)
    for _ in range(3):  # what fills caches grows once
        for _ in range(ROUNDS):
            one_round(world)
        now = objects(world)
        grown.append({kind for kind, n in (now - before).items() if n >= ROUNDS})
        before = now
    assert set.intersection(*grown) == set()
