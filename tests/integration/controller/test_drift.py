"""Drift: rules and groups that are deleted, changed or added are reported and repaired; foreign ones are kept."""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any

from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.model.files.clos import clos
from controller.southbound.openflow.enforcing import messages
from controller.southbound.rollout.desired_rules import is_planned
from controller.southbound.rules.priorities import FLOW, PREFIX
from controller.southbound.rules.rule import COOKIE_PREFIX, Output, Rule, ToGroup, match
from tests.fake_switch.decode import PROTOCOL
from tests.fake_switch.fabric import FakeFabric
from tests.rig.both_kinds import Setup
from tests.rig.checks.drift import Events, health, metric
from tests.rig.checks.refusals import flows, reasons, settled, with_job
from tests.rig.controller import Controller
from tests.rig.waiting import eventually, standing

FABRIC = clos(2, 3, 1)
JOB = flows(("h1", "h3"), ("h1", "h2"), ("h3", "h1"), ("h2", "h1"))


def started(setup: Setup, *options: str) -> tuple[FakeFabric, Controller]:
    return with_job(setup, FABRIC, "job", JOB, "--readback-seconds", "0.3", *options)[:2]


def cookie(instance: int) -> int:
    return COOKIE_PREFIX << 48 | instance << 32 | 1


def flow_mod(rule: Rule, command: int, cookie: int = 0) -> Any:
    made = messages.put_rule(PROTOCOL, rule, 1)
    made.command, made.cookie = command, cookie
    return made


def put(rule: Rule, cookie: int) -> Any:
    return flow_mod(rule, ofp.OFPFC_ADD, cookie)


def remove(rule: Rule) -> Any:
    made = flow_mod(rule, ofp.OFPFC_DELETE_STRICT)
    made.out_port, made.out_group = ofp.OFPP_ANY, ofp.OFPG_ANY
    return made


def a_planned_rule(fakes: FakeFabric, switch: str = "leaf1") -> Rule:
    return next(rule for rule in fakes.rules(switch).rules.values() if is_planned(rule))


def changes(fakes: FakeFabric, switch: str) -> list[tuple[str, list[Any], dict[str, int]]]:
    """What somebody may do to a leaf, the messages that do it, and how many of which kind are told."""
    held = fakes.rules(switch)
    planned = a_planned_rule(fakes, switch)
    base = next(rule for rule in held.rules.values() if rule.priority == PREFIX)
    extra = Rule(0, FLOW + 5, match(eth_type=0x800, ipv4_dst="10.9.9.9"), (Output(1),))
    redirected = flow_mod(planned._replace(actions=(Output(1),)), ofp.OFPFC_MODIFY_STRICT)
    (action,) = planned.actions
    assert isinstance(action, ToGroup)
    group = held.groups[action.group]
    users = sum(action in rule.actions for rule in held.rules.values())
    fewer = group._replace(buckets=group.buckets[:1])
    return [
        ("deletes a planned rule", [remove(planned)], {"missing": 1}),
        ("deletes a base rule", [remove(base)], {"missing": 1}),
        ("redirects a planned rule", [redirected], {"changed": 1}),
        ("replaces a rule", [put(planned._replace(actions=()), cookie(0))], {"changed": 1}),
        ("deletes a group", [messages.remove_group(PROTOCOL, group)], {"missing": users, "groups": 1}),
        ("changes a group", [messages.put_group(PROTOCOL, fewer, replaces=True)], {"groups": 1}),
        ("adds a rule", [put(extra, cookie(0))], {"added": 1}),
    ]


def test_any_foreign_change_of_rules_and_groups_is_reported_and_repaired(setup: Setup) -> None:
    fakes, controller = started(setup)
    held, events = standing(fakes.held), Events(controller)
    nothing = {"missing": 0, "changed": 0, "added": 0, "groups": 0}
    repaired = dict.fromkeys(("leaf1", "leaf2", "leaf3"), 0)
    # On three leaves in turn: one that is changed again and again is another matter.
    for number, switch in enumerate(islice(cycle(repaired), len(changes(fakes, "leaf1")))):
        what, sent, told = changes(fakes, switch)[number]
        fakes.someone_sends(switch, *sent)
        # Rules and groups are read one after the other: a change in between is told in two parts.
        seen = dict(nothing)
        while seen != {**nothing, **told}:
            data = events.next("drift")
            assert (data["switch"], data["repaired"]) == (switch, True)
            seen = {name: seen[name] + data[name] for name in nothing}
            assert all(seen[name] <= told.get(name, 0) for name in nothing), (what, seen)
        eventually(lambda: fakes.held() == held, f"{what}: it is put right")
        repaired[switch] += sum(told.values())
    events.close()
    controller.wait_for("all is well", controller.is_well)
    assert {name: metric(controller, "rules_repaired_total", name) for name in repaired} == repaired
    assert metric(controller, "rules_repaired_total", "spine1") == 0


def test_changes_of_its_own_are_no_drift(setup: Setup) -> None:
    fakes, controller = started(setup, "--readback-seconds", "0.02")

    def was_read() -> bool:
        return any(isinstance(message, parser.OFPRoleRequest) for message in fakes.messages("leaf1"))

    for enforcement in ("segment_routing", "source_port", "per_flow"):
        assert controller.put("/v1/mode", {"enforcement": enforcement}).status == 200
        fakes.set_cable("leaf1-spine1", up=False)
        settled(controller)
        fakes.set_cable("leaf1-spine1", up=True)
        settled(controller)
        fakes.forget_messages()
        # A switch is not read while its rules change, which may be all the time up to here.
        eventually(was_read, "the rules of this enforcement were read")
    assert "differ from those that it confirmed" not in controller.log.read_text()
    assert {metric(controller, "rules_repaired_total", name) for name in ("leaf1", "leaf2", "spine1")} == {0.0}


def test_a_foreign_rule_above_ours_is_reported_and_not_changed(setup: Setup) -> None:
    fakes, controller = started(setup)
    harmless = Rule(0, 4000, match(eth_type=0x800, ip_proto=6, ipv4_dst="10.77.0.1"), (Output(1),))
    rule = Rule(0, 4000, match(eth_type=0x800, ipv4_dst="10.0.1.1"))
    fakes.someone_sends("leaf2", put(harmless, 0x77))
    fakes.someone_sends("leaf2", put(rule._replace(match=match(eth_type=0x800)), 0x77))
    controller.wait_for(
        "it is told", lambda: "leaf2: a rule not installed by fairspine (cookie 0x77" in reasons(controller)
    )
    assert "priority 4000" in reasons(controller)
    assert {harmless.key, (0, 4000, match(eth_type=0x800))} <= fakes.counts("leaf2").keys()
    assert health(controller) == "degraded"
    fakes.someone_sends("leaf2", remove(rule._replace(match=match(eth_type=0x800))))
    controller.wait_for("all is well", controller.is_well)


def test_a_switch_that_is_changed_repeatedly_is_repaired_once_a_minute_and_reported(setup: Setup) -> None:
    fakes, controller = started(setup)
    held, rule = fakes.held(), a_planned_rule(fakes)
    for _ in range(3):
        fakes.someone_sends("leaf1", remove(rule))
        eventually(lambda: fakes.held() == held, "it is put right")
    fakes.someone_sends("leaf1", remove(rule))
    controller.wait_for("it is told", lambda: "changed repeatedly" in reasons(controller))
    assert metric(controller, "switch_contested", "leaf1") == 1
    assert metric(controller, "switch_contested", "leaf2") == 0
    assert rule.key not in fakes.rules("leaf1").rules
    assert controller.log.read_text().count("repaired in") == 1
    # A change of the network or of jobs is carried out all the same, and repairs it.
    assert controller.put("/v1/jobs/other", flows(("h3", "h2"))).status == 201
    settled(controller)
    assert rule.key in fakes.rules("leaf1").rules


def test_rules_of_another_fairspine_are_reported_with_its_instance_and_not_rewritten_repeatedly(setup: Setup) -> None:
    fakes, controller = started(setup)
    other = Rule(0, FLOW + 1, match(eth_type=0x800, ipv4_dst="10.0.2.1"), (Output(1),))
    events = Events(controller)
    fakes.someone_sends("leaf1", put(other, cookie(0xBEEF)))
    assert events.next("drift")["instance"] == 0xBEEF
    eventually(lambda: other.key not in fakes.rules("leaf1").rules, "it is removed")
    controller.wait_for("it is told", lambda: "another fairspine controller (instance 0xbeef)" in reasons(controller))
    fakes.someone_sends("leaf1", put(other, cookie(0xBEEF)))
    assert events.next("drift")["repaired"] is False
    events.close()
    assert other.key in fakes.rules("leaf1").rules
    assert metric(controller, "switch_contested", "leaf1") == 1
