"""Rules of planned flows write the DSCP of their class where packets come from hosts, and of no other packet."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.priority import CLASSES, DSCP
from controller.model.traffic import Collective, Traffic
from controller.southbound.enforcement.base import CompiledFlows, RuleInputs
from controller.southbound.enforcement.registry import ENFORCEMENTS, compile_inputs, rule_enforcements
from controller.southbound.rules.interpreter import RuleInterpreter
from controller.southbound.rules.rule import ETH_MPLS, SetDscp
from tests.unit.southbound.plans import Case, cases, patient, roce

BY_FLOW = [
    name for name in rule_enforcements() if ENFORCEMENTS[name].incremental and not ENFORCEMENTS[name].chooses_ports
]
"""Enforcements with a rule for each flow."""

each_enforcement = pytest.mark.parametrize("enforcement", BY_FLOW)


@st.composite
def classes_of(draw: st.DrawFn, traffic: Traffic) -> Traffic:
    """The same flows in a collective of each class."""
    rows = tuple(Collective("job", f"c{each}", priority=each) for each in range(CLASSES))
    of_flow = draw(st.lists(st.integers(0, CLASSES - 1), min_size=traffic.n_flows, max_size=traffic.n_flows))
    return dataclasses.replace(traffic, collective=np.array(of_flow, dtype=np.int32), collectives=rows)


def inputs(case: Case, before: CompiledFlows | None = None) -> RuleInputs:
    return RuleInputs(case.fabric, case.traffic, case.encoding, case.usable, case.ecmp_action, before=before)


@each_enforcement
@patient
@given(data=st.data())
def test_packets_arrive_with_the_dscp_of_the_class_of_their_flow(enforcement: str, data: st.DataObject) -> None:
    drawn = data.draw(cases(enforcement))
    case = dataclasses.replace(drawn, traffic=data.draw(classes_of(drawn.traffic)))
    network, encoding = RuleInterpreter(case.fabric), case.encoding
    priority = case.traffic.priority[case.traffic.collective]
    for flow, path, port in zip(encoding.flow.tolist(), encoding.path.tolist(), encoding.udp_src.tolist(), strict=True):
        src, dst = int(case.traffic.src[flow]), int(case.traffic.dst[flow])
        walk = network.walk(case.rules, roce(case.fabric, src, dst, port), source=case.fabric.hosts[src].name)
        marked = DSCP[priority[flow]] if path >= 0 and priority[flow] else None
        assert walk.dscp == (marked if walk.host is not None else None)
    for switch in case.rules:
        for rule in case.rules[switch].rules.values():
            assert SetDscp(0) not in rule.actions
            # Only leaves write it, before there is a label.
            where = [number for number, action in enumerate(rule.actions) if isinstance(action, SetDscp)]
            assert where in ([], [0])
            assert not where or switch in {leaf.key for leaf in case.fabric.leaves}
            assert not where or dict(rule.match)["eth_type"] != ETH_MPLS


@each_enforcement
@patient
@given(data=st.data())
def test_rules_after_a_change_of_classes_are_those_that_are_made_anew(enforcement: str, data: st.DataObject) -> None:
    drawn = data.draw(cases(enforcement))
    one, other = (dataclasses.replace(drawn, traffic=data.draw(classes_of(drawn.traffic))) for _ in range(2))
    before = CompiledFlows(inputs(one).blocks, compile_inputs(enforcement, inputs(one)))
    assert compile_inputs(enforcement, inputs(other, before)) == compile_inputs(enforcement, inputs(other))


@each_enforcement
@patient
@given(data=st.data())
def test_the_lowest_class_changes_no_rule(enforcement: str, data: st.DataObject) -> None:
    case = data.draw(cases(enforcement))
    assert not any(
        isinstance(action, SetDscp)
        for switch in case.rules
        for rule in case.rules[switch].rules.values()
        for action in rule.actions
    )
