"""Switches that refuse, lag behind, lack ports, or occur twice: effects on others, and messages to users."""

from __future__ import annotations

import dataclasses

import pytest
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.model.fabric import Fabric
from controller.southbound.openflow.enforcing import messages
from controller.southbound.rollout.desired_rules import is_planned
from controller.southbound.rules.rule_set import RuleSet
from tests.fake_switch.decode import PROTOCOL
from tests.fake_switch.fabric import FakeFabric
from tests.fake_switch.refusal import bad_out_group, overlap
from tests.rig.bench import Bench
from tests.rig.both_kinds import Setup
from tests.rig.checks.refusals import (
    FABRIC,
    LARGE,
    RECEIVERS,
    SENDERS,
    SMALL,
    flows,
    plan,
    reasons,
    refused,
    settled,
    with_job,
)
from tests.rig.controller import Controller
from tests.rig.waiting import eventually


@pytest.fixture(autouse=True)
def _refusals(bench: Bench) -> None:
    bench.harmless.append((r"refuses plan", "a switch is told to refuse it"))


def started(setup: Setup, *options: str) -> tuple[FakeFabric, Controller]:
    """Return fake switches that hold the plan of a small job, and their controller."""
    return with_job(setup, FABRIC, "small", SMALL, *options)[:2]


def assert_back_at(fakes: FakeFabric, held: RuleSet) -> None:
    eventually(lambda: fakes.held() == held, "all switches hold the former plan")


def flow_table(rules: RuleSet, dpid: int) -> tuple[int, int]:
    """The table of the rules of single flows, and how many of our rules it holds."""
    ((table, _, _),) = [rule.key for rule in rules[dpid].rules.values() if is_planned(rule)][:1]
    return table, sum(key[0] == table for key in rules[dpid].rules)


def test_a_full_table_leaves_the_former_plan_on_all_switches_and_says_what_is_short(setup: Setup) -> None:
    fakes, controller = started(setup)
    former, held = plan(controller)["active"], fakes.held()
    table, ours = flow_table(held, FABRIC.leaves[0].dpid)
    # Others have rules in that table, too: Ryu's for its discovery packets.
    strangers = sum(key[0] == table for key in fakes.counts("leaf1")) - ours
    room = 3
    fakes.limit_tables("leaf1", ours + strangers + room)
    assert controller.put("/v1/jobs/large", LARGE).status == 201
    told = refused(controller)
    short = len(SENDERS) * len(RECEIVERS) - room
    assert (told["switch"], told["kind"], told["table"], told["short"]) == ("leaf1", "table full", table, short)
    assert_back_at(fakes, held)
    now = plan(controller)
    assert now["active"] == former
    assert now["computed"]["epoch"] == told["epoch"] > former["epoch"]
    assert now["waits_for"] == ["leaf1", "leaf2", "spine1", "spine2"]
    assert not controller.get("/v1/jobs/large").body["active"]
    controller.wait_for("something else is proposed", lambda: plan(controller)["refused"]["instead"] != [])
    assert plan(controller)["refused"]["instead"][0]["enforcement"] == "source_port"
    text = plan(controller)["refused"]["text"]
    for part in (
        f"table {table} is full",
        f"{short} rules too many",
        f"plan {former['epoch']} stays active",
        "source_port",
    ):
        assert part in text
    assert any(reason.startswith(text) for reason in controller.get("/healthz").body["reasons"])
    assert text in controller.log.read_text()
    assert fakes.ping_all() == []
    # What was proposed does.
    assert controller.put("/v1/mode", {"enforcement": "source_port"}).status == 200
    settled(controller)
    assert plan(controller)["refused"] is None
    controller.wait_for("all is well", controller.is_well)


def test_a_refusal_is_tried_again_once_and_then_taken_back_everywhere(setup: Setup) -> None:
    fakes, controller = started(setup)
    # Somebody has taken its groups away, and the rules with them.
    fakes.refuse_next("leaf1", parser.OFPFlowMod, bad_out_group())
    assert controller.put("/v1/jobs/large", LARGE).status == 201
    settled(controller)
    assert plan(controller)["refused"] is None
    assert sum(map(is_planned, fakes.rules("leaf1").rules.values())) == len(SENDERS) * len(RECEIVERS) + 1
    former, held = plan(controller)["active"], fakes.held()
    for error, kind in ((bad_out_group(), "bad group"), (overlap(), "overlap")):
        fakes.refuse_next("leaf1", parser.OFPFlowMod, error, times=2)
        assert controller.put("/v1/jobs/one", flows((SENDERS[0], RECEIVERS[0]))).status in (200, 201)
        told = refused(controller)
        assert (told["switch"], told["kind"], told["short"], told["instead"]) == ("leaf1", kind, None, [])
        assert_back_at(fakes, held)
        assert plan(controller)["active"] == former
        # The next change is tried.
        assert controller.delete("/v1/jobs/one").status == 204
        settled(controller)
        assert plan(controller)["refused"] is None
        former, held = plan(controller)["active"], fakes.held()


def test_a_switch_without_masks_for_ports_gets_a_rule_for_each_qp_and_no_plan_is_refused(setup: Setup) -> None:
    fakes, controller = started(setup, "--readback-seconds", "0.3")
    before = {name: len(fakes.rules(name).rules) for name in ("leaf1", "leaf2")}
    fakes.refuse_port_masks("leaf1")
    job = flows((SENDERS[1], RECEIVERS[1]), (RECEIVERS[1], SENDERS[1]))
    for qps, status in ((8, 201), (16, 200)):
        assert controller.put("/v1/jobs/qps", job | {"qps": qps}).status == status
        settled(controller)
        assert plan(controller)["refused"] is None
        more = {name: len(fakes.rules(name).rules) - before[name] for name in before}
        assert more["leaf1"] == qps > 4 * more["leaf2"] > 0
    assert "leaf1 refuses rules for several ports" in controller.log.read_text()
    assert "refuses plan" not in controller.log.read_text()
    controller.wait_for("all is well", lambda: controller.get("/healthz").body["status"] == "ok")
    # What is lost is put again in the same form.
    held = fakes.held()
    for name in before:
        lost = next(rule for rule in fakes.rules(name).rules.values() if is_planned(rule))
        fakes.someone_sends(name, messages.remove_rule(PROTOCOL, lost))
    eventually(lambda: fakes.held() == held, "the rules are repaired")
    assert fakes.ping_all() == []


def test_a_slow_switch_is_reported_and_does_not_delay_the_others(setup: Setup) -> None:
    fakes, controller = started(setup)
    # It answers echo requests, so its connection stands.
    fakes.temper("leaf1").reply_seconds = 6.0
    before = fakes.rules("leaf2")
    assert controller.put("/v1/jobs/large", LARGE).status == 201
    eventually(lambda: fakes.rules("leaf2") != before, "the other leaf follows")
    controller.wait_for("it is told", lambda: "leaf1: no answer within 5 s" in reasons(controller))
    controller.wait_for("the others have it", lambda: plan(controller)["waits_for"] == ["leaf1"])
    assert controller.get("/healthz").body["status"] == "degraded"
    fakes.temper("leaf1").reply_seconds = 0.0
    settled(controller)
    controller.wait_for("all is well", controller.is_well)


def test_a_switch_that_claims_the_id_of_one_that_answers_gets_nothing(setup: Setup) -> None:
    fakes, controller = started(setup)
    held = fakes.held()
    with fakes.impostor("leaf1") as second:
        controller.wait_for("it is told", lambda: "claims the datapath id 0x1 of leaf1" in reasons(controller))
        eventually(lambda: second.connects > 2, "it tries again")
        assert second.mods == []
    assert {name: fakes.connects(name) for name in ("leaf1", "leaf2")} == {"leaf1": 1, "leaf2": 1}
    assert fakes.held() == held
    assert controller.log.read_text().count("claims the datapath id") == 1
    # One that does not answer gives way.
    fakes.temper("leaf2").silent = True
    with fakes.impostor("leaf2") as second:
        eventually(lambda: second.mods != [], "it is let in")
        fakes.temper("leaf2").silent = False


def test_ports_that_a_switch_does_not_have_are_found_and_nothing_is_sent_there(setup: Setup) -> None:
    hosts = tuple(dataclasses.replace(h, port=77) if h.name == "h1" else h for h in FABRIC.hosts)
    told: Fabric = dataclasses.replace(FABRIC, hosts=hosts)
    controller, address = setup.controller(told)
    fakes = setup.fakes(FABRIC, address)
    fakes.wait_connected()
    controller.wait_for("it is told", lambda: "leaf1 does not have port 77" in reasons(controller))
    settled(controller)  # before, some switches may have no rules yet, or those for a network that was not all there
    switches = [switch.name for switch in FABRIC.switches]
    eventually(lambda: all(len(fakes.rules(name)) > 0 for name in switches), "every switch has rules")
    assert "port=77" not in repr(fakes.rules("leaf1"))
    others = [host.name for host in FABRIC.hosts if host.name != "h1"]
    pairs = [(a, b) for a in others for b in others if a != b]
    eventually(lambda: fakes.ping_all(pairs) == [], "the others reach each other")
