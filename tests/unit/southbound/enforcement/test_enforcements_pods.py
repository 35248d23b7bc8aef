"""All enforcements in three layers, walked packet by packet."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from controller.model.assignment import LOCAL, Assignment
from controller.model.choices.enforcement import BUILT_IN_ENFORCEMENTS
from controller.model.files.pod_clos import pod_clos
from controller.southbound.enforcement.registry import rule_enforcements
from controller.southbound.enforcement.source_port import choice_bits, path_bits
from controller.southbound.forwarding.base import compile_base
from controller.southbound.rules.interpreter import Choose, RuleInterpreter
from controller.southbound.rules.rule_set import RuleSet
from tests.unit.southbound.enforcement.documented_rows import rows
from tests.unit.southbound.enforcement.planned_links import links_of, planned
from tests.unit.southbound.forwarding.pods import (
    ACTIONS,
    K4,
    cable_ports,
    goes_up_then_down,
    irregular,
    joined,
    up_to_three,
)
from tests.unit.southbound.plans import Case, accepts, assignments, packets, patient, roce, traffic_of, traffics

each_enforcement = pytest.mark.parametrize("enforcement", rule_enforcements())
choices: st.SearchStrategy[Choose] = st.sampled_from([min, max])


@st.composite
def pod_cases(draw: st.DrawFn, enforcement: str, *, failures: bool = True) -> Case:
    """A plan on the fat tree of four ports with up to three failures, partly drained, or on an irregular fabric.

    Some enforcements refuse some irregular fabrics: there are no labels for parallel cables of cores.
    """
    fabric = usable = K4
    if failures:
        fabric = K4.without_links(draw(up_to_three()))
        if draw(st.booleans()):
            fabric = draw(irregular())
            assume(accepts(enforcement, fabric))
        parts = [name for name in draw(up_to_three()) if name not in K4.leaf_index] if draw(st.booleans()) else []
        usable = fabric.without_links(name for name in parts if name in fabric.layer_of or name in fabric.cable_names)
    traffic = draw(traffics(fabric, enforcement))
    assignment = draw(assignments(usable, traffic))
    return Case(fabric, usable, traffic, assignment, enforcement, draw(ACTIONS))


@each_enforcement
@patient
@given(data=st.data())
def test_every_planned_flow_and_piece_takes_exactly_its_planned_links(enforcement: str, data: st.DataObject) -> None:
    case, choose = data.draw(pod_cases(enforcement)), data.draw(choices)
    network = RuleInterpreter(case.fabric)
    for src, dst, path, port in planned(case):
        packet = roce(case.fabric, src, dst, port)
        walk = network.walk(case.rules, packet, source=case.fabric.hosts[src].name, choose=choose)
        assert walk.host == case.fabric.hosts[dst].name
        assert links_of(case.fabric, walk) == case.fabric.flow_links(src, dst, path)[1:-1]


@each_enforcement
@patient
@given(data=st.data())
def test_every_packet_reaches_its_host_if_live_cables_join_the_leaves(enforcement: str, data: st.DataObject) -> None:
    case, choose = data.draw(pod_cases(enforcement)), data.draw(choices)
    src, dst, packet = data.draw(packets(case))
    walk = RuleInterpreter(case.fabric).walk(case.rules, packet, source=case.fabric.hosts[src].name, choose=choose)
    assert goes_up_then_down(case.fabric, walk)
    if joined(case.usable, case.fabric.hosts[src].leaf, case.fabric.hosts[dst].leaf):
        assert walk.host == case.fabric.hosts[dst].name
    elif not joined(case.fabric, case.fabric.hosts[src].leaf, case.fabric.hosts[dst].leaf):
        assert walk.host is None
        assert walk.end in ("dropped", "sent back out of its in-port")


@each_enforcement
@patient
@given(data=st.data())
def test_when_a_planned_uplink_dies_the_switch_below_it_still_reaches_the_host(
    enforcement: str, data: st.DataObject
) -> None:
    case, choose = data.draw(pod_cases(enforcement, failures=False)), data.draw(choices)
    for src, dst, path, port in planned(case):
        links = case.fabric.flow_links(src, dst, path)[1:-1]
        link = data.draw(st.sampled_from(links[: len(links) // 2]))
        cable = case.fabric.cables[(link - case.fabric.first_cable_link) // 2]
        walk = RuleInterpreter(case.fabric, down=cable_ports(cable)).walk(
            case.rules, roce(case.fabric, src, dst, port), source=case.fabric.hosts[src].name, choose=choose
        )
        assert goes_up_then_down(case.fabric, walk)
        assert walk.host == case.fabric.hosts[dst].name


@each_enforcement
@patient
@given(data=st.data())
def test_packets_never_loop_nor_go_to_another_host_while_switches_change_from_one_plan_and_network_to_another(
    enforcement: str, data: st.DataObject
) -> None:
    cases = [data.draw(pod_cases(enforcement, failures=False)) for _ in range(2)]
    failed = K4.without_links(data.draw(up_to_three()))
    traffic = data.draw(traffics(failed, enforcement))
    cases.append(Case(failed, failed, traffic, data.draw(assignments(failed, traffic)), enforcement))
    pick = data.draw(st.randoms(use_true_random=False))
    mixed = RuleSet({switch.dpid: pick.choice(cases).rules[switch.dpid] for switch in K4.switches})
    src, dst, packet = data.draw(packets(pick.choice(cases)))
    walk = RuleInterpreter(failed).walk(mixed, packet, source=K4.hosts[src].name, choose=pick.choice)
    assert goes_up_then_down(failed, walk)
    assert walk.host in (None, K4.hosts[dst].name)


@each_enforcement
def test_a_flow_by_the_second_of_two_cables_up_reaches_a_leaf_with_one(enforcement: str) -> None:
    whole = pod_clos(2, 2, 1, 1, 2, parallel=2)
    cables = [cable for cable in whole.cables if (cable.lower, cable.lower_port) != ("leaf2", 3)]
    fabric = dataclasses.replace(whole, cables=tuple(cables)).without_links(["leaf1-agg1"])
    (path,) = fabric.live_paths(0, 1).tolist()
    case = Case(fabric, fabric, traffic_of([(0, 2, 50000)]), Assignment.single(np.array([path])), enforcement)
    ((_, _, _, port),) = planned(case)
    walk = RuleInterpreter(fabric).walk(case.rules, roce(fabric, 0, 2, port), source=fabric.hosts[0].name)
    assert walk.host == fabric.hosts[2].name
    assert links_of(fabric, walk) == fabric.flow_links(0, 2, path)[1:-1]


@pytest.mark.parametrize(("dst", "rules_up"), [(1, [0, 0, 0]), (2, [1, 0, 0]), (15, [1, 1, 0])])
def test_a_flow_has_one_rule_at_each_switch_on_its_way_up(dst: int, rules_up: list[int]) -> None:
    traffic = traffic_of([(0, dst, 50000)])
    path = K4.live_paths(0, int(K4.host_leaf[dst]))[-1:] if dst > 1 else np.array([LOCAL])
    case = Case(K4, K4, traffic, Assignment.single(path.astype(np.int32)), "per_flow")
    base = compile_base(K4)
    counts = [[len(case.rules[switch.dpid]) - len(base[switch.dpid]) for switch in layer] for layer in K4.layers]
    assert [sum(layer) for layer in counts] == rules_up


def test_choices_of_a_path_have_their_own_bits_of_the_port() -> None:
    assert choice_bits(K4) == (1, 1)
    paths = K4.live_paths(0, 7)
    assert sorted(path_bits(K4, paths).tolist()) == [0, 1, 2, 3]
    assert path_bits(K4, K4.live_paths(0, 1)).tolist() == [0, 2]


@pytest.mark.parametrize("sizes", [(4, 2, 2, 2, 2), (3, 4, 2, 3, 5), (2, 3, 4, 1, 2)])
def test_the_formulas_of_the_documents_count_what_is_compiled(sizes: tuple[int, int, int, int, int]) -> None:
    pods, leaves, aggs, cores, hosts = sizes
    fabric = pod_clos(*sizes)
    # Every host sends to the one in its place two leaves further on, over some path.
    ends = [(host, (host + 2 * hosts) % fabric.n_hosts) for host in range(fabric.n_hosts)]
    leaf = fabric.host_leaf.tolist()
    paths = [int(fabric.live_paths(leaf[a], leaf[b])[a % aggs]) for a, b in ends]
    traffic, assignment = traffic_of([(a, b, 50000) for a, b in ends]), Assignment.single(np.array(paths))
    links = [fabric.flow_links(a, b, path)[1:-1] for (a, b), path in zip(ends, paths, strict=True)]
    lower = [[fabric.cables[(link - fabric.first_cable_link) // 2].lower for link in each] for each in links]
    names = {"P": pods, "L": leaves, "H": hosts, "G": aggs, "C": cores, "F": hosts}
    formulas = {name.strip("`"): cells for name, *cells in rows("| | leaf | aggregation switch | core |")}
    none = formulas.pop("no plan")
    built_in = [name for name in BUILT_IN_ENFORCEMENTS if name in rule_enforcements()]
    assert list(formulas) == [f"{enforcement}` adds" for enforcement in built_in]
    for enforcement in built_in:
        rules = Case(fabric, fabric, traffic, assignment, enforcement).rules
        for layer, members in enumerate(fabric.layers):
            for switch in members:
                names["A"] = sum(len(each) == 4 and each[1] == switch.name for each in lower)
                told = [eval(cells[layer].strip("`"), {}, names) for cells in (none, formulas[f"{enforcement}` adds"])]
                assert len(rules[switch.dpid]) == sum(told)
