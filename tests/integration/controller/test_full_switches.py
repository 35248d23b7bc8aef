"""Switches with too little room: base forwarding and failure handling go on, and what was refused is tried again."""

from __future__ import annotations

from typing import Any

import pytest
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.model.files.clos import clos
from controller.model.packets.port_numbers import ROCE_PORT
from controller.southbound.rollout.desired_rules import is_planned
from tests.fake_switch.fabric import FakeFabric
from tests.fake_switch.refusal import bad_group_mod, table_full
from tests.rig.bench import Bench
from tests.rig.both_kinds import Setup
from tests.rig.checks.refusals import flows, plan, reasons, refused, settled, with_job
from tests.rig.controller import Controller
from tests.rig.waiting import eventually, wait_for_pings

FABRIC = clos(3, 3, 4)
LEAF1 = [host.name for host in FABRIC.hosts if host.leaf == "leaf1"]
OTHERS = [host.name for host in FABRIC.hosts if host.leaf != "leaf1"]
SMALL = flows((LEAF1[0], OTHERS[0]), (LEAF1[1], OTHERS[1]), (LEAF1[2], OTHERS[2]), (OTHERS[0], LEAF1[0]))
LARGE = flows(*((a, b) for a in LEAF1 for b in OTHERS), (OTHERS[1], LEAF1[1]))


@pytest.fixture(autouse=True)
def _refusals(bench: Bench) -> None:
    bench.harmless.append((r"refuses plan|has no room for", "a switch is told to refuse it"))


def started(setup: Setup) -> tuple[FakeFabric, Controller]:
    """Return fake switches that hold the plan of a small job, and their controller."""
    return with_job(setup, FABRIC, "small", SMALL)[:2]


def limit(fakes: FakeFabric, switch: str, room: int) -> None:
    """From now on a switch has room for so many rules more."""
    fakes.limit_tables(switch, sum(key[0] == 0 for key in fakes.counts(switch)) + room)


def planned_rules(fakes: FakeFabric, switch: str) -> int:
    return sum(map(is_planned, fakes.rules(switch).rules.values()))


def test_a_failed_cable_is_handled_while_a_leaf_has_no_room_for_a_job(setup: Setup) -> None:
    fakes, controller = started(setup)
    limit(fakes, "leaf1", 3)
    assert controller.put("/v1/jobs/large", LARGE).status == 201
    refused(controller)
    eventually(lambda: planned_rules(fakes, "leaf1") == 3, "the former plan is back")
    controller.wait_for("its next try is told", lambda: plan(controller)["refused"]["next_try"] is not None)
    for cable in ("leaf1-spine1", "leaf2-spine2", "leaf3-spine3"):
        fakes.set_cable(cable, up=False)
        wait_for_pings(fakes)
        eventually(lambda: planned_rules(fakes, "leaf1") == 3, "the small job's flows have rules")
    assert plan(controller)["refused"]["switch"] == "leaf1"
    controller.wait_for("its next try is told", lambda: "it is retried in" in reasons(controller))
    # The small job goes as it is planned, on live cables.
    for src, dst, port in flows_of(controller, "small"):
        ip = {host.name: host.ip for host in FABRIC.hosts}
        packet: dict[str, Any] = {"eth_type": 0x800, "ip_proto": 17, "udp_dst": ROCE_PORT, "udp_src": port}
        walk = fakes.walk({**packet, "ipv4_src": ip[src], "ipv4_dst": ip[dst]}, src)
        assert walk.host == dst
    # Room again, and nobody does anything.
    fakes.limit_tables("leaf1", None)
    settled(controller)
    assert plan(controller)["refused"] is None
    assert planned_rules(fakes, "leaf1") == len(LEAF1) * len(OTHERS) + 3


def flows_of(controller: Controller, job: str) -> list[tuple[str, str, int]]:
    answer = controller.get(f"/v1/jobs/{job}").body
    return [(flow["src"], flow["dst"], flow["udp_src"]) for flow in answer["flows"]]


def test_a_plan_that_was_refused_for_a_moment_is_tried_again_and_then_active(setup: Setup) -> None:
    fakes, controller = started(setup)
    for kind, error, times in (
        (parser.OFPFlowMod, table_full(), 1),
        (parser.OFPGroupMod, bad_group_mod(ofp.OFPGMFC_OUT_OF_GROUPS), 2),
    ):
        fakes.refuse_next("leaf1", kind, error, times)
        assert controller.put("/v1/jobs/large", LARGE).status == 201
        settled(controller)
        assert plan(controller)["refused"] is None
        controller.wait_for("all is well", controller.is_well)
        assert planned_rules(fakes, "leaf1") == len(LEAF1) * len(OTHERS) + 3
        assert controller.delete("/v1/jobs/large").status == 204
        settled(controller)


def test_a_deleted_job_makes_room_at_once(setup: Setup) -> None:
    fakes, controller = started(setup)
    limit(fakes, "leaf1", 3)
    assert controller.put("/v1/jobs/large", LARGE).status == 201
    refused(controller)
    # Tries are made after 1, 2, 4, 8 s: after the third, the deletion has the time to come before the next one.
    controller.wait_for("the tries are rare", lambda: tries(controller) >= 3)
    before = tries(controller)
    assert controller.delete("/v1/jobs/large").status == 204
    controller.wait_for("the plan without it is active", lambda: plan(controller)["refused"] is None)
    settled(controller)
    assert tries(controller) == before


def tries(controller: Controller) -> int:
    """Return how often a refused plan was tried again after some time."""
    return controller.log.read_text().count("is retried")


def test_old_and_new_rules_need_not_have_room_at_once(setup: Setup) -> None:
    fakes, controller = started(setup)
    before = planned_rules(fakes, "leaf1")
    limit(fakes, "leaf1", 0)
    # As many rules as before, and all of them others.
    other = flows(*((LEAF1[n], OTHERS[n + 4]) for n in range(3)), (OTHERS[0], LEAF1[0]))
    assert controller.put("/v1/jobs/small", other).status == 200
    settled(controller)
    assert plan(controller)["refused"] is None
    assert planned_rules(fakes, "leaf1") == before
    assert fakes.ping_all() == []
    assert "planned rules are removed first" in controller.log.read_text()


@pytest.mark.parametrize("missed", [False, True])
def test_a_switch_without_room_for_any_planned_rule_forwards_by_base_rules(setup: Setup, missed: bool) -> None:
    fakes, controller = started(setup)
    # It comes back with room for base rules alone, so what it had before does not fit either.
    base = sum(key[0] == 0 for key in fakes.counts("leaf1")) - planned_rules(fakes, "leaf1")
    fakes.limit_tables("leaf1", base)
    before = controller.get("/v1/plan").body["computed"]["epoch"]
    fakes.kill_switch("leaf1")
    if missed:
        controller.wait_for("it is missed", lambda: controller.get("/v1/plan").body["computed"]["epoch"] > before)
        controller.wait_for("the plan without it is active", controller.plan_is_active)
    fakes.start_switch("leaf1")
    told = refused(controller)
    assert told["switch"] == "leaf1"
    # A busy controller, too, may plan without the switch before it is back: then the former plan has no rules for it.
    controller.wait_for(
        "it is told, or has all rules of the former plan",
        lambda: plan(controller)["refused"]["bare"] == ["leaf1"] or planned_rules(fakes, "leaf1") == 0,
    )
    wait_for_pings(fakes)
    assert controller.get("/healthz").body["status"] == "degraded"
    if plan(controller)["refused"]["bare"]:
        assert planned_rules(fakes, "leaf2") > 0
    fakes.set_cable("leaf2-spine1", up=False)
    wait_for_pings(fakes)
    fakes.limit_tables("leaf1", None)
    settled(controller)
    assert plan(controller)["refused"] is None
