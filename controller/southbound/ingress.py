"""The rules of planned flows at their ingress leaves, which ``per_flow`` and ``segment_routing`` have in common.

Each rule leads to a fail-over group: the planned uplink while its port is live, then the others. What a packet gets on
its way into the group, and over each uplink, is the enforcement's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from controller.model.fabric import Fabric
from controller.model.port_numbers import MAX_PORT, ROCE_PORT
from controller.model.traffic import Traffic
from controller.southbound.base import ETH_IPV4, FLOW
from controller.southbound.failover import Failover
from controller.southbound.flow_encoding import FlowEncoding
from controller.southbound.next_hops import NextHops
from controller.southbound.port_blocks import PORT_BITS, port_blocks
from controller.southbound.rules import Action, Match, MatchValue, Rule, RuleBuilder, RuleKey, SwitchRules, ToGroup

UDP = 17
"""UDP destination port of RoCEv2 (IANA; InfiniBand Architecture Specification, annex A17)."""

Field = tuple[str, MatchValue]
IPV4: Field = ("eth_type", ETH_IPV4)
UDP_ONLY: Field = ("ip_proto", UDP)
TO_ROCE: Field = ("udp_dst", ROCE_PORT)

FLOW_TABLE = 0
"""The table of planned flows' rules."""

Towards = Callable[[int, int], tuple[Action, ...]]
"""The actions on a packet for a leaf (its index) over a path class, before the group."""

Over = Callable[[int], tuple[Action, ...]]
"""The actions on a packet to a spine (its index) before it leaves."""


def place_flows(
    fabric: Fabric,
    traffic: Traffic,
    encoding: FlowEncoding,
    builders: Mapping[int, RuleBuilder],
    *,
    usable: Fabric,
    towards: Towards,
    over: Over,
) -> None:
    """Add one rule a block of ports (of one flow, or of several QPs with the same path) at its ingress leaf.

    Flows within a leaf, unroutable flows, and flows whose leaf ports are not known get none: base forwarding has them.

    Args:
        fabric: with the port numbers that are known.
        traffic: the flows.
        encoding: source ports and paths of their pieces.
        builders: of every leaf, by datapath id.
        usable: the fabric without the cables that are drained.
        towards: see ``Towards``.
        over: see ``Over``.
    """
    hops = NextHops(usable)
    ingress = [_Ingress(fabric, a, hops, builders[leaf.dpid], towards, over) for a, leaf in enumerate(fabric.leaves)]
    # Rules share equal parts of their matches: the number of objects limits the speed.
    src_ip: list[Field] = [("ipv4_src", host.ip) for host in fabric.hosts]
    dst_ip: list[Field] = [("ipv4_dst", host.ip) for host in fabric.hosts]
    blocks = port_blocks(traffic, encoding)
    leaves = (fabric.host_leaf[blocks.src], fabric.host_leaf[blocks.dst])
    columns = (*leaves, blocks.src, blocks.dst, blocks.port, blocks.bits, blocks.path)
    for a, b, src, dst, port, bits, path in zip(*(column.tolist() for column in columns), strict=True):
        ingress[a].place(flow_key(src_ip[src], dst_ip[dst], port, bits), path, b)


def flow_key(src_ip: Field, dst_ip: Field, udp_src: int, bits: int) -> RuleKey:
    """Return the key of the rule of one block of ports at its ingress leaf; see ``PortBlocks`` for the last two.

    The priority says how many bits of the port are matched. So a rule for fewer ports is always before one for more,
    whether both belong to one plan (some ports of two hosts are known, and others not) or to two.
    """
    return (FLOW_TABLE, FLOW + bits, _match(src_ip, dst_ip, udp_src, bits))


def _match(src_ip: Field, dst_ip: Field, udp_src: int, bits: int) -> Match:
    """Return the match of one block's packets, written out in order: sorting would dominate the run time."""
    if bits == 0:
        return (IPV4, UDP_ONLY, dst_ip, src_ip, TO_ROCE)
    if bits == PORT_BITS:
        return (IPV4, UDP_ONLY, dst_ip, src_ip, TO_ROCE, ("udp_src", udp_src))
    return (IPV4, UDP_ONLY, dst_ip, src_ip, TO_ROCE, ("udp_src", (udp_src, MAX_PORT ^ MAX_PORT >> bits)))


def with_exact_ports(want: SwitchRules) -> SwitchRules:
    """Return the same forwarding for a switch that does not take masked ports: one rule a port in place of a block."""
    masked = {key: rule for key, rule in want.rules.items() if port_mask(rule) is not None}
    if not masked:
        return want
    rules = {key: rule for key, rule in want.rules.items() if key not in masked}
    for rule in masked.values():
        value, mask = port_mask(rule) or (0, 0)
        for port in range(value, value + (MAX_PORT ^ mask) + 1):
            one = tuple((name, port if name == "udp_src" else given) for name, given in rule.match)
            exact = rule._replace(priority=FLOW + PORT_BITS, match=one)
            rules[exact.key] = exact
    return SwitchRules(rules, want.groups)


def port_mask(rule: Rule) -> tuple[int, int] | None:
    """Return value and mask of the ports of a planned flow's rule; ``None``: it is no rule for several ports."""
    if not FLOW < rule.priority < FLOW + PORT_BITS:
        return None
    given = dict(rule.match).get("udp_src")
    return (int(given[0]), int(given[1])) if isinstance(given, tuple) else None


class _Ingress:
    """The planned rules of one leaf; what flows have in common is made once."""

    def __init__(
        self, fabric: Fabric, leaf: int, hops: NextHops, builder: RuleBuilder, towards: Towards, over: Over
    ) -> None:
        self._leaf, self._hops, self._builder, self._towards = leaf, hops, builder, towards
        self._uplinks = uplinks(fabric, leaf)
        spine_of = dict(zip(self._uplinks, fabric.path_spine.tolist(), strict=True))
        self._failover = Failover(builder, lambda port: over(spine_of[port]))
        self._actions: dict[tuple[int, int], tuple[Action, ...]] = {}

    def place(self, key: RuleKey, path: int, b: int) -> None:
        if (path, b) not in self._actions:
            self._actions[path, b] = self._way(path, b)
        actions = self._actions[path, b]
        if actions:
            self._builder.add(Rule(*key, actions))

    def _way(self, path: int, b: int) -> tuple[Action, ...]:
        planned = self._uplinks[path]
        if planned is None:
            return ()
        group = self._failover.group(planned, self._hops.ports(self._leaf, b))
        return (*self._towards(b, path), ToGroup(group))


def uplinks(fabric: Fabric, leaf: int) -> list[int | None]:
    """Return the port [K] by which each path class leaves a leaf; ``None`` if there is none, or it is not known."""
    return [
        None if link < 0 else fabric.cables[(link - fabric.first_cable_link) // 2].lower_port
        for link in fabric.up_link[leaf].tolist()
    ]
