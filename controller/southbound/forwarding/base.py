"""Base forwarding: the static rules by which every host reaches every other, before and beside any plan.

A leaf delivers to its own hosts by address and spreads everything for another leaf by ECMP over the uplinks whose
spine has a live cable to that leaf. A spine knows one prefix rule a leaf. ARP takes the same ways, by target
address, so neighbours resolve without flooding and without the controller. What comes down is never sent up again: no
loop can form, whatever the cabling.

In three layers an aggregation switch is a leaf whose hosts are the leaves of its pod, and a core is a spine whose
leaves are pods. Over parallel cables to a leaf, an aggregation switch spreads by ECMP, too. Leaves and aggregation
switches know one prefix rule for each other pod, and exceptions for the leaves there that some of their uplinks do not
reach.

A cable that is drained is no longer an uplink of its leaf. Its spine continues to forward what still comes: leaves
change over one by one, and no packet that is on its way may find its rule gone.

Discovery packets come to the controller from every switch.

Rules per switch: a leaf 3 per host (the third drops its discovery packets, see ``leaf_guards``), 2 per prefix of each
other leaf (in its pod, and of each other pod), 1 per uplink; a spine 2 per prefix. With parallel cables a spine notes
the number of the cable in (metadata) and picks the cable out by it in a second table: 2 rules per prefix and cable
number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from ipaddress import IPv4Network

from controller.model.fabric import Fabric, Host
from controller.model.switch_key import SwitchKey
from controller.southbound.discovery import lldp
from controller.southbound.forwarding.destinations import Destinations
from controller.southbound.forwarding.leaf_guards import ARP_METER, DISCOVERY_METER, guards
from controller.southbound.forwarding.next_hops import NextHops
from controller.southbound.forwarding.prefix_rules import Downwards, Matches, SharedRules, Upwards, output
from controller.southbound.rules.priorities import (
    ARP_FROM_SPINE,
    BELOW,
    DISCOVERY,
    FROM_SPINE,
    HOST,
    MISS,
    PREFIX,
    UNKNOWN_ARP,
)
from controller.southbound.rules.rule import (
    Action,
    Match,
    MatchValue,
    Output,
    Rule,
    RuleKey,
    ToController,
    ToGroup,
    match,
    port_bucket,
)
from controller.southbound.rules.rule_set import RuleBuilder, RuleSet, SwitchRules

ETH_IPV4 = 0x0800
ETH_ARP = 0x0806
_IPV4, _ARP = ("eth_type", ETH_IPV4), ("eth_type", ETH_ARP)

PROBE_ANSWER = "0.0.0.0"
"""Target address of the answer to a probe (RFC 5227): these come to the controller, which asked."""

ARP_BYTES = 128
"""Bytes of an ARP packet that the controller gets: all of it, with room for VLAN tags."""

DISCOVERY_BYTES = 128
"""Bytes of a discovery packet that the controller gets: all of its own, the beginning of others'."""

LISTEN_RULE = Rule(
    0,
    DISCOVERY,
    match(eth_type=lldp.ETHERTYPE, eth_dst=lldp.NEAREST_BRIDGE),
    (ToController(DISCOVERY_BYTES),),
    meter=DISCOVERY_METER.id,
)
"""The rule on every switch by which cables are found."""


def compile_base(
    fabric: Fabric, *, usable: Fabric | None = None, ecmp_action: str = "bundle", learn: bool = False
) -> RuleSet:
    """Return the base rules of every OpenFlow switch of the fabric, by datapath id.

    Args:
        fabric: with the port numbers that are known; a cable or host without them gets no rule.
        usable: the same without the cables that are drained; ``None``: none is.
        ecmp_action: ``bundle`` or ``select``.
        learn: send ARP for unknown targets to the controller (discovery alone, or hosts whose port is not known).
    """
    builders = base_builders(fabric, usable=usable, ecmp_action=ecmp_action, learn=learn)
    return rules_of(builders)


def rules_of(builders: Mapping[SwitchKey, RuleBuilder]) -> RuleSet:
    """Return the rules of the switches that speak OpenFlow. Others are no concern of rules, wherever they stand."""
    return RuleSet({key: builder.build() for key, builder in builders.items() if isinstance(key, int)})


def compile_listening(switches: Iterable[SwitchKey]) -> RuleSet:
    """Return rules for switches without a known role: forward nothing, send ARP and discovery here."""
    rules = (LISTEN_RULE, Rule(0, MISS, ()), to_controller(UNKNOWN_ARP))
    held = SwitchRules({rule.key: rule for rule in rules})
    return RuleSet({key: held for key in switches if isinstance(key, int)})


def to_controller(priority: int, **fields: MatchValue) -> Rule:
    """Return the rule that sends ARP with these fields to the controller."""
    return Rule(0, priority, match(eth_type=ETH_ARP, **fields), (ToController(ARP_BYTES),), meter=ARP_METER.id)


def base_builders(
    fabric: Fabric, *, usable: Fabric | None = None, ecmp_action: str = "bundle", learn: bool = False
) -> dict[SwitchKey, RuleBuilder]:
    """Return builders with the rules of ``compile_base``, to which the rules of a plan can be added."""
    kept = _kept.rules(fabric, usable or fabric, ecmp_action, learn)
    return {key: RuleBuilder(rules) for key, rules in kept.items()}


class _Kept:
    """The newest base rules: most plans are for the network of the plan before, and have the same ones.

    The objects are shared, too, so that comparison and encoding can detect equal rules by identity.
    """

    def __init__(self) -> None:
        self._newest: tuple[tuple[Fabric, Fabric, str, bool], dict[SwitchKey, SwitchRules]] | None = None

    def rules(self, fabric: Fabric, usable: Fabric, ecmp_action: str, learn: bool) -> dict[SwitchKey, SwitchRules]:
        """Return the rules by the keys of switches. Safe for threads: each sees a complete answer or none."""
        newest, asked = self._newest, (fabric, usable, ecmp_action, learn)
        if newest is not None and newest[0] == asked:
            return newest[1]
        builders = _builders(*asked)
        rules = {key: builder.build() for key, builder in builders.items()}
        self._newest = asked, rules
        return rules


_kept = _Kept()


def _builders(fabric: Fabric, usable: Fabric, ecmp_action: str, learn: bool) -> dict[SwitchKey, RuleBuilder]:
    builders = {switch.key: RuleBuilder() for switch in fabric.switches}
    to = Destinations(fabric)
    ways = [[fields for prefix in prefixes for fields in towards(prefix)] for prefixes in to.prefixes]
    shared = SharedRules(ways, to.n_leaves)
    hosts: list[list[Host]] = [[] for _ in fabric.leaves]
    for host, index in zip(fabric.hosts, fabric.host_leaf.tolist(), strict=True):
        hosts[index].append(host)
    hops = NextHops(usable)
    down = Downwards(fabric, usable, shared, ecmp_action)
    for layer in range(len(fabric.layers) - 1):
        # An aggregation switch whose uplinks are all drained still sends on what is on its way.
        past = hops if layer == 0 or usable is fabric else NextHops(fabric)
        upwards = Upwards(layer, to, (hops, past), shared, ecmp_action)
        uplinks = uplink_ports(fabric, layer)
        for x, switch in enumerate(fabric.layers[layer]):
            builder = builders[switch.key]
            host_ports: set[int] = set()
            if layer == 0:
                _leaf(hosts[x], builder)
                below = {x}
                host_ports = {host.port for host in hosts[x] if host.port is not None}
            else:
                below = down.add(to.cables_below[layer - 1][x], BELOW, builder)
            # A missing cable keeps the port that it should have; where a host sits on it, the host is right.
            builder.add_all(_from_above(tuple(port for port in uplinks[x] if port not in host_ports)))
            upwards.add(x, below, builder)
            if layer == 0 and learn:
                _learn(uplinks[x], builder)
            elif layer == 0:
                builder.add_all(guards(tuple(sorted(host_ports))))
    for s, top in enumerate(fabric.spines):
        cables = to.cables_below[-1][s]
        if max(map(len, cables.values()), default=0) > 1:
            _parallel_spine(fabric, usable, cables, ways, builders[top.key])
        else:
            down.add(cables, None, builders[top.key])
    miss = Rule(0, MISS, ())
    for builder in builders.values():
        builder.add(LISTEN_RULE)
        builder.add(miss)
    return builders


def towards(prefix: IPv4Network) -> tuple[Match, Match]:
    """Return the matches of everything that goes to a prefix: IPv4 by destination, ARP by target."""
    return _to_address(ipv4_dst(prefix))


def _to_address(value: MatchValue) -> tuple[Match, Match]:
    """Return the same for an address; written out in the order of the fields, since it is needed for every host."""
    return (_IPV4, ("ipv4_dst", value)), (("arp_tpa", value), _ARP)


def ipv4_dst(prefix: IPv4Network) -> MatchValue:
    """Return the value of a match on addresses of a prefix."""
    address = str(prefix.network_address)
    return address if prefix.prefixlen == 32 else (address, str(prefix.netmask))


def down_to(
    fabric: Fabric, usable: Fabric, between: list[int], number: int, builder: RuleBuilder
) -> tuple[Action, ...]:
    """Return the actions of a switch for a packet down that came in by (or asks for) the cable of this number.

    It sends out by the (number mod n)-th of n cables, or a live one. Drained cables come last. Empty if no cable is up.

    Args:
        fabric: with the port numbers that are known.
        usable: the same without the cables that are drained.
        between: the cables to the packet's destination, in static order.
        number: see above.
        builder: of the switch.
    """
    # The static choice first, then the others in turn: a dead cable out is passed over by the switch itself.
    order = [between[(number + i) % len(between)] for i in range(len(between))]
    order.sort(key=lambda c: not usable.cables[c].up)
    out = [fabric.cables[c] for c in order]
    ports = [cable.upper_port for cable in out if cable.up and cable.upper_port is not None]
    if len(ports) > 1:
        return (ToGroup(builder.group("failover", map(port_bucket, ports))),)
    return tuple(map(Output, ports))


def uplink_ports(fabric: Fabric, layer: int) -> list[dict[int, int]]:
    """Return the switch above, by the known uplink ports of each switch of a layer; up or not."""
    ports: list[dict[int, int]] = [{} for _ in fabric.layers[layer]]
    tier = fabric.tier_cables[layer]
    for switch, upper, link in zip(*(each.tolist() for each in (tier.lower, tier.upper, tier.uplink)), strict=True):
        port = fabric.cables[(link - fabric.first_cable_link) // 2].lower_port
        if port is not None:
            ports[switch][port] = upper
    return ports


def _leaf(hosts: list[Host], builder: RuleBuilder) -> None:
    """Add a leaf's rules for its hosts."""
    rules: dict[RuleKey, Rule] = {}
    for host in hosts:
        if host.port is not None:
            actions = output(host.port)
            for fields in _to_address(host.ip):
                rules[0, HOST, fields] = Rule(0, HOST, fields, actions)
    builder.add_all(rules)
    builder.add(to_controller(HOST, arp_tpa=PROBE_ANSWER))


@lru_cache(maxsize=4096)
def _from_above(ports: tuple[int, ...]) -> Mapping[RuleKey, Rule]:
    """Return the rules that drop packets from above that no host here takes. One object for all alike switches."""
    rules = [_from_spine(port) for port in ports]
    return {rule.key: rule for rule in rules}


@lru_cache(maxsize=4096)
def _from_spine(port: int) -> Rule:
    return Rule(0, FROM_SPINE, match(in_port=port))


def _learn(uplinks: Iterable[int], builder: RuleBuilder) -> None:
    """Send ARP that no rule can answer to the controller, from hosts and from spines (where it would be dropped)."""
    builder.add(to_controller(UNKNOWN_ARP))
    for port in uplinks:
        builder.add(to_controller(ARP_FROM_SPINE, in_port=port))


def _parallel_spine(
    fabric: Fabric, usable: Fabric, cables_to: Mapping[int, list[int]], ways: Matches, builder: RuleBuilder
) -> None:
    """Add rules by which table 0 notes the number of the incoming cable and table 1 sends out by it."""
    widest = 0
    for between in cables_to.values():
        for number, c in enumerate(between):
            port = fabric.cables[c].upper_port
            if port is not None:
                widest = max(widest, number + 1)
                builder.add(Rule(0, PREFIX, match(in_port=port), goto=1, metadata=number))
    for end, between in cables_to.items():
        for number in range(widest):
            actions = down_to(fabric, usable, between, number, builder)
            if not actions:
                continue
            for fields in ways[end]:
                builder.add(Rule(1, PREFIX, tuple(sorted((*fields, ("metadata", number)))), actions))
