"""Health: faults and degraded service are told apart, and what belongs together is one reason."""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.controller_state import ControllerState
from controller.core.ports.api import UNCONDITIONAL
from controller.core.speeds.speeds_now import SpeedsNow
from controller.model.files.clos import clos
from controller.model.plan import Plan
from controller.southbound.cabling.findings import MISSING_SWITCH, Finding
from controller.southbound.cabling.survey import Survey
from controller.views import health
from tests.unit.service.world import ANN, World, flow
from tests.unit.southbound.cabling.networks import seen

FABRIC = clos(2, 2, 4)
CROSSING = [flow(f"h{n}", f"h{n + 4}") for n in (1, 2)]


def told(findings: Iterable[Finding]) -> dict[str, Any]:
    state = ControllerState(survey=Survey(FABRIC, tuple(findings)), epoch=1, enforced=1)
    report = SimpleNamespace(key=1, name="leaf1", epoch=1, error="", missing=(), connected=True, waits_for=())
    return health.health(state, [report], FABRIC, (1, 0.0), health.Troubles(), SpeedsNow())


@given(st.integers(0, 3 * health.MOST_FINDINGS))
def test_health_names_some_findings_and_counts_the_others(n: int) -> None:
    findings = [Finding("missing", f"cable{i}", f"cable{i} is missing") for i in range(n)]
    found = told(findings)
    named = [text for text in found["reasons"] if text.endswith(" is missing")]
    assert named == [finding.text for finding in findings[: health.MOST_FINDINGS]]
    rest = n - len(named)
    assert found["reasons"][len(named) :] == ([f"and {rest} more findings, which /v1/fabric lists"] if rest else [])
    assert (found["status"] == "ok") == (n == 0)


@given(st.integers(1, 100))
def test_switches_that_are_not_connected_are_one_reason(n: int) -> None:
    (reason,) = told(Finding(MISSING_SWITCH, f"leaf{i}", f"leaf{i} is not connected") for i in range(n))["reasons"]
    if n == 1:
        assert reason == "leaf0 is not connected"
    else:
        assert reason.startswith(f"{n} of {FABRIC.n_leaves + FABRIC.n_spines} switches are not connected: leaf0, leaf1")
        assert ("more" in reason) == (n > health.MOST_NAMED)


def confirm(world: World) -> World:
    """Wait for the newest rules, which all switches confirm."""
    world.planned()
    epoch = world.service.state.enforced
    world.southbound.reports = [
        SimpleNamespace(
            key=switch.key, name=switch.name, epoch=epoch, error="", missing=(), connected=True, waits_for=()
        )
        for switch in FABRIC.switches
    ]
    world.switches_changed()
    return world


def row(world: World) -> dict[str, Any]:
    (found,) = orjson.loads(world.service.jobs())["jobs"]  # type: ignore[arg-type]
    return dict(found)


def slowdown(plan: Plan) -> list[float]:
    told = plan.objective
    return (told.ideal_seconds / told.speed / told.healthy_seconds).tolist()  # type: ignore[no-any-return]


def service(world: World) -> list[str]:
    return list(world.health["degraded_service"])


@pytest.fixture
def world() -> World:
    made = World(FABRIC, seen(FABRIC)).planned()
    made.put("a", CROSSING)
    return confirm(made)


def test_jobs_on_the_whole_fabric_are_not_degraded(world: World) -> None:
    assert (row(world)["speed"], service(world)) == (1.0, [])


def test_a_job_at_half_speed_is_degraded_service_and_no_fault(world: World) -> None:
    world.service.drain("spine1", True, ANN)
    confirm(world)
    assert service(world) == [
        "1 job is slower than alone on the whole fabric, with 2 of 4 cables down or drained: a at 0.500, was 1.000"
    ]
    assert (world.health["status"], world.health["reasons"]) == ("ok", [])
    world.service.drain("spine1", False, ANN)
    confirm(world)
    assert service(world) == []


def test_the_speed_before_the_failure_is_not_claimed_of_a_job_that_came_after_it(world: World) -> None:
    world.service.drain("spine1", True, ANN)
    world.put("a", CROSSING[::-1])
    confirm(world)
    (reason,) = service(world)
    assert reason.endswith("down or drained: a at 0.500")


def test_jobs_that_share_links_on_the_whole_fabric_are_not_degraded(world: World) -> None:
    world.put("a", [flow(f"h{n}", f"h{n + 4}") for n in (1, 2, 3)])
    confirm(world)
    assert row(world)["speed"] < 1
    assert service(world) == []


def test_classes_that_starve_are_degraded_service() -> None:
    world = World(FABRIC, seen(FABRIC), starving="tell").planned()
    world.put("a", CROSSING)
    higher = {"flows": [flow("h1", "h5")], "class": 1}
    world.service.put_job("b", json.dumps(higher).encode(), UNCONDITIONAL, ANN)
    world.put("c", [flow("h1", "h6")])
    confirm(world)
    (reason,) = [each for each in service(world) if "starves" in each]
    assert reason.startswith("class 0 starves down to its floor on h1->leaf1: packets of the classes above need ")
    assert (world.health["status"], world.health["reasons"]) == ("ok", [])


def test_what_switches_hash_is_not_known(world: World) -> None:
    world.service.set_mode("ecmp", None, ANN)
    confirm(world)
    assert (row(world)["speed"], row(world)["min_speed"]) == (None, 1.0)
    (reason,) = service(world)
    assert reason.startswith("mode ecmp: switches hash all flows")


def test_frozen_jobs_have_the_speed_of_the_paths_that_switches_keep(world: World) -> None:
    world.service.set_mode("frozen", None, ANN)
    # The newest plan avoids spine1; the switches still use it.
    world.service.drain("spine1", True, ANN)
    confirm(world)
    state = world.service.state
    assert state.speeds.slowdown == {"a": 1.0}
    assert state.plan is not None
    assert slowdown(state.plan) == [2.0]
    assert row(world)["speed"] == 1.0
    (reason,) = service(world)
    assert "mode frozen: switches keep plan" in reason
    # A flow that came later is in no rule of theirs.
    world.put("a", [*CROSSING, flow("h3", "h7")])
    confirm(world)
    assert row(world)["speed"] is None
    assert "the speeds of jobs are not known" in service(world)[0]


def test_after_ecmp_frozen_switches_still_hash(world: World) -> None:
    world.service.set_mode("ecmp", None, ANN)
    world.service.set_mode("frozen", None, ANN)
    confirm(world)
    assert row(world)["speed"] is None
    assert service(world) == ["mode frozen: switches hash all flows, as before; the speeds of jobs are not known"]


def test_rules_that_a_switch_has_not_confirmed_do_not_tell_a_speed(world: World) -> None:
    world.southbound.reports = [report for report in world.switches if report.name != "leaf1"]
    assert row(world)["speed"] is None


def test_flows_without_a_planned_path_are_told_from_flows_that_nothing_carries() -> None:
    whole = clos(1, 2, 1, parallel=2)
    for down, text in (
        (["leaf1-spine1", "leaf2-spine1:1"], "2 flows have no path in the plan; base forwarding carries 2 of them: "),
        (["leaf1-spine1", "leaf1-spine1:1"], "2 flows have no path in the plan"),
    ):
        world = World(whole, seen(whole.without_links(down), hosts=True)).planned()
        world.put("a", [flow("h1", "h2"), flow("h2", "h1")])
        world.planned()
        told_of = [reason for reason in service(world) if "no path in the plan" in reason]
        assert len(told_of) == 1
        assert told_of[0].startswith(text)
        assert ("base forwarding" in told_of[0]) == ("base forwarding" in text)
        world.close()
