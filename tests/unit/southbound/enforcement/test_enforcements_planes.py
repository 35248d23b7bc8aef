"""All enforcements where NICs have several ports, walked packet by packet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.traffic import ANY_PORT
from controller.planning.drain import drain, joined_by_spines, without_drained
from controller.southbound.enforcement.registry import rule_enforcements
from controller.southbound.rules.interpreter import Choose, RuleInterpreter
from tests.unit.southbound.enforcement.planned_links import links_of, planned
from tests.unit.southbound.plans import Case, assignments, packets, patient, roce, traffics
from tests.unit.strategies import nic_fabrics

each_enforcement = pytest.mark.parametrize("enforcement", rule_enforcements())
choices: st.SearchStrategy[Choose] = st.sampled_from([min, max])


@st.composite
def plane_cases(draw: st.DrawFn, enforcement: str) -> Case:
    """A plan with some failures, partly drained; some flows lead from one network to another."""
    fabric = draw(nic_fabrics())
    names = st.sampled_from([*fabric.cable_names, *fabric.spine_index])
    usable = without_drained(fabric, drain(fabric, draw(st.sets(names, max_size=3))))
    traffic = draw(traffics(fabric, enforcement))
    return Case(fabric, usable, traffic, draw(assignments(usable, traffic)), enforcement)


@each_enforcement
@patient
@given(data=st.data())
def test_every_planned_flow_takes_exactly_its_planned_links(enforcement: str, data: st.DataObject) -> None:
    case, choose = data.draw(plane_cases(enforcement)), data.draw(choices)
    network = RuleInterpreter(case.fabric)
    for src, dst, path, port in planned(case):
        links = case.fabric.flow_links(src, dst, path)
        if not case.fabric.link_up[list(links)].all():
            continue
        walk = network.walk(
            case.rules, roce(case.fabric, src, dst, port), source=case.fabric.hosts[src].name, choose=choose
        )
        assert walk.host == case.fabric.hosts[dst].name
        assert links_of(case.fabric, walk) == links[1:-1]


@each_enforcement
@patient
@given(data=st.data())
def test_a_packet_reaches_the_port_that_has_its_address_in_its_network_and_leaves_for_no_other(
    enforcement: str, data: st.DataObject
) -> None:
    case, choose = data.draw(plane_cases(enforcement)), data.draw(choices)
    src, dst, packet = data.draw(packets(case))
    fabric = case.fabric
    walk = RuleInterpreter(fabric).walk(case.rules, packet, source=fabric.hosts[src].name, choose=choose)
    network = fabric.planes.network[0][fabric.host_leaf]
    # The address of a bond is that of another port in each network.
    there = [i for i, h in enumerate(fabric.hosts) if network[i] == network[src] and h.ip == fabric.hosts[dst].ip]
    assert there == [dst] or network[src] != network[dst]
    if there in ([], [src]):
        # Nobody there has the address, or only the sender itself.
        assert walk.host is None
        return
    (own,) = there
    ends = fabric.host_leaf[src], fabric.host_leaf[own]
    if ends[0] == ends[1] or joined_by_spines(case.usable)[ends]:
        assert walk.host == fabric.hosts[own].name or not (fabric.hosts[src].up and fabric.hosts[own].up)
    else:
        assert walk.host in (None, fabric.hosts[own].name)


@each_enforcement
@patient
@given(data=st.data())
def test_packets_of_two_flows_differ_by_address_or_source_port(enforcement: str, data: st.DataObject) -> None:
    case = data.draw(plane_cases(enforcement))
    packets = [
        (case.fabric.hosts[case.traffic.src[flow]].ip, case.fabric.hosts[case.traffic.dst[flow]].ip, port)
        for flow, port in zip(case.encoding.flow.tolist(), case.encoding.udp_src.tolist(), strict=True)
        if port != ANY_PORT
    ]
    assert len(set(packets)) == len(packets)


@patient
@given(data=st.data())
def test_a_drain_never_parts_two_leaves_of_a_network_and_counts_no_pair_of_two_networks(data: st.DataObject) -> None:
    fabric = data.draw(nic_fabrics())
    names = st.sampled_from([*fabric.cable_names, *fabric.spine_index])
    left = without_drained(fabric, drain(fabric, data.draw(st.sets(names, max_size=4))))
    network = fabric.planes.network[0]
    for a in range(fabric.n_leaves):
        for b in range(fabric.n_leaves):
            if a != b:
                assert bool(len(fabric.live_paths(a, b))) == bool(len(left.live_paths(a, b)))
                assert network[a] == network[b] or not len(fabric.live_paths(a, b))
