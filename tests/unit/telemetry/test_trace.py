"""Traces against the compilers: planned flows are on their paths, and deviations are reported."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from controller.model.assignment import Assignment
from controller.model.files.clos import clos
from controller.model.traffic import FIRST_PORT
from controller.rest.schemas.trace import TraceBody
from controller.southbound.enforcement.learned_ports import LearnedPort
from controller.southbound.enforcement.registry import rule_enforcements
from controller.southbound.forwarding.base import compile_base
from controller.southbound.rules.priorities import DISCOVERY, FLOW
from controller.southbound.rules.rule import Output, Rule, match
from controller.southbound.rules.rule_set import RuleSet, SwitchRules
from controller.telemetry.fabric_snapshot import FabricSnapshot
from controller.telemetry.trace import TraceInputs, planned_links, uplink
from controller.telemetry.trace_document import live_trace, planned_trace
from tests.unit.southbound.plans import KEEPING, Case, cases, patient, traffic_of
from tests.unit.telemetry.readings import reading

each_enforcement = pytest.mark.parametrize("enforcement", rule_enforcements())


def situation(case: Case, **changes: Any) -> TraceInputs:
    made = TraceInputs(case.fabric, case.traffic, case.encoding, enforcement=case.enforcement)
    return dataclasses.replace(made, **changes)


def told(case: Case, read: FabricSnapshot, **changes: Any) -> list[dict]:
    found = live_trace(situation(case, **changes), case.usable, read, {})
    del found["window"]
    TraceBody.model_validate(found)
    return found["flows"]


def changed(rules: RuleSet, dpid: int, *, put: tuple[Rule, ...] = (), removed: tuple[Rule, ...] = ()) -> RuleSet:
    held = rules[dpid]
    left = {key: rule for key, rule in held.rules.items() if rule not in removed}
    return RuleSet({**rules.switches, dpid: SwitchRules(left | {rule.key: rule for rule in put}, held.groups)})


def small(enforcement: str = "per_flow", spines: int = 3) -> Case:
    """From h1 to h3 over spine 1, from h2 to h4 over spine 2, from h3 to h1 over spine 1; h1 to h2 within the leaf."""
    traffic = traffic_of([(0, 2, FIRST_PORT), (1, 3, FIRST_PORT + 1), (2, 0, FIRST_PORT), (0, 1, FIRST_PORT)])
    fabric = clos(spines, 2, 2)
    return Case(fabric, fabric, traffic, Assignment.single(np.array([0, 1, 0, -1])), enforcement)


@each_enforcement
@patient
@given(data=st.data())
def test_what_is_compiled_is_traced_to_its_planned_paths(enforcement: str, data: st.DataObject) -> None:
    case = data.draw(cases(enforcement))
    for row, flow in enumerate(told(case, reading(case.fabric, case.rules))):
        if case.encoding.path[row] == -2:
            assert (flow["planned"], flow["differs"]) == (None, False)
            assert flow["why"].startswith("no live path joins its leaves")
            continue
        assert flow["real"] == flow["planned"]
        assert (flow["how"], flow["sure"], flow["differs"], flow["why"]) == ("rules", 1.0, False, "")


@pytest.mark.parametrize("enforcement", KEEPING)
@patient
@given(data=st.data())
def test_with_other_rules_than_planned_each_flow_is_where_those_lead_it(enforcement: str, data: st.DataObject) -> None:
    """Switches hold another plan: who is astray is exactly who has another path there."""
    held = data.draw(cases(enforcement))
    newer = dataclasses.replace(
        held, assignment=Assignment(held.assignment.flow, held.assignment.path[::-1].copy(), held.assignment.share)
    )
    live = [planned_links(situation(newer), row) for row in range(len(newer.encoding.flow))]
    leaf = held.fabric.host_leaf
    usable_paths = [
        path < 0
        or (
            path in held.usable.live_paths(leaf[held.traffic.src[flow]], leaf[held.traffic.dst[flow]])
            and leaf[held.traffic.src[flow]] != leaf[held.traffic.dst[flow]]
        )
        for flow, path in zip(newer.encoding.flow.tolist(), newer.encoding.path.tolist(), strict=True)
    ]
    assume(all(usable_paths) and held.encoding.udp_src.tolist() == newer.encoding.udp_src.tolist())
    found = told(newer, reading(held.fabric, held.rules), enforced=7, confirmed={})
    was = [planned_links(situation(held), row) for row in range(len(held.encoding.flow))]
    for flow, before, now in zip(found, was, live, strict=True):
        if before is not None and now is not None and len(before) == 4:
            assert flow["real"] == [held.fabric.link_ids[link] for link in before]
            assert flow["differs"] == (before != now) == bool(flow["why"])


@each_enforcement
@patient
@given(data=st.data())
def test_a_dead_port_shows_as_fail_over_of_those_that_were_planned_over_it(
    enforcement: str, data: st.DataObject
) -> None:
    case = data.draw(cases(enforcement))
    cable = data.draw(st.sampled_from(case.fabric.cables))
    assert cable.lower_port is not None
    read = reading(case.fabric, case.rules, dead=[(cable.lower, cable.lower_port)])
    name = case.fabric.cable_names[case.fabric.cables.index(cable)]
    up = case.fabric.first_cable_link + 2 * case.fabric.cables.index(cable)
    for row, flow in enumerate(told(case, read)):
        planned = planned_links(situation(case), row)
        if planned is None:
            continue
        if uplink(case.fabric, planned) == up:
            assert flow["differs"]
            assert flow["why"].startswith(f"its uplink {name} is down: fail-over, ")
            assert flow["real"] is None or case.fabric.link_ids[up] not in flow["real"]
        else:
            assert not flow["differs"]


@pytest.mark.parametrize("enforcement", KEEPING)
def test_a_flow_without_its_rule_is_hashed_and_that_is_the_reason(enforcement: str) -> None:
    case = small(enforcement)
    (own,) = (
        r
        for r in case.rules[1].rules.values()
        if FLOW <= r.priority < DISCOVERY and ("ipv4_src", "10.0.1.2") in r.match
    )
    first, second, third, local = told(case, reading(case.fabric, changed(case.rules, 1, removed=(own,))))
    assert [flow["why"] for flow in (first, third, local)] == ["", "", ""]
    assert second["why"].startswith("leaf1 has no rule for it: hashed over leaf1-spine1, leaf1-spine2, leaf1-spine3")
    assert (second["how"], second["real"], second["sure"], second["differs"]) == ("none", None, 0.0, True)


def test_while_a_switch_has_not_confirmed_a_plan_that_is_the_reason() -> None:
    case = small()
    read = reading(case.fabric, compile_base(case.fabric))
    first, *_ = told(case, read, epoch=7, enforced=7, confirmed={1: 6, 2: 7})
    waits = "plan 7 is computed, leaf1 has not confirmed it yet"
    assert first["why"].endswith(f"{waits}; two readings of counters are required to infer its path")
    first, *_ = told(case, read, mode="frozen", epoch=8, enforced=7)
    assert "mode is frozen; plan 8 waits" in first["why"]
    first, *_ = told(case, read, mode="ecmp")
    assert first["why"].startswith("mode is ecmp: hashed over leaf1-spine1, leaf1-spine2, leaf1-spine3")


def test_a_stranger_s_rule_counts_as_any_other() -> None:
    case = small()
    to_h3 = match(eth_type=0x800, ipv4_dst="10.0.2.1")
    first, *_ = told(case, reading(case.fabric, changed(case.rules, 1, put=(Rule(0, 9000, to_h3),))))
    assert (first["real"], first["how"], first["differs"]) == (None, "rules", True)
    assert first["why"].endswith("leaf1 drops it")
    elsewhere = Rule(0, 9000, to_h3, (Output(4),))
    spine = case.fabric.spines[0]
    first, *_ = told(case, reading(case.fabric, changed(case.rules, 1, put=(elsewhere,))))
    assert first["real"][1:3] == ["leaf1->spine2", "spine2->leaf2"]
    assert first["why"] == "leaf1 has no rule for it: it takes leaf1-spine2"
    unknown = Rule(0, 9000, to_h3, ("set_field",))  # type: ignore[arg-type]
    first, *_ = told(case, reading(case.fabric, changed(case.rules, spine.dpid, put=(unknown,))))
    assert first["why"] == "reached an action that fairspine does not use at spine1"
    two = (Rule(0, 9000, to_h3), Rule(0, 9000, match(in_port=1)))
    first, *_ = told(case, reading(case.fabric, changed(case.rules, 1, put=two)))
    assert (first["how"], first["why"]) == ("none", "two rules of equal priority match it: the result is undefined")
    back = Rule(0, 9000, to_h3, (Output(1),))
    first, *_ = told(case, reading(case.fabric, changed(case.rules, spine.dpid, put=(back,))))
    assert first["why"] == "sent back out of its in-port at spine1"


def test_unread_switches_make_paths_unknown_and_not_different() -> None:
    case = small()
    first, second, third, local = told(case, reading(case.fabric, case.rules, without=["leaf1"]))
    assert {flow["why"] for flow in (first, second, local)} == {"leaf1 is not connected"}
    # What comes down at leaf 1 is not known either.
    assert third["why"] == "leaf1 is not connected"
    read = dataclasses.replace(
        reading(case.fabric, case.rules, without=["spine1"]), silent={case.fabric.spines[0].dpid: "no answer"}
    )
    first, second, *_ = told(case, read)
    assert (first["why"], first["how"], first["differs"]) == (
        "spine1 could not be read: no answer",
        "none",
        False,
    )
    assert second["why"] == ""


def test_packets_sent_down_a_dead_cable_are_reported_as_lost() -> None:
    case = small()
    broken = dataclasses.replace(case, fabric=case.fabric.without_links(["leaf2-spine1"]))
    # Spine and leaf have not noticed: their ports are up, and discovery packets do not pass.
    first, *_ = told(broken, reading(case.fabric, case.rules))
    assert (first["real"], first["differs"]) == (None, True)
    assert first["why"] == "spine1->leaf2 is down: packets sent there are lost"


def test_a_plan_without_switches_is_taken_for_what_is() -> None:
    case = small()
    found = planned_trace(situation(case), case.fabric, {"job": {"h1": 0, "h3": 2}})
    first = found["flows"][0]
    assert (first["real"], first["how"], first["sure"]) == (first["planned"], "plan", 1.0)
    assert (first["src_rank"], first["dst_rank"]) == (0, 2)
    assert [row["flows"] for row in found["links"] if row["id"] == "leaf1->spine1"] == [1]


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("path", [None, 0, 1])
def test_what_hosts_have_seen_of_a_port_is_its_path(path: int | None, sampled: bool) -> None:
    case = small()
    seen = LearnedPort(50000, path, 1.0, sampled)
    first, second, *_ = told(case, reading(case.fabric, case.rules), by_probes=[seen, LearnedPort(), None, None])
    if path is None:
        assert (first["real"], first["how"], first["differs"]) == (None, "none", False)
    else:
        assert first["how"] == ("samples" if sampled else "probes")
        assert first["differs"] == (path != 0) == bool(first["why"])
        assert (first["real"] == first["planned"]) == (path == 0)
    assert (second["real"], second["how"]) == (None, "none")
