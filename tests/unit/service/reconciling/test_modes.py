"""Changes of mode and enforcement at run time: refusals, persistence, and the hosts' routes."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from controller.core.errors import ConflictError
from controller.core.ports.api import UNCONDITIONAL
from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.model.traffic import FIRST_PORT
from controller.southbound.enforcement.registry import rule_enforcements
from controller.southbound.rules.rule_set import RuleSet
from tests.unit.service.lives import rules_equal
from tests.unit.service.world import ANN, FakeStore, World, flow
from tests.unit.southbound.cabling.networks import seen

FABRIC = clos(3, 3, 2)
NETWORK = seen(FABRIC)
NAMED = [flow("h2", "h4"), flow("h1", "h3") | {"udp_src": 50000}]


def started(store: FakeStore | None = None, **settings: Any) -> World:
    return World(FABRIC, NETWORK, store, **settings).planned()


def rules(world: World) -> RuleSet:
    return world.installed[-1][0]


def routes(world: World, host: str = "h1") -> dict[str, Any]:
    return world.read(lambda service: service.routes(host))


def put(world: World, document: dict[str, Any]) -> None:
    world.service.put_job("a", json.dumps(document).encode(), UNCONDITIONAL, ANN)


def preview(world: World, form: dict[str, Any]) -> None:
    world.service.preview(json.dumps(form).encode())


def enforcement(world: World) -> str:
    return str(dict(world.service.mode())["enforcement"])  # type: ignore[arg-type]


def test_each_enforcement_has_rules_of_its_own_and_the_same_paths() -> None:
    world = started()
    world.put("a", [flow("h1", "h3"), flow("h2", "h5")])
    told, held = {}, {}
    for name in rule_enforcements():
        world.service.set_mode(None, name, ANN)
        world.planned()
        assert enforcement(world) == routes(world)["enforcement"] == name
        told[name], held[name] = routes(world)["flows"], rules(world)
    assert not any(rules_equal(held[one], held[two]) for one in held for two in held if one < two)
    paths = {name: [piece["links"] for one in flows for piece in one["pieces"]] for name, flows in told.items()}
    assert paths["per_flow"] == paths["segment_routing"] == paths["source_port"]
    # What is so already is no change.
    epoch = world.service.state.epoch
    world.service.set_mode("planned", "source_port", ANN)
    assert world.service.state.epoch == epoch


@pytest.mark.parametrize(
    ("flows", "ports", "reason"),
    [
        (NAMED, {}, "it specifies source port 50000 for a/all/1"),
        ([flow("h1", "h3")], {"ports": "unknown"}, "the source port of a/all/0 is unknown"),
    ],
)
def test_source_ports_are_not_taken_over_while_some_job_has_its_own(
    flows: list[dict[str, Any]], ports: dict[str, str], reason: str
) -> None:
    world = started()
    put(world, {"flows": flows, **ports})
    with pytest.raises(ConflictError, match=f"job a: .*{reason}"):
        world.service.set_mode("ecmp", "source_port", ANN)
    assert dict(world.service.mode())["mode"] == "planned"  # type: ignore[arg-type]
    assert enforcement(world) == "per_flow"
    world.delete("a")
    world.service.set_mode(None, "source_port", ANN)
    with pytest.raises(InputError) as caught:
        put(world, {"flows": flows, **ports})
    assert caught.value.field == ("ports" if ports else "flows[1].udp_src")
    with pytest.raises(InputError) as caught:
        preview(world, {"put": [{"name": "a", "flows": flows, **ports}]})
    assert caught.value.field == ("put[0].ports" if ports else "put[0].flows[1].udp_src")
    world.put("b", [flow("h1", "h3")])


def test_a_kept_job_with_ports_of_its_own_waits_until_plans_are_enforced_otherwise() -> None:
    store = FakeStore()
    first = started(store)
    first.put("a", NAMED)
    first.settle()
    first.close()
    world = started(store, enforcement="source_port")
    assert "job a is stored but not planned: source_port enforcement does not support it" in str(
        world.health["reasons"]
    )
    assert routes(world)["flows"] == []
    world.service.set_mode(None, "segment_routing", ANN)
    world.until(lambda: world.service.state.desired.left_out == [])
    assert [one["pieces"][0]["udp_src"] for one in routes(world)["flows"]] == [50000]


def test_the_most_recent_setting_of_the_enforcement_wins() -> None:
    store = FakeStore()
    assert enforcement(started(store)) == "per_flow"
    world = started(store, enforcement="segment_routing")
    assert enforcement(world) == "segment_routing"
    world.service.set_mode("ecmp", None, ANN)
    # Nobody has set it: the option counts.
    world = started(store, enforcement="source_port")
    assert enforcement(world) == "source_port"
    world.service.set_mode("planned", "per_flow", ANN)
    world.service.set_mode("ecmp", None, ANN)
    world = started(store, enforcement="source_port")
    assert (enforcement(world), dict(world.service.mode())["mode"]) == ("per_flow", "ecmp")  # type: ignore[arg-type]
    # The option was changed after that.
    world = started(store, enforcement="segment_routing")
    assert enforcement(world) == "segment_routing"


def test_more_flows_between_two_hosts_than_class_ports_are_reported_before_anything_changes() -> None:
    world = started(policy="greedy")
    many = [flow("h1", "h3")] * ((1 << 12) - 1)
    world.put("a", many)
    world.service.set_mode(None, "source_port", ANN)
    epoch = world.service.state.epoch
    with pytest.raises(InputError, match="4095 source ports from h1 to h3") as caught:
        world.put("b", [flow("h1", "h3")])
    assert (caught.value.field, caught.value.value) == ("name", "b")
    assert world.service.state.epoch == epoch
    world.service.set_mode(None, "per_flow", ANN)
    world.put("b", [flow("h1", "h3")])
    with pytest.raises(ConflictError, match=r"source_port enforcement: .*4095 source ports from h1 to h3"):
        world.service.set_mode(None, "source_port", ANN)
    assert enforcement(world) == "per_flow"


def test_labels_that_do_not_suffice_are_reported_before_anything_changes() -> None:
    world = started(label_base=2**20 - 4096)
    with pytest.raises(ConflictError, match="segment_routing enforcement: label_base: 1044480: labels 1044480 to "):
        world.service.set_mode(None, "segment_routing", ANN)
    assert enforcement(world) == "per_flow"


@pytest.mark.parametrize("name", rule_enforcements())
def test_in_mode_frozen_hosts_get_their_previous_paths_and_ports(name: str) -> None:
    world = started(policy="ethereal", enforcement=name)
    world.put("a", [flow("h1", "h3"), flow("h1", "h5"), flow("h2", "h5")])
    before, held = routes(world), rules(world)
    world.service.set_mode("frozen", None, ANN)
    spine = before["flows"][0]["pieces"][0]["path"]
    world.service.drain(spine, True, ANN)
    other = next(one for one in rule_enforcements() if one != name)
    world.service.set_mode(None, other, ANN)
    world.southbound.network_changed.set()
    after = routes(world)
    assert (after["mode"], after["enforcement"]) == ("frozen", name)
    for old, new in zip(before["flows"], after["flows"], strict=True):
        ways = [[(piece["path"], piece["udp_src"], piece["share"]) for piece in one["pieces"]] for one in (old, new)]
        assert ways[0] == ways[1]
    assert rules_equal(rules(world), held)
    world.service.set_mode("planned", None, ANN)
    world.planned()
    told = routes(world)
    assert told["enforcement"] == other
    assert not any(piece["path"] == spine for one in told["flows"] for piece in one["pieces"])


def test_a_split_flow_sends_from_several_ports_and_keeps_the_first_when_it_is_whole_again() -> None:
    world = started(policy="ethereal")
    world.put("a", [flow("h1", "h3")])
    (one,) = routes(world)["flows"]
    assert len(one["pieces"]) == FABRIC.n_paths
    assert min(piece["udp_src"] for piece in one["pieces"]) >= FIRST_PORT
    down = FABRIC.without_links([*FABRIC.cable_names[1:3]])
    world.show(dataclasses.replace(seen(down)), lambda state: state.fabric is not None and state.fabric == down)
    (whole,) = routes(world)["flows"]
    assert len(whole["pieces"]) == 1
    assert whole["pieces"][0]["udp_src"] == one["pieces"][0]["udp_src"]
