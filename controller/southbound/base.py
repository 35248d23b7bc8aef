"""Base forwarding: the static rules by which every host reaches every other, before and beside any plan.

A leaf delivers to its own hosts by address and spreads everything for another leaf by ECMP over the uplinks whose
spine has a live cable to that leaf. A spine knows one prefix rule a leaf. ARP takes the same ways, by target
address, so neighbours resolve without flooding and without the controller. What comes down from a spine is never sent
up again: no loop can form, whatever the cabling.

A cable that is drained is no longer an uplink of its leaf. Its spine continues to forward what still comes: leaves
change over one by one, and no packet that is on its way may find its rule gone.

Discovery packets come to the controller from every switch.

Rules per switch: a leaf 3 per host (the third drops its discovery packets, see ``leaf_guards``), 2 per prefix of each
other leaf, 1 per uplink; a spine 2 per prefix. With parallel cables a spine notes the number of the cable in (metadata)
and picks the cable out by it in a second table: 2 rules per prefix and cable number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Network

from controller.model.fabric import Fabric, Host
from controller.southbound import lldp
from controller.southbound.leaf_guards import ARP_METER, DISCOVERY_METER, guard_hosts
from controller.southbound.rules import (
    Action,
    Bundle,
    Match,
    MatchValue,
    Output,
    Rule,
    RuleBuilder,
    RuleKey,
    RuleSet,
    SwitchRules,
    ToController,
    ToGroup,
    match,
    port_bucket,
)

ETH_IPV4 = 0x0800
ETH_ARP = 0x0806

# Priorities, one band each.
DISCOVERY = 65000
"""Discovery packets come to the controller, above all forwarding rules. Ryu's rule, which former versions left on
switches, has priority 65535: it stays beside this one, without a meter, until the switch restarts."""
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
"""Bytes of an ARP packet that the controller gets: all of it, with room for VLAN tags."""

DISCOVERY_BYTES = 128
"""Bytes of a discovery packet that the controller gets: all of its own, the beginning of others'."""

LISTEN_RULE = Rule(
    0, DISCOVERY, match(eth_type=lldp.ETHERTYPE, eth_dst=lldp.NEAREST_BRIDGE), (ToController(DISCOVERY_BYTES),),
    meter=DISCOVERY_METER.id,
)  # fmt: skip
"""The rule on every switch by which cables are found."""


def compile_base(
    fabric: Fabric, *, usable: Fabric | None = None, ecmp_action: str = "bundle", learn: bool = False
) -> RuleSet:
    """Return the base rules of every switch of the fabric, by datapath id.

    Args:
        fabric: with the port numbers that are known; a cable or host without them gets no rule.
        usable: the same without the cables that are drained; ``None``: none is.
        ecmp_action: ``bundle`` or ``select``.
        learn: send ARP for unknown targets to the controller (discovery alone, or hosts whose port is not known).
    """
    builders = base_builders(fabric, usable=usable, ecmp_action=ecmp_action, learn=learn)
    return RuleSet({dpid: builder.build() for dpid, builder in builders.items()})


def compile_listening(dpids: Iterable[int]) -> RuleSet:
    """Return rules for switches without a known role: forward nothing, send ARP and discovery here."""
    rules = (LISTEN_RULE, Rule(0, MISS, ()), to_controller(UNKNOWN_ARP))
    held = SwitchRules({rule.key: rule for rule in rules})
    return RuleSet(dict.fromkeys(dpids, held))


def to_controller(priority: int, **fields: MatchValue) -> Rule:
    """Return the rule that sends ARP with these fields to the controller."""
    return Rule(
        0, priority, match(eth_type=ETH_ARP, **fields), (ToController(ARP_BYTES),), meter=ARP_METER.id
    )  # fmt: skip


def base_builders(
    fabric: Fabric, *, usable: Fabric | None = None, ecmp_action: str = "bundle", learn: bool = False
) -> dict[int, RuleBuilder]:
    """Return builders with the rules of ``compile_base``, to which the rules of a plan can be added."""
    kept = _kept.rules(fabric, usable or fabric, ecmp_action, learn)
    return {dpid: RuleBuilder(rules) for dpid, rules in kept.items()}


class _Kept:
    """The newest base rules: most plans are for the network of the plan before, and have the same ones.

    The objects are shared, too, so that comparison and encoding can detect equal rules by identity.
    """

    def __init__(self) -> None:
        self._newest: tuple[tuple[Fabric, Fabric, str, bool], dict[int, SwitchRules]] | None = None

    def rules(self, fabric: Fabric, usable: Fabric, ecmp_action: str, learn: bool) -> dict[int, SwitchRules]:
        """Return the rules by datapath id. Safe for threads: each sees a complete answer or none."""
        newest, asked = self._newest, (fabric, usable, ecmp_action, learn)
        if newest is not None and newest[0] == asked:
            return newest[1]
        builders = _builders(*asked)
        rules = {dpid: builder.build() for dpid, builder in builders.items()}
        self._newest = asked, rules
        return rules


_kept = _Kept()


def _builders(fabric: Fabric, usable: Fabric, ecmp_action: str, learn: bool) -> dict[int, RuleBuilder]:
    builders = {}
    hops = NextHops(usable)
    ways = [[fields for prefix in prefixes for fields in towards(prefix)] for prefixes in fabric.leaf_prefixes]
    shared = _Shared(ways)
    hosts: list[list[Host]] = [[] for _ in fabric.leaves]
    for host, index in zip(fabric.hosts, fabric.host_leaf.tolist(), strict=True):
        hosts[index].append(host)
    for a, leaf in enumerate(fabric.leaves):
        builder = builders[leaf.dpid] = RuleBuilder()
        _leaf(fabric, a, hosts[a], shared, hops, builder, ecmp_action)
        if learn:
            _learning_leaf(fabric, a, builder)
        else:
            guard_hosts(builder, sorted({host.port for host in hosts[a] if host.port is not None}))
    wide = fabric.parallel.max(axis=0, initial=0)
    for s, spine in enumerate(fabric.spines):
        builder = builders[spine.dpid] = RuleBuilder()
        if wide[s] > 1:
            _parallel_spine(fabric, usable, s, ways, builder)
        else:
            _spine(fabric, s, shared, builder)
    miss = Rule(0, MISS, ())
    for builder in builders.values():
        builder.add(LISTEN_RULE)
        builder.add(miss)
    return builders


Ways = list[list[Match]]
"""[L] the matches of everything that goes to a leaf."""


class NextHops:
    """For each leaf: the ports of its live uplinks whose spine has a live cable to another leaf.

    Most leaves are reached by the same spines, so the answer is kept by that set and not by the pair of leaves.
    """

    def __init__(self, fabric: Fabric) -> None:
        """Collect the live uplinks of each leaf towards each other leaf."""
        self._uplinks: list[list[tuple[int, int]]] = [[] for _ in fabric.leaves]
        reach: list[set[int]] = [set() for _ in fabric.leaves]
        ends = zip(fabric.cables, fabric.cable_lower.tolist(), fabric.cable_upper.tolist(), strict=True)
        for cable, leaf, spine in ends:
            if cable.up and cable.lower_port is not None and cable.upper_port is not None:
                self._uplinks[leaf].append((cable.lower_port, spine))
                reach[leaf].add(spine)
        # One object for equal sets: a key of the dictionary is then found without comparing them.
        one: dict[frozenset[int], frozenset[int]] = {}
        self._reach = [one.setdefault(spines, spines) for spines in map(frozenset, reach)]
        self._known: dict[tuple[int, frozenset[int]], tuple[int, ...]] = {}
        self._alike: dict[frozenset[int], list[int]] = {}
        for leaf, spines in enumerate(self._reach):
            self._alike.setdefault(spines, []).append(leaf)

    def alike(self) -> Iterator[tuple[int, ...]]:
        """Yield groups of leaves that are reached by the same spines."""
        return map(tuple, self._alike.values())

    def ports(self, leaf: int, towards: int) -> tuple[int, ...]:
        """Return the ports of ``leaf``, ascending; empty if no live path leads to the other leaf."""
        key = (leaf, self._reach[towards])
        if key not in self._known:
            self._known[key] = tuple(sorted(port for port, spine in self._uplinks[leaf] if spine in key[1]))
        return self._known[key]


class _Shared:
    """The rules for what goes to a leaf: one object for all switches that hold the same one.

    On a large fabric nearly all rules of a leaf are those of every other leaf, too. One object saves their memory, and
    values derived from a rule, above all its bytes, are derived once.
    """

    def __init__(self, ways: Ways) -> None:
        self._ways = ways
        self._rules: dict[tuple[int, tuple[Action, ...]], dict[RuleKey, Rule]] = {}
        self._blocks: dict[tuple[tuple[int, ...], tuple[Action, ...]], dict[RuleKey, Rule]] = {}

    def to(self, leaf: int, actions: tuple[Action, ...]) -> dict[RuleKey, Rule]:
        """Return rules that apply these actions to everything for a leaf."""
        found = self._rules.get((leaf, actions))
        if found is None:
            rules = (Rule(0, PREFIX, fields, actions) for fields in self._ways[leaf])
            found = self._rules[leaf, actions] = {rule.key: rule for rule in rules}
        return found

    def to_each(self, leaves: tuple[int, ...], but: int, actions: tuple[Action, ...]) -> dict[RuleKey, Rule]:
        """Return the same rules for several leaves, without one (which may be none of them)."""
        block = self._blocks.get((leaves, actions))
        if block is None:
            block = self._blocks[leaves, actions] = {}
            for leaf in leaves:
                block.update(self.to(leaf, actions))
        if but not in leaves:
            return block
        rest = block.copy()
        for key in self.to(but, actions):
            del rest[key]
        return rest


def spread(builder: RuleBuilder, ports: tuple[int, ...], ecmp_action: str) -> tuple[Action, ...]:
    """Return the actions that spread packets over ports by their 5-tuple."""
    if len(ports) == 1:
        return (Output(ports[0]),)
    if ecmp_action == "bundle":
        return (Bundle(ports),)
    return (ToGroup(builder.group("select", map(port_bucket, ports))),)


def towards(prefix: IPv4Network) -> Iterator[Match]:
    """Yield the matches of everything that goes to a prefix: IPv4 by destination, ARP by target."""
    value = ipv4_dst(prefix)
    yield match(eth_type=ETH_IPV4, ipv4_dst=value)
    yield match(eth_type=ETH_ARP, arp_tpa=value)


def ipv4_dst(prefix: IPv4Network) -> MatchValue:
    """Return the value of a match on addresses of a prefix."""
    address = str(prefix.network_address)
    return address if prefix.prefixlen == 32 else (address, str(prefix.netmask))


def down_to(fabric: Fabric, usable: Fabric, b: int, s: int, number: int, builder: RuleBuilder) -> tuple[Action, ...]:
    """Return the actions of a spine for a packet to leaf ``b`` that came in by (or asks for) the cable of this number.

    It sends out by the (number mod n)-th of its n cables, or a live one. Drained cables come last. Empty if no cable is
    up.
    """
    between = fabric.cables_between(b, s)
    # The static choice first, then the others in turn: a dead cable out is passed over by the switch itself.
    order = [between[(number + i) % len(between)] for i in range(len(between))]
    order.sort(key=lambda c: not usable.cables[c].up)
    out = [fabric.cables[c] for c in order]
    ports = [cable.upper_port for cable in out if cable.up and cable.upper_port is not None]
    if len(ports) > 1:
        return (ToGroup(builder.group("failover", map(port_bucket, ports))),)
    return tuple(map(Output, ports))


def _leaf(
    fabric: Fabric, a: int, hosts: list[Host], shared: _Shared, hops: NextHops, builder: RuleBuilder, ecmp_action: str
) -> None:
    for host in hosts:
        if host.port is not None:
            for fields in towards(IPv4Network(f"{host.ip}/32")):
                builder.add(Rule(0, HOST, fields, (Output(host.port),)))
    # A missing cable keeps the port that it should have; where a host sits on it, the host is right.
    taken = {host.port for host in hosts}
    for port in _uplink_ports(fabric, a):
        if port not in taken:
            builder.add(_from_spine(port))
    builder.add(to_controller(HOST, arp_tpa=PROBE_ANSWER))
    for leaves in hops.alike():
        ports = hops.ports(a, leaves[0]) if leaves != (a,) else ()
        if ports:
            builder.add_all(shared.to_each(leaves, a, spread(builder, ports, ecmp_action)))


@lru_cache(maxsize=4096)
def _from_spine(port: int) -> Rule:
    """Return the rule that drops packets from a spine that no host here takes. One object for all leaves."""
    return Rule(0, FROM_SPINE, match(in_port=port))


def _learning_leaf(fabric: Fabric, a: int, builder: RuleBuilder) -> None:
    """Send ARP that no rule can answer to the controller, from hosts and from spines (where it would be dropped)."""
    builder.add(to_controller(UNKNOWN_ARP))
    for port in _uplink_ports(fabric, a):
        builder.add(to_controller(ARP_FROM_SPINE, in_port=port))


def _uplink_ports(fabric: Fabric, a: int) -> list[int]:
    cables = [fabric.cables[c] for s in range(fabric.n_spines) for c in fabric.cables_between(a, s)]
    return [cable.lower_port for cable in cables if cable.lower_port is not None]


def _spine(fabric: Fabric, s: int, shared: _Shared, builder: RuleBuilder) -> None:
    for b in range(fabric.n_leaves):
        for c in fabric.cables_between(b, s):
            port = fabric.cables[c].upper_port
            if port is None or not fabric.cables[c].up:
                continue
            builder.add_all(shared.to(b, (Output(port),)))


def _parallel_spine(fabric: Fabric, usable: Fabric, s: int, ways: Ways, builder: RuleBuilder) -> None:
    """Add rules by which table 0 notes the number of the incoming cable and table 1 sends out by it."""
    widest = 0
    for b in range(fabric.n_leaves):
        for number, c in enumerate(fabric.cables_between(b, s)):
            port = fabric.cables[c].upper_port
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
