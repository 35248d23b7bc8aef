"""Flows of RoCEv2, TCP, UDP and of any protocol between the same hosts, as rules of switches and plans of hosts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.assignment import Assignment
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.model.packets.flow_ports import (
    PORT_MASK,
    PortKind,
    can_be_split,
    flow_ports,
    is_roce,
    kind_of,
    port_code,
)
from controller.model.packets.port_numbers import ROCE_PORT
from controller.model.traffic import FIRST_PORT, Traffic
from controller.southbound.enforcement.flow_packets import packet_of
from controller.southbound.enforcement.port_blocks import port_blocks
from controller.southbound.enforcement.registry import encode_flows
from controller.southbound.rules.interpreter import RuleInterpreter
from controller.telemetry.port_rates import block_keys
from tests.unit.southbound.plans import KEEPING, Case, patient, traffic_of

each_enforcement = pytest.mark.parametrize("enforcement", KEEPING)
PORTS = (FIRST_PORT, FIRST_PORT + 1, 5000, 5001, 4242)


@st.composite
def mixed(draw: st.DrawFn, fabric: Fabric) -> Traffic:
    """Flows of all protocols between few hosts; one end listens for all TCP connections of two hosts."""
    hosts = st.integers(0, min(fabric.n_hosts, 4) - 1)
    flows = set()
    for src, dst in draw(st.lists(st.tuples(hosts, hosts), min_size=1, max_size=3)):
        if src == dst:
            continue
        tcp = draw(st.sampled_from([PortKind.TCP_TO, PortKind.TCP_FROM])) << 16
        codes = [port_code("any"), port_code("udp"), port_code("tcp"), 0, *PORTS]
        codes += [tcp | port for port in PORTS] + [port_code("udp", None, port) for port in PORTS]
        end = next((known for known in flows if known[:2] == (src, dst)), None)
        if end is None:
            flows |= {(src, dst, code) for code in draw(st.sets(st.sampled_from(codes), min_size=1, max_size=9))}
    return traffic_of(sorted(flows))


@st.composite
def mixed_cases(draw: st.DrawFn, enforcement: str) -> Case:
    fabric = draw(st.sampled_from([clos(4, 3, 2), clos(3, 2, 2, parallel=2), pod_clos(2, 2, 2, 2, 2)]))
    traffic = draw(mixed(fabric))
    rows: list[tuple[int, int]] = []
    for flow, (src, dst) in enumerate(zip(traffic.src.tolist(), traffic.dst.tolist(), strict=True)):
        a, b = int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])
        rows.append((flow, -1 if a == b else draw(st.sampled_from(fabric.live_paths(a, b).tolist()))))
    assignment = Assignment.single(np.array([path for _, path in rows], dtype=np.int32))
    return Case(fabric, fabric, traffic, assignment, enforcement)


def is_of(code: int, packet: dict[str, int | str]) -> bool:
    """Whether a packet between the hosts of a flow is one of it, in the words of the reference."""
    protocol, src_port, dst_port = flow_ports(code)
    if protocol == "any":
        return True
    prefix, number = ("tcp", 6) if protocol == "tcp" else ("udp", 17)
    ends = ((src_port, f"{prefix}_src"), (dst_port, f"{prefix}_dst"))
    return packet["ip_proto"] == number and all(port in (None, packet[name]) for port, name in ends)


def known_fields(code: int) -> int:
    """How much of a packet a flow states: its protocol, and each port."""
    protocol, *ports = flow_ports(code)
    return (protocol != "any") + sum(port is not None for port in ports)


@st.composite
def packets_between(draw: st.DrawFn, fabric: Fabric, src: int, dst: int) -> dict[str, int | str]:
    kind = draw(st.sampled_from(["roce", "tcp", "udp", "other"]))
    addresses: dict[str, int | str] = {"eth_type": 0x800, "ipv4_src": fabric.hosts[src].ip}
    addresses["ipv4_dst"] = fabric.hosts[dst].ip
    one, other = (draw(st.sampled_from([*PORTS, 1, 60000])) for _ in range(2))
    if kind == "other":
        return {**addresses, "ip_proto": draw(st.sampled_from([1, 47, 132]))}
    if kind == "tcp":
        return {**addresses, "ip_proto": 6, "tcp_src": one, "tcp_dst": other}
    return {**addresses, "ip_proto": 17, "udp_src": one, "udp_dst": ROCE_PORT if kind == "roce" else other}


def links(case: Case, flow: int, packet: dict[str, int | str]) -> tuple[str, ...]:
    fabric = case.fabric
    source, target = fabric.hosts[case.traffic.src[flow]], fabric.hosts[case.traffic.dst[flow]]
    walk = RuleInterpreter(fabric).walk(case.rules, packet, source=source.name)
    assert walk.host == target.name
    names = {}
    for cable, name in zip(fabric.cables, fabric.cable_names, strict=True):
        names[cable.lower, cable.lower_port] = names[cable.upper, cable.upper_port] = name
    return tuple(names[hop.switch, hop.out_port] for hop in walk.hops[:-1])


def planned(case: Case, flow: int) -> tuple[str, ...]:
    fabric, src, dst = case.fabric, int(case.traffic.src[flow]), int(case.traffic.dst[flow])
    between = fabric.flow_links(src, dst, path_of(case, flow))
    return tuple(fabric.cable_names[(link - fabric.first_cable_link) // 2] for link in between[1:-1])


def path_of(case: Case, flow: int) -> int:
    return int(case.assignment.path[flow])


@each_enforcement
@patient
@given(data=st.data())
def test_a_packet_takes_the_path_of_the_flow_that_states_most_of_it(enforcement: str, data: st.DataObject) -> None:
    """No packet meets two rules of equal priority: the interpreter would raise an error."""
    case = data.draw(mixed_cases(enforcement))
    for flow in range(case.traffic.n_flows):
        src, dst = int(case.traffic.src[flow]), int(case.traffic.dst[flow])
        packet = data.draw(packets_between(case.fabric, src, dst))
        same = np.flatnonzero((case.traffic.src == src) & (case.traffic.dst == dst)).tolist()
        own = [other for other in same if is_of(int(case.traffic.udp_src[other]), packet)]
        if path_of(case, flow) < 0 or not own:
            continue
        known = [known_fields(int(case.traffic.udp_src[other])) for other in own]
        assert known.count(max(known)) == 1
        assert links(case, flow, packet) == planned(case, own[known.index(max(known))])


@each_enforcement
@patient
@given(data=st.data())
def test_the_packet_by_which_a_flow_is_traced_takes_its_planned_path(enforcement: str, data: st.DataObject) -> None:
    case = data.draw(mixed_cases(enforcement))
    for flow in range(case.traffic.n_flows):
        source, target = (case.fabric.hosts[end[flow]] for end in (case.traffic.src, case.traffic.dst))
        if path_of(case, flow) >= 0:
            packet = dict(packet_of(source, target, int(case.traffic.udp_src[flow])))
            assert links(case, flow, packet) == planned(case, flow)


@each_enforcement
@patient
@given(data=st.data())
def test_rules_of_rocev2_are_the_same_beside_flows_of_other_protocols(enforcement: str, data: st.DataObject) -> None:
    case = data.draw(mixed_cases(enforcement))
    roce = np.flatnonzero(is_roce(case.traffic.udp_src))
    columns = (case.traffic.src[roce], case.traffic.dst[roce], case.traffic.udp_src[roce])
    alone = dataclasses.replace(
        case,
        traffic=traffic_of(list(zip(*(column.tolist() for column in columns), strict=True))),
        assignment=Assignment.single(case.assignment.path[roce]),
    )
    for key in alone.rules:
        assert alone.rules[key].rules.items() <= case.rules[key].rules.items()


@patient
@given(data=st.data())
def test_each_flow_of_another_protocol_has_one_rule_at_its_leaf_which_its_counters_are_read_by(
    data: st.DataObject,
) -> None:
    case = data.draw(mixed_cases("per_flow"))
    blocks = port_blocks(case.traffic, case.encoding)
    for row, block in enumerate(blocks.of_row.tolist()):
        if block < 0:
            continue
        key = block_keys(case.fabric, blocks)[block]
        leaf = case.fabric.leaves[case.fabric.host_leaf[case.traffic.src[row]]]
        assert key in case.rules[leaf.dpid].rules
        if kind_of(int(case.traffic.udp_src[row])) != PortKind.ROCE:
            assert np.count_nonzero(blocks.of_row == block) == 1


@pytest.mark.parametrize("code", [port_code("tcp"), port_code("udp", None, 53), port_code("any")])
def test_source_port_refuses_flows_of_other_protocols(code: int) -> None:
    traffic = traffic_of([(0, 2, code)])
    with pytest.raises(InputError, match=f"job/c/0: its protocol is {flow_ports(code).protocol}, so source_port"):
        encode_flows(clos(2, 2, 2), traffic, Assignment.single(np.array([0])), "source_port")


def test_srv6_refuses_what_agents_cannot_tell_apart() -> None:
    fabric, path = clos(2, 2, 2), np.zeros(2, dtype=np.int32)
    stated = traffic_of([(0, 2, port_code("tcp", None, 5000)), (0, 2, FIRST_PORT)])
    with pytest.raises(InputError, match="job/c/0: states a port of tcp"):
        encode_flows(fabric, stated, Assignment.single(path), "srv6")
    both = traffic_of([(0, 2, 0), (0, 2, port_code("tcp"))])
    with pytest.raises(InputError, match=r"job/c/0: job/c/1 is of the same hosts.* roce and tcp"):
        encode_flows(fabric, both, Assignment.single(path), "srv6")
    beside = traffic_of([(0, 2, FIRST_PORT), (0, 2, port_code("tcp"))])
    assert encode_flows(fabric, beside, Assignment.single(path), "srv6").udp_src.tolist() == beside.udp_src.tolist()


@given(st.integers(0, 0xFFFF), st.sampled_from(list(PortKind)))
def test_port_codes_are_the_codes_of_what_they_say(port: int, kind: PortKind) -> None:
    code = kind << 16 | port
    protocol, src_port, dst_port = flow_ports(code)
    if kind == PortKind.ROCE:
        dst_port = None
    if kind == PortKind.ANY or (kind == PortKind.TCP_FROM and not port):
        return
    assert port_code(protocol, src_port, dst_port) == code
    assert code & PORT_MASK == port
    assert bool(can_be_split(np.array([code], dtype=np.int32))[0]) == (kind == PortKind.ROCE and port > 0)
