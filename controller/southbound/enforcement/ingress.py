"""The rules of planned flows on their way, which enforcements that have a rule for each flow have in common.

Each rule leads to a fail-over group: the planned uplink while its port is live, then the others. What a packet gets on
its way into the group, and over each uplink, is the enforcement's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from controller.model.fabric import BoolArray, Fabric, IntArray
from controller.model.port_numbers import MAX_PORT, ROCE_PORT
from controller.model.switch_key import SwitchKey
from controller.southbound.enforcement.base import RuleInputs
from controller.southbound.enforcement.port_blocks import PORT_BITS, port_blocks
from controller.southbound.forwarding.base import ETH_IPV4, down_to, uplink_ports
from controller.southbound.forwarding.failover import Failover
from controller.southbound.forwarding.next_hops import NextHops
from controller.southbound.rules.priorities import FLOW
from controller.southbound.rules.rule import Action, Match, MatchValue, Rule, RuleKey, ToGroup
from controller.southbound.rules.rule_set import RuleBuilder, SwitchRules

UDP = 17
"""UDP destination port of RoCEv2 (IANA; InfiniBand Architecture Specification, annex A17)."""

Field = tuple[str, MatchValue]
IPV4: Field = ("eth_type", ETH_IPV4)
UDP_ONLY: Field = ("ip_proto", UDP)
TO_ROCE: Field = ("udp_dst", ROCE_PORT)

NO_TOP = -1
"""In place of the index of a switch of the top layer: the path turns below."""

FLOW_TABLE = 0
"""The table of planned flows' rules."""

Towards = Callable[[int, int], tuple[Action, ...]]
"""The actions on a packet for a leaf (its index) over a path, before the group."""

Over = Callable[[bool, int], tuple[Action, ...]]
"""The actions on a packet to a switch above (its index in its layer) before it leaves. Its plan may lead further up."""

Planned = Callable[[int], tuple[Action, ...]]
"""The same by the planned uplink, for a path over a switch of the top layer (its index)."""


def place_flows(
    inputs: RuleInputs,
    builders: Mapping[SwitchKey, RuleBuilder],
    *,
    towards: Towards,
    over: Over,
    planned: Planned | None = None,
    layers: int = 1,
) -> None:
    """Add one rule a block of ports (of one flow, or of several QPs with the same path) at its switches on the way up.

    Flows within a leaf, unroutable flows, and flows whose ports are not known get none: base forwarding has them.

    Args:
        inputs: fabric, flows, and the source ports and paths of their pieces.
        builders: of every switch, by key.
        towards: see ``Towards``.
        over: see ``Over``.
        planned: see ``Planned``; ``None``: as ``over``.
        layers: how many layers of switches, from the leaves up, get rules.
    """
    fabric, traffic, usable = inputs.fabric, inputs.traffic, inputs.usable
    if not traffic.n_flows:
        return
    hops = NextHops(usable)
    # Rules share equal parts of their matches: the number of objects limits the speed.
    src_ip: list[Field] = [("ipv4_src", host.ip) for host in fabric.hosts]
    dst_ip: list[Field] = [("ipv4_dst", host.ip) for host in fabric.hosts]
    blocks = port_blocks(traffic, inputs.encoding)
    leaves = (fabric.host_leaf[blocks.src], fabric.host_leaf[blocks.dst])
    every = fabric.ways.links(*leaves, blocks.path)
    links = every[:, : len(fabric.layers) - 1]
    cables = np.maximum(links - fabric.first_cable_link, 0) // 2
    top = np.where(links[:, -1] >= 0, fabric.cable_upper[cables[:, -1]], NO_TOP)
    for layer in range(layers):
        (rows,) = np.nonzero(links[:, layer] >= 0)
        cable = cables[rows, layer]
        uppers = uplink_ports(fabric, layer)
        at = [
            _OnTheWayUp(fabric, layer, x, uppers[x], hops, builders[switch.key], (towards, over, planned))
            for x, switch in enumerate(fabric.layers[layer])
        ]
        of_row = (leaves[1], top, blocks.src, blocks.dst, blocks.port, blocks.bits, blocks.path)
        columns = (fabric.cable_lower[cable], cable, *(each[rows] for each in of_row))
        for x, c, b, over_top, src, dst, port, bits, path in zip(*(each.tolist() for each in columns), strict=True):
            at[x].place(flow_key(src_ip[src], dst_ip[dst], port, bits), c, path, b, over_top)
    if layers > 1:
        last = _LastCables(fabric, usable, builders)
        (rows,) = np.nonzero(last.is_choice(every[:, -1]))
        down = (every[rows, -1], *(each[rows] for each in (blocks.src, blocks.dst, blocks.port, blocks.bits)))
        for link, src, dst, port, bits in zip(*(each.tolist() for each in down), strict=True):
            last.place(flow_key(src_ip[src], dst_ip[dst], port, bits), link)


def flow_key(src_ip: Field, dst_ip: Field, udp_src: int, bits: int) -> RuleKey:
    """Return the key of the rule of one block of ports at its ingress leaf; see ``PortBlocks`` for the last two.

    The priority says how many bits of the port are matched. So a rule for fewer ports is always before one for more,
    whether both belong to one plan (some ports of two hosts are known, and others not) or to two.
    """
    return (FLOW_TABLE, FLOW + bits, _match(src_ip, dst_ip, udp_src, bits))


def is_of_a_flow(rule: Rule) -> bool:
    """Return whether a rule matches the addresses of two hosts, as rules of flows do, whatever installed it."""
    return rule.priority >= FLOW and {"ipv4_src", "ipv4_dst"} <= dict(rule.match).keys()


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


class _OnTheWayUp:
    """The planned rules of one switch; what flows have in common is made once."""

    def __init__(
        self,
        fabric: Fabric,
        layer: int,
        switch: int,
        upper: Mapping[int, int],
        hops: NextHops,
        builder: RuleBuilder,
        actions: tuple[Towards, Over, Planned | None],
    ) -> None:
        self._fabric, self._layer, self._switch, self._hops, self._builder = fabric, layer, switch, hops, builder
        self._towards, over, self._planned = actions
        self._failover = (
            Failover(builder, lambda port: over(False, upper[port])),
            Failover(builder, lambda port: over(True, upper[port])),
        )
        self._actions: dict[tuple[int, int], tuple[Action, ...]] = {}

    def place(self, key: RuleKey, cable: int, path: int, b: int, top: int) -> None:
        if (path, b) not in self._actions:
            self._actions[path, b] = self._way(cable, path, b, top)
        actions = self._actions[path, b]
        if actions:
            self._builder.add(Rule(*key, actions))

    def _way(self, cable: int, path: int, b: int, top: int) -> tuple[Action, ...]:
        port = self._fabric.cables[cable].lower_port
        if port is None:
            return ()
        far = top != NO_TOP and self._layer + 2 < len(self._fabric.layers)
        ports = self._hops.ports(self._switch, b, self._layer)
        planned = self._planned(top) if far and self._planned is not None else None
        return (*self._towards(b, path), ToGroup(self._failover[far].group(port, ports, planned)))


class _LastCables:
    """The rules by which aggregation switches send planned flows down by one of several cables to their leaf."""

    def __init__(self, fabric: Fabric, usable: Fabric, builders: Mapping[SwitchKey, RuleBuilder]) -> None:
        self._fabric, self._usable, self._builders = fabric, usable, builders
        of_leaves = fabric.cable_tier == 0
        self._several = np.zeros(len(fabric.cables), dtype=np.bool_)
        self._several[of_leaves] = fabric.parallel[fabric.cable_lower[of_leaves], fabric.cable_upper[of_leaves]] > 1

    def is_choice(self, link: IntArray) -> BoolArray:
        """Return whether each link [N] (negative: none) is one of several between a leaf and a switch above."""
        cable = np.maximum(link - self._fabric.first_cable_link, 0) // 2
        several: BoolArray = (link >= 0) & self._several[cable]
        return several

    def place(self, key: RuleKey, link: int) -> None:
        fabric, cable = self._fabric, (link - self._fabric.first_cable_link) // 2
        agg = int(fabric.cable_upper[cable])
        builder = self._builders[fabric.layers[1][agg].key]
        between = fabric.cables_between(int(fabric.cable_lower[cable]), agg)
        actions = down_to(fabric, self._usable, between, between.index(cable), builder)
        if actions:
            builder.add(Rule(*key, actions))


def uplinks(fabric: Fabric, switch: int, layer: int = 0) -> list[int | None]:
    """Return the port [K] by which each choice leaves a switch; ``None`` if there is none, or it is not known."""
    return [
        None if link < 0 else fabric.cables[(link - fabric.first_cable_link) // 2].lower_port
        for link in fabric.ways.tier(layer).up[switch].tolist()
    ]
