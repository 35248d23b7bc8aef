"""Base forwarding: the static rules by which every host reaches every other, before and beside any plan.

A leaf delivers to its own hosts by address and spreads everything for another leaf by ECMP over the uplinks whose
spine has a live cable to that leaf. A spine knows one prefix rule a leaf. ARP takes the same ways, by target
address, so neighbours resolve without flooding and without the controller. What comes down from a spine is never sent
up again: no loop can form, whatever the cabling.

A cable that is drained is no uplink of its leaf any more. Its spine goes on forwarding what still comes: leaves change
over one by one, and no packet that is on its way may find its rule gone.

Rules per switch: a leaf 2 per host, 2 per prefix of each other leaf, 1 per uplink; a spine 2 per prefix. With
parallel cables a spine notes the number of the cable in (metadata) and picks the cable out by it in a second table:
2 rules per prefix and cable number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network

from controller.model.fabric import Fabric, Host
from controller.southbound.rules import (
    Action,
    Builder,
    Bundle,
    Match,
    MatchValue,
    Output,
    Rule,
    RuleSet,
    SwitchRules,
    ToController,
    ToGroup,
    match,
    port_bucket,
)

ETH_IPV4 = 0x0800
ETH_ARP = 0x0806

# Priorities, one band each; Ryu's own LLDP rule is 65535.
FLOW = 2000
"""Rules of planned flows."""
HOST = 1000
ARP_FROM_SPINE = 960
FROM_SPINE = 950
CLASS_EXCEPTION = 930
CLASS = 920
"""Rules of path classes, where the source port names one."""
LABEL = 910
PREFIX = 900
UNKNOWN_ARP = 100
MISS = 0

PROBE_ANSWER = "0.0.0.0"
"""Target address of the answer to a probe (RFC 5227): these come to the controller, which asked."""

ARP_BYTES = 128
"""How much of an ARP packet the controller gets: all of it, with room for VLAN tags."""


def compile_base(
    fabric: Fabric, *, usable: Fabric | None = None, ecmp_action: str = "bundle", learn: bool = False
) -> RuleSet:
    """The base rules of every switch of the fabric, by datapath id.

    Args:
        fabric: with the port numbers that are known; a cable or host without them gets no rule.
        usable: the same without the cables that are drained; ``None``: none is.
        ecmp_action: ``bundle`` or ``select``.
        learn: send ARP for unknown targets to the controller (discovery alone, or hosts whose port is not known).
    """
    builders = base_builders(fabric, usable=usable, ecmp_action=ecmp_action, learn=learn)
    return RuleSet({dpid: builder.build() for dpid, builder in builders.items()})


def compile_listening(dpids: Iterable[int]) -> RuleSet:
    """Rules for switches whose role is not known yet: forward nothing, but let the controller hear ARP."""
    rules = (Rule(0, MISS, ()), Rule(0, UNKNOWN_ARP, match(eth_type=ETH_ARP), (ToController(ARP_BYTES),)))
    held = SwitchRules({rule.key: rule for rule in rules})
    return RuleSet(dict.fromkeys(dpids, held))


def base_builders(
    fabric: Fabric, *, usable: Fabric | None = None, ecmp_action: str = "bundle", learn: bool = False
) -> dict[int, Builder]:
    """Like ``compile_base``, but open for the rules of a plan to be added."""
    builders = {}
    usable = usable or fabric
    hops = NextHops(usable)
    ways = [[fields for prefix in prefixes for fields in towards(prefix)] for prefixes in fabric.leaf_prefixes]
    hosts: list[list[Host]] = [[] for _ in fabric.leaves]
    for host, index in zip(fabric.hosts, fabric.host_leaf.tolist(), strict=True):
        hosts[index].append(host)
    for a, leaf in enumerate(fabric.leaves):
        builder = builders[leaf.dpid] = Builder()
        _leaf(fabric, a, hosts[a], ways, hops, builder, ecmp_action)
        if learn:
            _learning_leaf(fabric, a, builder)
    wide = fabric.parallel.max(axis=0, initial=0)
    for s, spine in enumerate(fabric.spines):
        builder = builders[spine.dpid] = Builder()
        if wide[s] > 1:
            _parallel_spine(fabric, usable, s, ways, builder)
        else:
            _spine(fabric, s, ways, builder)
    for builder in builders.values():
        builder.add(Rule(0, MISS, ()))
    return builders


Ways = list[list[Match]]
"""[L] the matches of everything that goes to a leaf."""


class NextHops:
    """For each leaf: the ports of its live uplinks whose spine has a live cable to another leaf.

    Most leaves are reached by the same spines, so the answer is kept by that set and not by the pair of leaves.
    """

    def __init__(self, fabric: Fabric) -> None:
        self._uplinks: list[list[tuple[int, int]]] = [[] for _ in fabric.leaves]
        reach: list[set[int]] = [set() for _ in fabric.leaves]
        ends = zip(fabric.cables, fabric.cable_leaf.tolist(), fabric.cable_spine.tolist(), strict=True)
        for cable, leaf, spine in ends:
            if cable.up and cable.leaf_port is not None and cable.spine_port is not None:
                self._uplinks[leaf].append((cable.leaf_port, spine))
                reach[leaf].add(spine)
        # One object for equal sets: a key of the dictionary is then found without comparing them.
        one: dict[frozenset[int], frozenset[int]] = {}
        self._reach = [one.setdefault(spines, spines) for spines in map(frozenset, reach)]
        self._known: dict[tuple[int, frozenset[int]], tuple[int, ...]] = {}

    def ports(self, leaf: int, towards: int) -> tuple[int, ...]:
        """Ports of ``leaf``, ascending; empty where no live path leads to the other leaf."""
        key = (leaf, self._reach[towards])
        if key not in self._known:
            self._known[key] = tuple(sorted(port for port, spine in self._uplinks[leaf] if spine in key[1]))
        return self._known[key]


def spread(builder: Builder, ports: tuple[int, ...], ecmp_action: str) -> tuple[Action, ...]:
    """The actions that spread packets over ports by their 5-tuple."""
    if len(ports) == 1:
        return (Output(ports[0]),)
    if ecmp_action == "bundle":
        return (Bundle(ports),)
    return (ToGroup(builder.group("select", map(port_bucket, ports))),)


def towards(prefix: IPv4Network) -> Iterator[Match]:
    """The matches of everything that goes to a prefix: IPv4 by destination, ARP by target."""
    value = ipv4_dst(prefix)
    yield match(eth_type=ETH_IPV4, ipv4_dst=value)
    yield match(eth_type=ETH_ARP, arp_tpa=value)


def ipv4_dst(prefix: IPv4Network) -> MatchValue:
    """The value of a match on addresses of a prefix."""
    address = str(prefix.network_address)
    return address if prefix.prefixlen == 32 else (address, str(prefix.netmask))


def down_to(fabric: Fabric, usable: Fabric, b: int, s: int, number: int, builder: Builder) -> tuple[Action, ...]:
    """What a spine does with a packet for leaf ``b`` that came in by (or asks for) the cable of this number.

    It sends out by the (number mod n)-th of its n cables, or a live one. Drained cables come last. Nothing where no
    cable is up.
    """
    between = fabric.cables_between(b, s)
    # The static choice first, then the others in turn: a dead cable out is passed over by the switch itself.
    order = [between[(number + i) % len(between)] for i in range(len(between))]
    order.sort(key=lambda c: not usable.cables[c].up)
    out = [fabric.cables[c] for c in order]
    ports = [cable.spine_port for cable in out if cable.up and cable.spine_port is not None]
    if len(ports) > 1:
        return (ToGroup(builder.group("failover", map(port_bucket, ports))),)
    return tuple(map(Output, ports))


def _leaf(
    fabric: Fabric, a: int, hosts: list[Host], ways: Ways, hops: NextHops, builder: Builder, ecmp_action: str
) -> None:
    for host in hosts:
        if host.port is not None:
            for fields in towards(IPv4Network(f"{host.ip}/32")):
                builder.add(Rule(0, HOST, fields, (Output(host.port),)))
    # A missing cable keeps the port that it should have; where a host sits on it, the host is right.
    taken = {host.port for host in hosts}
    for port in _uplink_ports(fabric, a):
        if port not in taken:
            builder.add(Rule(0, FROM_SPINE, match(in_port=port)))
    builder.add(Rule(0, HOST, match(eth_type=ETH_ARP, arp_tpa=PROBE_ANSWER), (ToController(ARP_BYTES),)))
    for b in range(fabric.n_leaves):
        ports = hops.ports(a, b) if b != a else ()
        if not ports:
            continue
        actions = spread(builder, ports, ecmp_action)
        for fields in ways[b]:
            builder.add(Rule(0, PREFIX, fields, actions))


def _learning_leaf(fabric: Fabric, a: int, builder: Builder) -> None:
    """ARP that no rule can answer goes to the controller, from hosts and from spines (where it would be dropped)."""
    to_controller = (ToController(ARP_BYTES),)
    builder.add(Rule(0, UNKNOWN_ARP, match(eth_type=ETH_ARP), to_controller))
    for port in _uplink_ports(fabric, a):
        builder.add(Rule(0, ARP_FROM_SPINE, match(eth_type=ETH_ARP, in_port=port), to_controller))


def _uplink_ports(fabric: Fabric, a: int) -> list[int]:
    cables = [fabric.cables[c] for s in range(fabric.n_spines) for c in fabric.cables_between(a, s)]
    return [cable.leaf_port for cable in cables if cable.leaf_port is not None]


def _spine(fabric: Fabric, s: int, ways: Ways, builder: Builder) -> None:
    for b in range(fabric.n_leaves):
        for c in fabric.cables_between(b, s):
            port = fabric.cables[c].spine_port
            if port is None or not fabric.cables[c].up:
                continue
            for fields in ways[b]:
                builder.add(Rule(0, PREFIX, fields, (Output(port),)))


def _parallel_spine(fabric: Fabric, usable: Fabric, s: int, ways: Ways, builder: Builder) -> None:
    """Table 0 notes the number of the cable in; table 1 sends out by it."""
    widest = 0
    for b in range(fabric.n_leaves):
        for number, c in enumerate(fabric.cables_between(b, s)):
            port = fabric.cables[c].spine_port
            if port is not None:
                widest = max(widest, number + 1)
                builder.add(Rule(0, PREFIX, match(in_port=port), goto=1, metadata=number))
    for b in range(fabric.n_leaves):
        for number in range(widest):
            actions = down_to(fabric, usable, b, s, number, builder)
            if not actions:
                continue
            for fields in ways[b]:
                builder.add(Rule(1, PREFIX, tuple(sorted((*fields, ("metadata", number)))), actions))
