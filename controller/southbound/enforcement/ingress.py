"""The rules of planned flows on their way, which enforcements that have a rule for each flow have in common.

Each rule leads to a fail-over group: the planned uplink while its port is live, then the others. What a packet gets on
its way into the group, and over each uplink, is the enforcement's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from controller.model.fabric import Fabric, IntArray
from controller.model.packets.flow_ports import PORT_MASK, TCP, UDP, PortKind, kind_of
from controller.model.packets.port_numbers import MAX_PORT, ROCE_PORT
from controller.model.priority import DSCP
from controller.model.switch_key import SwitchKey
from controller.model.traffic import Int64Array
from controller.southbound.enforcement.base import RuleInputs
from controller.southbound.enforcement.port_blocks import PORT_BITS, PortBlocks
from controller.southbound.forwarding.base import ETH_IPV4, down_to, uplink_ports
from controller.southbound.forwarding.failover import Failover
from controller.southbound.forwarding.next_hops import NextHops
from controller.southbound.rules.priorities import ALL_OF_PAIR, FLOW, LOWEST_FLOW, UDP_OF_PAIR
from controller.southbound.rules.rule import Action, Match, MatchValue, Rule, RuleKey, SetDscp, ToGroup
from controller.southbound.rules.rule_set import RuleBuilder, SwitchRules

Field = tuple[str, MatchValue]
IPV4: Field = ("eth_type", ETH_IPV4)
UDP_ONLY: Field = ("ip_proto", UDP)
TCP_ONLY: Field = ("ip_proto", TCP)
TO_ROCE: Field = ("udp_dst", ROCE_PORT)

NO_TOP = -1
"""In place of the index of a switch of the top layer: the path turns below."""

FLOW_TABLE = 0
"""The table of planned flows' rules."""

Towards = Callable[[int, int], tuple[Action, ...]]
"""The actions on a packet for a leaf (its index) over a path, before the group."""

OfClass = Callable[[int], tuple[Action, ...]]
"""The actions behind these, at leaves, on a packet of a class of priority (not the lowest one)."""

Over = Callable[[bool, int], tuple[Action, ...]]
"""The actions on a packet to a switch above (its index in its layer) before it leaves. Its plan may lead further up."""

Planned = Callable[[int], tuple[Action, ...]]
"""The same by the planned uplink, for a path over a switch of the top layer (its index)."""


_Actions = tuple[Towards, Over, Planned | None, OfClass]


def place_flows(
    inputs: RuleInputs,
    builders: Mapping[SwitchKey, RuleBuilder],
    *,
    towards: Towards,
    over: Over,
    planned: Planned | None = None,
    of_class: OfClass = lambda priority: (),
    layers: int = 1,
) -> None:
    """Add one rule a block of ports (of one flow, or of several QPs with the same path) at its switches on the way up.

    Flows within a leaf, unroutable flows, and flows whose ports are not known get none: base forwarding has them.
    Where the builders begin with the rules of earlier flows (``RuleInputs.before``), only what differs is changed.

    Args:
        inputs: fabric, flows, and the source ports and paths of their pieces.
        builders: of every switch, by key.
        towards: see ``Towards``.
        over: see ``Over``.
        planned: see ``Planned``; ``None``: as ``over``.
        of_class: see ``OfClass``. The DSCP of the class is set before all.
        layers: how many layers of switches, from the leaves up, get rules.
    """
    blocks = inputs.blocks
    keys = _FlowKeys(inputs.fabric)
    if inputs.before is not None:
        earlier = inputs.before.blocks
        gone, blocks = earlier.without(blocks), blocks.without(earlier)
        _remove(_Ways(inputs.fabric, gone), keys, builders, layers)
    if len(blocks):
        _add(_Ways(inputs.fabric, blocks), keys, inputs, builders, (towards, over, planned, of_class), layers)


def _remove(ways: _Ways, keys: _FlowKeys, builders: Mapping[SwitchKey, RuleBuilder], layers: int) -> None:
    fabric = ways.fabric
    for layer in range(layers):
        rows, switch, _ = ways.up(layer)
        for x, of_switch in _by_switch(switch):
            builders[fabric.layers[layer][x].key].remove(keys.of(ways.blocks, rows[of_switch]))
    if layers > 1:
        rows, cable = ways.last_choices()
        for x, of_switch in _by_switch(fabric.cable_upper[cable]):
            builders[fabric.layers[1][x].key].remove(keys.of(ways.blocks, rows[of_switch]))


def _add(
    ways: _Ways,
    keys: _FlowKeys,
    inputs: RuleInputs,
    builders: Mapping[SwitchKey, RuleBuilder],
    actions: _Actions,
    layers: int,
) -> None:
    fabric, usable, hops = inputs.fabric, inputs.usable, NextHops(inputs.usable)
    for layer in range(layers):
        rows, switch, cable = ways.up(layer)
        uppers = uplink_ports(fabric, layer)
        for x, of_switch in _by_switch(switch):
            builder, at = builders[fabric.layers[layer][x].key], rows[of_switch]
            on_way = _OnTheWayUp(fabric, layer, x, uppers[x], hops, builder, actions)
            of_row = (cable[of_switch], ways.blocks.path[at], ways.to_leaf[at], ways.top[at], ways.blocks.priority[at])
            taken = map(on_way.actions, *(column.tolist() for column in of_row))
            builder.add_new(_rules(keys.of(ways.blocks, at), taken))
    if layers > 1:
        rows, cable = ways.last_choices()
        for x, of_switch in _by_switch(fabric.cable_upper[cable]):
            builder = builders[fabric.layers[1][x].key]
            last = _LastCables(fabric, usable, x, builder)
            taken = map(last.actions, cable[of_switch].tolist())
            builder.add_new(_rules(keys.of(ways.blocks, rows[of_switch]), taken))


def _rules(keys: Iterable[RuleKey], taken: Iterable[tuple[Action, ...]]) -> Iterator[Rule]:
    """Return the rules with these keys and actions, without those that have no action: there is no such way."""
    return (Rule(*key, actions) for key, actions in zip(keys, taken, strict=True) if actions)


def _by_switch(switch: IntArray) -> Iterator[tuple[int, Int64Array]]:
    """Return each switch among [N] numbers, and where it stands there."""
    order = np.argsort(switch, kind="stable")
    numbers, first = np.unique(switch[order], return_index=True)
    return zip(numbers.tolist(), np.split(order, first[1:]), strict=True) if len(order) else iter(())


class _FlowKeys:
    """The keys of the rules of blocks. They share equal parts: the number of objects limits the speed."""

    def __init__(self, fabric: Fabric) -> None:
        self._src: list[Field] = [("ipv4_src", host.ip) for host in fabric.hosts]
        self._dst: list[Field] = [("ipv4_dst", host.ip) for host in fabric.hosts]

    def of(self, blocks: PortBlocks, rows: Int64Array) -> Iterator[RuleKey]:
        """Return the keys of these rows [N] of the blocks."""
        src, dst = self._src, self._dst
        columns = (column[rows].tolist() for column in (blocks.src, blocks.dst, blocks.port, blocks.bits))
        return (flow_key(src[s], dst[d], port, bits) for s, d, port, bits in zip(*columns, strict=True))


class _Ways:
    """Where N blocks of flows go.

    Attributes:
        to_leaf: [N] the leaf of the receivers.
        top: [N] the switch of the top layer, or ``NO_TOP``.
    """

    def __init__(self, fabric: Fabric, blocks: PortBlocks) -> None:
        self.fabric, self.blocks = fabric, blocks
        self.to_leaf = fabric.host_leaf[blocks.dst]
        self._links = fabric.ways.links(fabric.host_leaf[blocks.src], self.to_leaf, blocks.path)
        self._cables = np.maximum(self._links - fabric.first_cable_link, 0) // 2
        last_up = len(fabric.layers) - 2
        passes_top = self._links[:, last_up] >= 0
        self.top = np.where(passes_top, fabric.cable_upper[self._cables[:, last_up]], NO_TOP)

    def up(self, layer: int) -> tuple[Int64Array, IntArray, IntArray]:
        """Return the rows [M] of blocks that go up from a layer, the switch of each there, and its cable up."""
        rows = np.flatnonzero(self._links[:, layer] >= 0)
        cable = self._cables[rows, layer]
        return rows, self.fabric.cable_lower[cable], cable

    def last_choices(self) -> tuple[Int64Array, IntArray]:
        """Return the rows [M] of blocks that come down by one of several cables to their leaf, and the cable."""
        fabric = self.fabric
        of_leaves = fabric.cable_tier == 0
        several = np.zeros(len(fabric.cables), dtype=np.bool_)
        several[of_leaves] = fabric.parallel[fabric.cable_lower[of_leaves], fabric.cable_upper[of_leaves]] > 1
        rows = np.flatnonzero((self._links[:, -1] >= 0) & several[self._cables[:, -1]])
        return rows, self._cables[rows, -1]


def flow_key(src_ip: Field, dst_ip: Field, udp_src: int, bits: int) -> RuleKey:
    """Return the key of the rule of one block of ports at its ingress leaf; see ``PortBlocks`` for the last two.

    The priority says how many bits of the port are matched. So a rule for fewer ports is always before one for more,
    whether both belong to one plan (some ports of two hosts are known, and others not) or to two. Below them are the
    rules for all UDP packets of two hosts, and below these the ones for all their packets.
    """
    if udp_src > MAX_PORT:
        return _key_of_other_protocols(src_ip, dst_ip, udp_src)
    return (FLOW_TABLE, FLOW + bits, _match(src_ip, dst_ip, udp_src, bits))


def _key_of_other_protocols(src_ip: Field, dst_ip: Field, code: int) -> RuleKey:
    """Return the key of the rule of flows that are not RoCEv2's; see ``model.flow_ports`` for the code."""
    kind, port = kind_of(code), code & PORT_MASK
    if kind == PortKind.ANY:
        return (FLOW_TABLE, ALL_OF_PAIR, (IPV4, dst_ip, src_ip))
    match: Match = (IPV4, UDP_ONLY if kind == PortKind.UDP_TO else TCP_ONLY, dst_ip, src_ip)
    if port:
        return (FLOW_TABLE, FLOW + PORT_BITS, (*match, (_PORT_FIELD[kind], port)))
    return (FLOW_TABLE, UDP_OF_PAIR if kind == PortKind.UDP_TO else FLOW, match)


_PORT_FIELD = {PortKind.TCP_TO: "tcp_dst", PortKind.TCP_FROM: "tcp_src", PortKind.UDP_TO: "udp_dst"}


def is_of_a_flow(rule: Rule) -> bool:
    """Return whether a rule matches the addresses of two hosts, as rules of flows do, whatever installed it."""
    return rule.priority >= LOWEST_FLOW and {"ipv4_src", "ipv4_dst"} <= dict(rule.match).keys()


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
        actions: _Actions,
    ) -> None:
        self._fabric, self._layer, self._switch, self._hops, self._builder = fabric, layer, switch, hops, builder
        self._towards, over, self._planned, self._of_class = actions
        self._failover = (
            Failover(builder, lambda port: over(False, upper[port])),
            Failover(builder, lambda port: over(True, upper[port])),
        )
        self._actions: dict[tuple[int, int, int], tuple[Action, ...]] = {}

    def actions(self, cable: int, path: int, b: int, top: int, priority: int) -> tuple[Action, ...]:
        """Return the actions on a packet to leaf ``b`` over a path, of which cable and top are parts.

        Its class of priority is written on it where it comes from a host; other switches find it there.
        """
        actions = self._actions.get((path, b, priority))
        if actions is None:
            actions = self._actions[path, b, priority] = self._way(cable, path, b, top, priority)
        return actions

    def _way(self, cable: int, path: int, b: int, top: int, priority: int) -> tuple[Action, ...]:
        port = self._fabric.cables[cable].lower_port
        if port is None:
            return ()
        far = top != NO_TOP and self._layer + 2 < len(self._fabric.layers)
        ports = self._hops.ports(self._switch, b, self._layer)
        planned = self._planned(top) if far and self._planned is not None else None
        towards = self._towards(b, path)
        if priority and self._layer == 0:
            towards = (SetDscp(DSCP[priority]), *towards, *self._of_class(priority))
        return (*towards, ToGroup(self._failover[far].group(port, ports, planned)))


class _LastCables:
    """How an aggregation switch sends planned flows down by one of several cables to their leaf."""

    def __init__(self, fabric: Fabric, usable: Fabric, switch: int, builder: RuleBuilder) -> None:
        self._fabric, self._usable, self._switch, self._builder = fabric, usable, switch, builder
        self._actions: dict[int, tuple[Action, ...]] = {}

    def actions(self, cable: int) -> tuple[Action, ...]:
        """Return the actions on a packet that is to come down a cable."""
        actions = self._actions.get(cable)
        if actions is None:
            fabric = self._fabric
            between = fabric.cables_between(int(fabric.cable_lower[cable]), self._switch)
            actions = down_to(fabric, self._usable, between, between.index(cable), self._builder)
            self._actions[cable] = actions
        return actions


def uplinks(fabric: Fabric, switch: int, layer: int = 0) -> list[int | None]:
    """Return the port [K] by which each choice leaves a switch; ``None`` if there is none, or it is not known."""
    return [
        None if link < 0 else fabric.cables[(link - fabric.first_cable_link) // 2].lower_port
        for link in fabric.ways.tier(layer).up[switch].tolist()
    ]
