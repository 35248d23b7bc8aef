"""The service's view of switch reports: active plan, missing switches, refused rules."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.controller_state import ControllerState
from controller.core.ports.network import Network
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.network_state import NetworkState
from controller.service.reconciling.event_log import EventLog
from controller.service.reconciling.installation_status import InstallationStatus
from controller.southbound.rollout.rollout import OpenFlowRefusal
from controller.telemetry.instruments import Instruments
from tests.unit.service.world import FakeSouthbound, Threads, World, flow, rules_of
from tests.unit.southbound.cabling.networks import seen

FABRIC: Fabric = clos(2, 2, 4)
LARGE = [flow(a.name, b.name) for a in FABRIC.hosts for b in FABRIC.hosts if (a.leaf, b.leaf) == ("leaf1", "leaf2")]


def refusal(epoch: int, **changes: Any) -> OpenFlowRefusal:
    made = OpenFlowRefusal(
        epoch, epoch - 1, 1, "leaf1", "table full", 1, 20, 7, "OFPET_FLOW_MOD_FAILED, OFPFMFC_TABLE_FULL"
    )
    return dataclasses.replace(made, **changes)


@pytest.fixture
def world() -> World:
    made = World(FABRIC, seen(FABRIC)).planned()
    made.put("a", LARGE)
    return made


def plan(world: World) -> dict[str, Any]:
    return world.read(lambda service: service.plan())


def test_a_refusal_is_reported_with_enforcements_that_need_fewer_rules_until_it_ends(world: World) -> None:
    reader = world.service.subscribe(None)
    state = world.service.state
    found = world.southbound.refusal = refusal(state.epoch)
    for _ in range(3):
        world.switches_changed()
    world.until(lambda: plan(world)["refused"]["instead"] != [])
    told = plan(world)["refused"]
    assert {key: told[key] for key in ("epoch", "switch", "kind", "table", "short")} == {
        "epoch": state.epoch,
        "switch": "leaf1",
        "kind": "table full",
        "table": 1,
        "short": 7,
    }
    # There is no other way to need fewer: labels take as many rules at the first leaf as flows do.
    (other,) = told["instead"]
    assert other["enforcement"] == "source_port"
    assert 0 < other["rules"] < len(rules_of(state)[1])
    for part in (
        found.text,
        "7 rules too many",
        f"plan {state.epoch - 1} stays active",
        f"source_port {other['rules']}",
    ):
        assert part in told["text"]
    assert told["next_try"] is None
    assert f"{told['text']}; it is being retried" in world.health["reasons"]
    world.southbound.next_try = 7.6
    assert f"{told['text']}; it is retried in 8 s" in world.health["reasons"]
    assert plan(world)["refused"]["next_try"] is not None
    errors: list[Any] = []
    world.until(lambda: bool(errors.extend(e for e in reader.wait(0.1) if e.kind == "error") or errors))
    (event,) = errors
    assert event.data["text"] == told["text"]
    assert (event.data["switch"], event.data["short"]) == ("leaf1", 7)
    world.southbound.refusal = None
    world.switches_changed()
    assert plan(world)["refused"] is None
    assert not any("refuses plan" in reason for reason in world.health["reasons"])


def test_without_a_full_table_no_other_enforcement_is_proposed(world: World) -> None:
    world.southbound.refusal = refusal(world.service.state.epoch, kind="bad group", stays=None)
    reader = world.service.subscribe(None)
    world.switches_changed()
    told: list[Any] = []
    world.until(lambda: bool(told.extend(reader.wait(0.1)) or told))
    assert told[0].data["instead"] == {}
    body = plan(world)["refused"]
    assert (body["short"], body["instead"]) == (None, [])
    assert "bad group" in body["text"]
    assert "stays active" not in body["text"]


def test_missing_switches_and_other_faults_are_reported(world: World) -> None:
    epoch = world.service.state.epoch
    world.switches.append(
        SimpleNamespace(key=2, name="leaf2", epoch=epoch, error="", missing=(3, 4), connected=True, waits_for=())
    )
    world.southbound.faults.append("a second switch, at 10.0.0.7, claims an id")
    reader = world.service.subscribe(None)
    for _ in range(3):
        world.switches_changed()
    assert plan(world)["waits_for"] == ["leaf1"]
    reasons = world.health["reasons"]
    assert "leaf2 does not have port 3, 4: packets that rules send there are dropped" in reasons
    assert world.southbound.faults[0] in reasons
    assert [event.data["text"] for event in reader.wait(0) if event.kind == "error"] == world.southbound.faults


def test_a_plan_is_active_whatever_a_switch_that_is_not_in_the_fabric_has(world: World) -> None:
    epoch = world.service.state.epoch
    world.switches[0].epoch = epoch
    world.switches_changed()
    assert plan(world)["active"]["epoch"] == epoch
    world.switches.append(
        SimpleNamespace(key=0xBAD, name="0xbad", epoch=-1, error="", missing=(), connected=True, waits_for=())
    )
    world.switches_changed()
    assert plan(world)["active"]["epoch"] == epoch
    assert plan(world)["waits_for"] == []


@given(
    moves=st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 4)), max_size=30),
    count=st.integers(0, 3),
)
def test_a_plan_is_active_from_when_all_switches_have_it_until_one_has_lost_it(
    moves: list[tuple[int, int]], count: int
) -> None:
    runtime = Threads()
    switches = [
        SimpleNamespace(name=str(n), epoch=-1, error="", missing=(), connected=True, waits_for=()) for n in range(count)
    ]
    log = EventLog(runtime)
    reader = log.subscribe(None)
    southbound = FakeSouthbound(runtime, NetworkState())
    southbound.reports = switches
    installation = InstallationStatus(runtime, log, Network(southbound, southbound), Instruments())
    state = ControllerState(enforced=4)
    before: tuple[int, float] | None = None
    for which, epoch in moves:
        if which < count:
            switches[which].epoch = epoch
        installation.update(state)
        now = installation.active
        epochs = {switch.epoch for switch in switches}
        if len(epochs) == 1 and epochs != {-1}:
            assert now is not None
            assert now[0] in epochs
        if now is not None:
            assert min(epochs) >= now[0]
            # Since when is told of the moment at which it became so.
            assert before is None or now == before or now[0] != before[0] or now[1] > before[1]
        told = [event.data["epoch"] for event in reader.wait(0)]
        assert told == ([] if now == before or now is None else [now[0]])
        assert installation.waits_for(state) == [switch.name for switch in switches if switch.epoch < 4]
        before = now
