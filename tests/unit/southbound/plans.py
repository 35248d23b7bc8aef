"""Random fabrics with plans on them, and packets, for the tests of compilers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from controller.model.assignment import LOCAL, UNROUTABLE, Assignment
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.packets.port_numbers import ROCE_PORT
from controller.model.traffic import ANY_PORT, FIRST_PORT, LAST_PORT, Collective, Traffic
from controller.planning.drain import drain, without_drained
from controller.southbound.enforcement.flow_encoding import FlowEncoding
from controller.southbound.enforcement.registry import ENFORCEMENTS, compile_rules, encode_flows, rule_enforcements
from controller.southbound.rules.interpreter import Packet
from controller.southbound.rules.rule_set import RuleSet
from tests.traffic_columns import traffic_of_columns
from tests.unit.laws import examples

patient = settings(max_examples=examples(15, 400), suppress_health_check=[HealthCheck.too_slow])
"""A busy machine takes its time to draw a fabric and a plan; ``make laws`` draws more of them."""


KEEPING = [name for name in rule_enforcements() if not ENFORCEMENTS[name].chooses_ports]
"""Enforcements by rules under which flows keep their ports."""


@dataclass(frozen=True)
class Case:
    """A plan on a fabric; ``usable`` is the fabric without what is drained."""

    fabric: Fabric
    usable: Fabric
    traffic: Traffic
    assignment: Assignment
    enforcement: str
    ecmp_action: str = "bundle"

    @cached_property
    def encoding(self) -> FlowEncoding:
        return encode_flows(self.fabric, self.traffic, self.assignment, self.enforcement)

    @cached_property
    def rules(self) -> RuleSet:
        return compile_rules(
            self.enforcement,
            self.fabric,
            self.traffic,
            self.encoding,
            usable=self.usable,
            ecmp_action=self.ecmp_action,
        )


def accepts(enforcement: str, fabric: Fabric) -> bool:
    """Whether an enforcement can enforce plans on a fabric."""
    try:
        ENFORCEMENTS[enforcement].check(fabric, {})
    except InputError:
        return False
    return True


@st.composite
def patchy_fabrics(draw: st.DrawFn) -> Fabric:
    """Some cables are missing (so that pairs of switches have more or fewer than others), some are down."""
    whole = clos(
        draw(st.integers(1, 4)), draw(st.integers(2, 4)), draw(st.integers(1, 2)), parallel=draw(st.integers(1, 3))
    )
    numbers = st.integers(0, len(whole.cables) - 1)
    missing = draw(st.sets(numbers, max_size=len(whole.cables) // 2))
    fabric = dataclasses.replace(whole, cables=tuple(c for i, c in enumerate(whole.cables) if i not in missing))
    down = draw(st.sets(st.sampled_from(fabric.cable_names), max_size=len(fabric.cables) // 2))
    return fabric.without_links(down)


@st.composite
def partly_drained(draw: st.DrawFn, fabric: Fabric) -> Fabric:
    """What is left of a fabric for traffic when some of it is drained."""
    names = st.sampled_from([*fabric.cable_names, *fabric.spine_index])
    return without_drained(fabric, drain(fabric, draw(st.sets(names, max_size=4))))


@st.composite
def traffics(draw: st.DrawFn, fabric: Fabric, enforcement: str) -> Traffic:
    """Flows whose addresses and ports differ, some with neighbours; some ports are unknown if allowed.

    The ports of a bond have one address. Flows between two bonds whose ports are unknown may be in several planes.
    """
    hosts = st.integers(0, fabric.n_hosts - 1)
    ports = st.one_of(st.integers(FIRST_PORT, FIRST_PORT + 3), st.integers(FIRST_PORT, LAST_PORT))
    if not ENFORCEMENTS[enforcement].chooses_ports:
        ports = st.one_of(ports, st.just(ANY_PORT))
    qps = st.one_of(st.just(1), st.integers(1, 9))
    drawn = st.tuples(hosts, hosts, ports, qps).filter(lambda flow: flow[0] != flow[1])
    flows = {
        (src, dst, min(port + qp, LAST_PORT) if port else port)
        for src, dst, port, qps in draw(st.lists(drawn, max_size=8))
        for qp in range(qps)
    }
    address = fabric.planes.address.tolist()
    apart = {(address[src], address[dst], port, not port and (src, dst)): (src, dst, port) for src, dst, port in flows}
    return traffic_of(sorted(apart.values()))


def traffic_of(flows: list[tuple[int, int, int]]) -> Traffic:
    """Traffic of (source host, destination host, UDP source port)."""
    src, dst, port = ([flow[i] for flow in flows] for i in range(3))
    return traffic_of_columns(src, dst, port, collectives=[Collective("job", "c")])


@st.composite
def assignments(draw: st.DrawFn, usable: Fabric, traffic: Traffic, most_paths: int = 3) -> Assignment:
    """Draw a live path, or up to this many, for each flow that has one."""
    rows: list[tuple[int, int, float]] = []
    for flow, (src, dst, port) in enumerate(zip(traffic.src, traffic.dst, traffic.udp_src, strict=True)):
        a, b = int(usable.host_leaf[src]), int(usable.host_leaf[dst])
        live = usable.live_paths(a, b).tolist()
        if a == b or not live:
            rows.append((flow, LOCAL if a == b else UNROUTABLE, 1.0))
            continue
        most = 1 if port == ANY_PORT else most_paths
        chosen = draw(st.lists(st.sampled_from(live), unique=True, min_size=1, max_size=most))
        rows += [(flow, path, 1 / len(chosen)) for path in chosen]
    flows, paths = (np.array([row[i] for row in rows], dtype=np.int32) for i in range(2))
    return Assignment(flows, paths, np.array([row[2] for row in rows]))


@st.composite
def cases(draw: st.DrawFn, enforcement: str) -> Case:
    """Draw an incomplete fabric, partly drained, with a plan on the remaining links."""
    fabric = draw(patchy_fabrics().filter(lambda fabric: fabric.cables))
    usable = draw(partly_drained(fabric))
    traffic = draw(traffics(fabric, enforcement))
    ecmp_action = draw(st.sampled_from(["bundle", "select"]))
    return Case(fabric, usable, traffic, draw(assignments(usable, traffic)), enforcement, ecmp_action)


def roce(fabric: Fabric, src: int, dst: int, port: int) -> dict[str, int | str]:
    """Return a RoCE packet from one host to another; unknown ports get any value."""
    return {
        "eth_type": 0x800,
        "ip_proto": 17,
        "ipv4_src": fabric.hosts[src].ip,
        "ipv4_dst": fabric.hosts[dst].ip,
        "udp_src": port or 4242,
        "udp_dst": ROCE_PORT,
    }


@st.composite
def packets(draw: st.DrawFn, case: Case) -> tuple[int, int, Packet]:
    """Source host, destination host, and a packet between them: RoCE from any port, ARP, ping or something else.

    Hosts may lie about their own address.
    """
    src, dst = draw(st.permutations(range(case.fabric.n_hosts)))[:2]
    planned = case.encoding.udp_src.tolist()
    ports = st.one_of(st.sampled_from(planned or [FIRST_PORT]), st.integers(1, LAST_PORT))
    packet = roce(case.fabric, src, dst, draw(ports))
    packet["ipv4_src"] = draw(st.sampled_from(case.fabric.hosts)).ip
    kind = draw(st.sampled_from(["roce", "udp", "tcp", "ping", "arp"]))
    if kind == "udp":
        packet["udp_dst"] = 53
    elif kind == "tcp":
        packet |= {"ip_proto": 6}
    elif kind == "ping":
        packet = {name: packet[name] for name in ("eth_type", "ipv4_src", "ipv4_dst")} | {"ip_proto": 1}
    elif kind == "arp":
        ends = {"arp_spa": packet["ipv4_src"], "arp_tpa": packet["ipv4_dst"]}
        packet = {"eth_type": 0x806, "arp_op": 1, **ends}
    return src, dst, packet
