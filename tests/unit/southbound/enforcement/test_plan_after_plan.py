"""The compiler of switches' rules goes on from the plan before: the result is that of a compiler that begins anew."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from controller.config import Settings
from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.traffic import Traffic
from controller.southbound.enforcement.enforcement_task import EnforcementTask, PlannedFlows
from controller.southbound.enforcement.openflow_rules import OpenFlowCompiler
from controller.southbound.enforcement.registry import encode_flows, rule_enforcements
from controller.southbound.forwarding.base import compile_base
from tests.unit.southbound.forwarding.pods import ACTIONS, K4, irregular, up_to_three
from tests.unit.southbound.plans import (
    accepts,
    assignments,
    partly_drained,
    patchy_fabrics,
    patient,
    traffic_of,
    traffics,
)

each_enforcement = pytest.mark.parametrize("enforcement", rule_enforcements())


def compiler(ecmp_action: str = "bundle") -> OpenFlowCompiler:
    return OpenFlowCompiler(ecmp_action, Settings())


@st.composite
def two_states(draw: st.DrawFn, enforcement: str) -> list[tuple[Fabric, Fabric]]:
    """Draw a network of two or three layers before and after cables fail or are drained, without what is drained."""
    pods = draw(st.booleans())
    fabric = draw(irregular() if pods else patchy_fabrics().filter(lambda each: each.cables))
    assume(accepts(enforcement, fabric))
    later = fabric.without_links(draw(st.sets(st.sampled_from(fabric.cable_names), max_size=2)))
    return [(fabric, fabric), (later, later if pods else draw(partly_drained(later)))]


@st.composite
def parts_of(draw: st.DrawFn, traffic: Traffic) -> Traffic:
    """Draw the flows of a traffic that remain when others have ended."""
    flows = list(zip(traffic.src.tolist(), traffic.dst.tolist(), traffic.udp_src.tolist(), strict=True))
    return traffic_of(draw(st.lists(st.sampled_from(flows), unique=True)) if flows else [])


@each_enforcement
@patient
@given(data=st.data())
def test_rules_after_any_plans_before_are_those_of_the_newest_plan_alone(enforcement: str, data: st.DataObject) -> None:
    states, action = data.draw(two_states(enforcement)), data.draw(ACTIONS)
    every = data.draw(traffics(states[0][0], enforcement))
    goes_on = compiler(action)
    for _ in range(data.draw(st.integers(2, 4))):
        fabric, usable = data.draw(st.sampled_from(states))
        traffic = data.draw(parts_of(every))
        encoding = encode_flows(fabric, traffic, data.draw(assignments(usable, traffic)), enforcement)
        task = EnforcementTask(fabric, usable, PlannedFlows(enforcement, traffic, encoding))
        assert goes_on(task) == compiler(action)(task)


@each_enforcement
@patient
@given(data=st.data())
def test_switches_that_a_plan_does_not_concern_keep_the_very_same_rules(enforcement: str, data: st.DataObject) -> None:
    """So neither their rules are made again, nor compared with those that they hold."""
    fabric = K4.without_links(data.draw(up_to_three()))
    traffic = data.draw(traffics(fabric, enforcement))
    encoding = encode_flows(fabric, traffic, data.draw(assignments(fabric, traffic)), enforcement)
    goes_on = compiler()
    first, again = (
        goes_on(EnforcementTask(fabric, fabric, PlannedFlows(enforcement, traffic, each)))
        for each in (encoding, dataclasses.replace(encoding))
    )
    assert all(first[switch] is again[switch] for switch in first)
    nothing = traffic_of([])
    none = encode_flows(fabric, nothing, data.draw(assignments(fabric, nothing)), enforcement)
    without = goes_on(EnforcementTask(fabric, fabric, PlannedFlows(enforcement, nothing, none)))
    untouched = [switch for switch in without if without[switch] == first[switch]]
    assert all(without[switch] is first[switch] for switch in untouched)


def one_path_each(traffic: Traffic) -> Assignment:
    leaf = K4.host_leaf
    live = [int(K4.live_paths(leaf[a], leaf[b])[0]) for a, b in zip(traffic.src, traffic.dst, strict=True)]
    return Assignment.single(np.array(live, dtype=np.int32))


def test_a_mode_without_a_plan_and_another_enforcement_come_in_between_without_a_trace() -> None:
    traffic = traffic_of([(0, 9, 50000), (1, 13, 50001)])
    goes_on, results = compiler(), []
    for enforcement in (*rule_enforcements(), *reversed(rule_enforcements())):
        encoding = encode_flows(K4, traffic, one_path_each(traffic), enforcement)
        planned = goes_on(EnforcementTask(K4, K4, PlannedFlows(enforcement, traffic, encoding)))
        assert planned == compiler()(EnforcementTask(K4, K4, PlannedFlows(enforcement, traffic, encoding)))
        assert goes_on(EnforcementTask(K4, K4)) == compile_base(K4)
        results.append(planned)
    assert results[: len(results) // 2] == results[len(results) // 2 :][::-1]
