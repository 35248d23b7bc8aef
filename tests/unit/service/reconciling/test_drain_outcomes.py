"""How drains end, and how previews say that they and changes of the mode would end."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from controller.model.errors import InputError, NotFoundError
from controller.model.files.clos import clos
from controller.rest import schemas
from tests.unit.service.world import ANN, World, flow
from tests.unit.southbound.cabling.networks import seen

FABRIC = clos(3, 3, 3)
ACROSS = [flow(f"h{n}", f"h{n + 3}", 10**9) for n in (1, 2, 3)]


@pytest.fixture
def world() -> World:
    made = World(FABRIC, seen(FABRIC)).planned()
    made.put("a", ACROSS)
    return made.planned()


def drained(world: World, *names: str) -> dict[str, Any]:
    told = world.read(lambda service: service.drains(names, True, ANN))
    return schemas.DrainList.model_validate(told).model_dump()


def preview(world: World, **form: Any) -> dict[str, Any]:
    told = world.read(lambda service: service.preview(orjson.dumps(form)))
    return schemas.PreviewDocument.model_validate(told).model_dump()


def test_several_ids_are_one_plan_with_one_event_each(world: World) -> None:
    before = world.service.state.epoch
    world.settle()
    told = drained(world, "spine1", "spine2", "spine1")
    assert (told["epoch"], told["changed"]) == (before + 1, ["spine1", "spine2"])
    assert [row["outcome"] for row in told["links"]] == ["drained", "drained"]
    assert world.service.state.epoch == before + 1
    assert world.store.records[before + 1].cause == "spine1, spine2 drained"
    assert drained(world, "spine1")["changed"] == []
    assert world.service.state.epoch == before + 1
    with pytest.raises(NotFoundError):
        world.service.drains(["spine3", "nothing"], True, ANN)
    assert world.service.state.desired.drained == {"spine1", "spine2"}
    world.close()


@pytest.mark.parametrize(
    ("names", "outcomes"),
    [
        (["spine1"], ["drained"]),
        (["leaf1"], ["not possible"]),
        (["spine1", "spine2", "spine3"], ["not possible"] * 3),
        (["leaf1-spine1", "leaf1-spine2", "spine1"], ["drained", "drained", "drained"]),
    ],
)
def test_a_drain_ends_as_its_preview_said(world: World, names: list[str], outcomes: list[str]) -> None:
    check = preview(world, drain=names)
    assert [row["outcome"] for row in check["drains"]] == outcomes
    told = drained(world, *names)
    assert [row["outcome"] for row in told["links"]] == outcomes
    assert [row["still_used"] for row in told["links"]] == [row["still_used"] for row in check["drains"]]
    # No cable of a drained switch carries a planned flow, and those of one that cannot be drained may.
    loads = {row["id"]: row["load_gbps"] for row in world.read(lambda service: service.links())["links"]}
    for name, outcome in zip(names, outcomes, strict=True):
        if outcome == "drained":
            assert not any(load for link, load in loads.items() if name in link.split("->"))
    world.close()


def test_a_drain_that_leaves_some_cables_in_use_is_partly_done() -> None:
    fabric = clos(2, 2, 1)
    whole = fabric.without_links(["leaf1-spine2"])
    world = World(fabric, seen(whole)).planned()
    told = drained(world, "leaf2")
    # Only the cable to spine1 leads to leaf1.
    assert [(row["outcome"], row["still_used"]) for row in told["links"]] == [("partly", ["leaf2-spine1"])]
    world.close()


def test_a_preview_of_mode_ecmp_says_what_hashing_is_expected_to_give(world: World) -> None:
    told = preview(world, mode="ecmp")
    assert (told["before"]["slowest"], told["before"]["expected"]) == (1.0, None)
    after, (job,) = told["after"], told["jobs"]
    assert (after["slowest"], job["after"], job["before"]) == (None, None, 1.0)
    # Three flows over three uplinks, hashed: all on one at worst, and on average not one on each.
    assert after["expected"]["min"] == pytest.approx(1 / 3)
    assert 1 / 3 < after["expected"]["mean"] < 0.9
    assert job["after_expected"] == after["expected"]
    world.close()


def test_a_preview_says_that_a_job_would_stand_still(world: World) -> None:
    network = seen(FABRIC.without_links([f"leaf1-spine{n}" for n in (1, 2, 3)]))
    world.show(network, lambda state: state.network == network)
    for mode in ("planned", "ecmp"):
        told = preview(world, mode=mode)
        assert (told["after"]["slowest"], told["after"]["unroutable"]) == (0.0, 3)
    world.close()


def test_a_preview_of_an_enforcement_counts_rules_and_refuses_what_cannot_be(world: World) -> None:
    told = {name: preview(world, enforcement=name)["after"] for name in ("per_flow", "source_port")}
    assert {name: value["enforcement"] for name, value in told.items()} == {name: name for name in told}
    for name in ("source_port", "per_flow"):
        world.service.set_mode("planned", name, ANN)
        rules = world.planned().installed[-1][0]
        assert told[name]["most_rules"] == max(len(rules[dpid]) for dpid in rules)
    world.put("own", [{**flow("h4", "h7"), "udp_src": 50000}])
    with pytest.raises(InputError, match="source ports of its own"):
        preview(world, enforcement="source_port")
    assert world.service.state.desired.enforcement == "per_flow"
    world.close()
