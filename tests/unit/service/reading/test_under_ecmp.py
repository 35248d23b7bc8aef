"""The comparison with ECMP for the present traffic: the service agrees with the policy itself."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from controller.model.errors import UnavailableError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.network_state import NetworkState
from controller.routing import assign
from controller.routing.objective.fairness import evaluate
from tests.unit.service.world import ANN, World, flow
from tests.unit.southbound.cabling.networks import seen

RING = [flow(f"h{a}", f"h{b}") for a, b in ((1, 3), (2, 4), (3, 5), (4, 6), (5, 7), (6, 8), (7, 1), (8, 2))]


@pytest.fixture
def fabric() -> Fabric:
    return clos(2, 4, 2)


@pytest.fixture
def world(fabric: Fabric) -> World:
    return World(fabric, seen(fabric)).planned()


def loads(world: World, under: Literal["plan", "ecmp"]) -> dict[str, float]:
    answer = world.read(lambda service: service.links(under))
    assert answer["under"] == under
    return {row["id"]: row["load_gbps"] for row in answer["links"]}


def test_links_and_plan_under_ecmp_are_those_of_the_policy_on_what_is_live_and_not_drained(world: World) -> None:
    world.put("a", RING)
    for name in (None, "leaf1-spine1"):
        if name is not None:
            world.service.drain(name, True, ANN)
        candidate = world.service.state.candidate
        assert candidate is not None
        hashed = assign("ecmp", candidate.planned_on, candidate.traffic, seed=0)
        objective = evaluate(candidate.planned_on, candidate.traffic, hashed.assignment)
        found = loads(world, "ecmp")
        assert list(found) == list(candidate.planned_on.link_ids)
        assert np.allclose(list(found.values()), objective.link_load)
        assert found != loads(world, "plan")
        told = world.read(lambda service: service.plan("ecmp"))
        assert (told["under"], told["plan"]["policy"]) == ("ecmp", "ecmp")
        assert told["plan"]["min_speed"] == pytest.approx(objective.min_speed)
        assert {row["id"]: row["load_gbps"] for row in told["plan"]["links"]} == found
        # It is a question, not a change.
        assert world.read(lambda service: service.plan())["plan"]["policy"] == "fair"
    assert found["leaf1->spine1"] == 0


def test_it_is_made_once_a_plan_and_anew_for_the_next(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put("a", RING)
    made: list[object] = []
    under = world.service._under_ecmp
    make = under._make
    monkeypatch.setattr(under, "_make", lambda candidate: made.append(candidate) or make(candidate))
    first = loads(world, "ecmp")
    assert loads(world, "ecmp") == first
    world.read(lambda service: service.plan("ecmp"))
    assert len(made) == 1
    world.delete("a")
    assert set(loads(world, "ecmp").values()) == {0.0}
    assert len(made) == 2


def test_without_a_plan_there_is_nothing_to_compare_with() -> None:
    world = World(None, NetworkState())
    with pytest.raises(UnavailableError):
        world.service.links("ecmp")
