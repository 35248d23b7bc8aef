"""A restarted controller reaches the same state, as far as the network allows."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError, NotFoundError, UnavailableError
from tests.unit.laws import examples
from tests.unit.service.lives import FABRIC, HOSTS, OPERATIONS, Life, Operation, rules_equal, told
from tests.unit.service.world import ANN, FakeStore, World, flow
from tests.unit.southbound.cabling.networks import seen


@settings(max_examples=examples(30, 180))
@given(st.lists(OPERATIONS, max_size=8), st.sampled_from(["fair", "ethereal"]))
def test_after_any_life_a_fresh_controller_with_the_same_store_is_in_the_same_state(
    life: list[Operation], policy: str
) -> None:
    alive = Life(policy)
    for operation in life:
        alive.do(operation)
    alive.world.settle()
    fresh = alive.started()
    frozen = alive.world.service.state.desired.mode == "frozen"
    before, after = told(alive.world), told(fresh)
    if frozen:
        # What is only computed while the switches are frozen is not kept: it is computed anew.
        for document in (before, after):
            del document["paths"], document["levels"], document["gap"], document["routes"]
    assert after == before
    (mine, epoch), (theirs, other_epoch) = alive.world.installed[-1], fresh.installed[-1]
    assert rules_equal(mine, theirs)
    assert epoch == other_epoch
    alive.world.close()
    fresh.close()


@pytest.mark.parametrize("down", [[], ["leaf1-spine1"], ["spine2", "leaf3-spine1"]])
def test_an_unchanged_network_gets_the_same_plan_under_the_same_epoch_and_no_record(down: list[str]) -> None:
    store = FakeStore()
    network = seen(FABRIC.without_links(down))
    first = World(FABRIC, network, store).planned()
    first.put("a", [flow(a, b) for a in HOSTS for b in HOSTS if a != b])
    kept = dict(store.records)
    again = World(FABRIC, dataclasses.replace(network, starting=True, links={}, ports={}, switches=frozenset()), store)
    again.until(lambda: again.service.state.plan is not None)
    assert again.installed == []
    again.show(network, lambda state: state.network_known)
    (rules, epoch) = again.installed[-1]
    assert epoch == first.installed[-1][1] == again.service.state.epoch
    assert rules_equal(rules, first.installed[-1][0])
    assert store.records == kept


def test_a_link_that_failed_while_the_controller_was_away_moves_its_flows_and_no_others() -> None:
    store = FakeStore()
    first = World(FABRIC, seen(FABRIC), store).planned()
    first.put("a", [flow("h1", "h3"), flow("h2", "h5")])
    before = told(first)["paths"]
    down = FABRIC.without_links(["leaf2-spine1", "leaf2-spine2"])
    after = told(World(FABRIC, seen(down), store).planned())["paths"]
    assert after["a/all/1"] == before["a/all/1"]
    assert "leaf2" in str(after["a/all/0"])
    assert "spine3" in str(after["a/all/0"])


def test_in_discovery_kept_jobs_wait_for_their_hosts_and_no_rule_changes_for_that() -> None:
    store = FakeStore()
    whole = seen(FABRIC, hosts=True)
    first = World(None, whole, store).planned()
    ip = {host.name: host.ip for host in FABRIC.hosts}
    first.put("a", [flow(ip["h1"], ip["h3"]), flow(ip["h2"], ip["h5"])])
    kept = told(first)
    again = World(None, dataclasses.replace(whole, hosts={}, starting=True), store)
    again.until(lambda: again.service.state.survey.findings is not None and bool(again.service.state.unknown))
    assert again.read(lambda service: service.jobs())["jobs"][0]["left_out"]
    some = dict(list(whole.hosts.items())[::-1][:2])
    again.show(dataclasses.replace(whole, hosts=some, starting=True), lambda state: state.fabric is not None)
    assert "is stored but not planned" in str(again.health["reasons"])
    with pytest.raises(UnavailableError, match="still being discovered"):
        again.delete("a")
    reversed_hosts = dict(list(whole.hosts.items())[::-1])
    again.show(dataclasses.replace(whole, hosts=reversed_hosts), lambda state: state.network_known)
    paths, ports = told(again)["paths"], told(again)["jobs"]
    assert ports == kept["jobs"]
    assert paths == kept["paths"]
    assert rules_equal(again.installed[-1][0], first.installed[-1][0])
    assert "is kept" not in str(again.health["reasons"])


def test_a_frozen_controller_without_the_network_of_then_gives_switches_what_they_held() -> None:
    life = Life()
    life.do(("put", ("a", [flow("h1", "h3"), flow("h3", "h1")], False)))
    life.do(("mode", "frozen"))
    held = life.world.installed[-1]
    life.do(("put", ("b", [flow("h2", "h4")], False)))
    life.do(("links", {"leaf1-spine1", "leaf2-spine2"}))
    life.restart()
    assert rules_equal(life.world.installed[-1][0], held[0])
    assert life.world.installed[-1][1] == held[1]
    life.do(("links", set()))
    assert life.world.installed[-1][1] == held[1]
    life.do(("mode", "planned"))
    assert len(told(life.world)["paths"]) == 3
    assert life.world.installed[-1][1] > held[1]


def test_a_job_that_lost_its_ports_to_other_servers_gets_new_ones() -> None:
    store = FakeStore()
    World(FABRIC, seen(FABRIC), store).planned().put("a", [flow("h1", "h3"), flow("h1", "h2")])
    merged = dataclasses.replace(
        FABRIC,
        hosts=tuple(dataclasses.replace(h, server="one" if h.name in ("h1", "h2") else h.server) for h in FABRIC.hosts),
    )
    after = World(merged, seen(merged), store).planned()
    assert [row["id"] for row in after.read(lambda service: service.plan())["plan"]["flows"]] == ["a/all/0"]


def test_preview_changes_nothing_and_says_what_the_change_then_does() -> None:
    life = Life()
    life.do(("put", ("a", [flow(a, b) for a in HOSTS for b in HOSTS if a != b], False)))
    state, records, installed = life.world.service.state, dict(life.store.records), list(life.world.installed)
    form = {"put": [{"name": "b", "flows": [flow("h1", "h6", 10**9)]}], "delete": [], "drain": ["spine1"]}
    answer = life.world.read(lambda service: service.preview(json.dumps(form).encode()))
    assert (life.world.service.state, life.store.records, life.world.installed) == (state, records, installed)
    assert answer["epoch"] == state.epoch
    assert {job["job"]: job["before"] is None for job in answer["jobs"]} == {"a": False, "b": True}
    life.do(("drain", ("spine1", True)))
    drained = life.world.read(lambda service: service.plan())["plan"]["min_level"]
    only = {"drain": ["spine1"]}
    life.do(("drain", ("spine1", False)))
    life.do(("rollback", 1))
    told_before = life.world.read(lambda service: service.preview(json.dumps(only).encode()))
    assert told_before["after"]["min_level"] == pytest.approx(drained, rel=0.06)
    assert told_before["moved_count"] == len(told_before["moved"]) > 0


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"put": [{"flows": []}]}, "put[0].name"),
        ({"put": [{"name": "b", "flows": [flow("h1", "nobody")]}]}, "put[0].flows[0].dst"),
        ({"put": [{"name": "b", "flows": []}] * 2}, "put[1].name"),
        ({"policy": "none"}, "policy"),
        ({"colour": 1}, "colour"),
        ({"put": [{"name": "b", "flows": []}], "delete": ["a", "b"]}, "delete[1]"),
        ({"delete": ["a", "a"]}, "delete[1]"),
        ({"drain": ["spine1"], "undrain": ["spine1"]}, "undrain[0]"),
    ],
)
def test_a_preview_of_what_cannot_be_says_which_field(form: dict[str, Any], field: str) -> None:
    life = Life()
    with pytest.raises(InputError) as caught:
        life.world.service.preview(json.dumps(form).encode())
    assert caught.value.field == field


def test_a_preview_of_a_missing_job_or_link_is_not_found() -> None:
    life = Life()
    cases: list[tuple[dict[str, list[str]], str]] = [
        ({"delete": ["a"]}, "delete[0]"),
        ({"drain": ["spine1", "spine9", "spine8"]}, "drain[1]"),
        ({"drain": ["spine1"], "undrain": ["h1"]}, "undrain[0]"),
    ]
    for form, field in cases:
        with pytest.raises(NotFoundError) as caught:
            life.world.service.preview(json.dumps(form).encode())
        assert caught.value.field == field
    with pytest.raises(NotFoundError) as caught:
        life.world.service.drains(["spine1", "spine9"], True, ANN)
    assert caught.value.field == "ids[1]"
    answer = life.world.service.drainable("spine1")
    assert json.loads(answer if isinstance(answer, bytes) else json.dumps(answer))["drained"] is False


def test_a_store_that_loses_its_files_is_noticed_without_a_change_and_used_again(monkeypatch: Any) -> None:
    monkeypatch.setattr("controller.service.reconciling.store_writer.WATCH", 0.01)
    store = FakeStore()
    world = World(FABRIC, seen(FABRIC), store).planned()
    store.lost = store.broken = "the file was removed"
    world.until(lambda: "the file was removed" in str(world.health["reasons"]))
    store.lost = store.broken = ""
    world.until(lambda: "the file was removed" not in str(world.health["reasons"]))


def test_who_lost_the_store_to_another_controller_changes_no_switch_until_it_has_it_again(monkeypatch: Any) -> None:
    monkeypatch.setattr("controller.service.reconciling.store_writer.WATCH", 0.01)
    monkeypatch.setattr("controller.service.reconciling.store_writer.RETRY_FIRST", 0.01)
    store = FakeStore()
    world = World(FABRIC, seen(FABRIC), store).planned()
    store.lost = store.broken = "the disk is full"
    world.until(lambda: "the disk is full" in str(world.health["reasons"]))
    assert world.southbound.withheld == ""
    store.taken, store.lost, store.broken = True, "in use by another controller", "in use by another controller"
    world.until(lambda: world.southbound.withheld == "in use by another controller")
    store.lost = store.broken = ""
    world.until(lambda: world.southbound.withheld == "")
