"""``source_port`` enforcement: the UDP source port of a RoCE packet names its path; there are no per-flow rules.

The high bits of ports from 49152 on hold the choices of the path, one for each tier of cables, those of leaves first;
the bits below them are a number that no other flow of the two hosts has. So pieces of a split flow differ by their
path, a port changes only with the path, and the ports of a path are a range, which routers can be configured for, too
(``controller/southbound/port_classes``). What a switch chooses is the packet's *class* there. Every switch below
the top has one rule a class: up its uplink, by a fail-over group with the other uplinks behind. Ports that name no
class (or one whose uplink is dead or drained) and all other traffic are spread by ECMP, like everything in base.py.

Class rules know no destination. So for a leaf that some uplink does not lead to there are exceptions, by prefix and
class: where the class's own spine does not reach it, ECMP over those that do; where the class's fall-back does not, a
fail-over group of its own. Fall-backs are the uplinks that miss the fewest leaves (in a whole fabric: all), so there
are at most a few exceptions for each pair of spine and leaf that is parted, and none in a whole fabric.

Where an aggregation switch has several cables to a leaf, it picks the one that the class of the leaf's choice means.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from ipaddress import IPv4Network

import numpy as np

from controller.model.assignment import Assignment
from controller.model.errors import InputError
from controller.model.fabric import Fabric, IntArray
from controller.model.packets.flow_ports import UDP, flow_ports, is_roce
from controller.model.packets.port_numbers import MAX_PORT, ROCE_PORT
from controller.model.switch_key import SwitchKey
from controller.model.traffic import ANY_PORT, FIRST_PORT, Traffic
from controller.southbound.enforcement.base import Enforcement, RuleInputs
from controller.southbound.enforcement.flow_encoding import PORT_BITS, FlowEncoding, granted_numbers, host_key
from controller.southbound.enforcement.ingress import uplinks
from controller.southbound.enforcement.probe_limits import PROBE_OPTIONS
from controller.southbound.forwarding.base import ETH_IPV4, down_to, ipv4_dst, rules_of
from controller.southbound.forwarding.failover import Failover
from controller.southbound.forwarding.next_hops import NextHops
from controller.southbound.forwarding.prefix_rules import spread
from controller.southbound.rules.priorities import CLASS, CLASS_EXCEPTION, LAST_CABLE
from controller.southbound.rules.rule import Action, Match, MatchValue, Rule, ToGroup, match
from controller.southbound.rules.rule_set import RuleBuilder, RuleSet

NAME = "source_port"


def choice_bits(fabric: Fabric) -> tuple[int, ...]:
    """Return how many bits of the port select each choice of a path, from that of leaves up."""
    return tuple(max(int(width) - 1, 0).bit_length() for width in fabric.ways.width)


def class_bits(fabric: Fabric) -> int:
    """Return how many bits of the port select the path, behind the two that all ports from 49152 on have."""
    return sum(choice_bits(fabric))


def number_bits(fabric: Fabric) -> int:
    """Return how many low bits of the port are the number of a flow."""
    return max(PORT_BITS - class_bits(fabric), 0)


def path_bits(fabric: Fabric, path: IntArray) -> IntArray:
    """Return the class [N] of paths [N]: the choices side by side, 0 for those of tiers that a path does not have."""
    ways, bits = fabric.ways, choice_bits(fabric)
    field = np.zeros(len(path), dtype=np.int32)
    for top in range(ways.n_tiers):
        rows = (path >= ways.first[top]) & (path < ways.first[top + 1])
        rest = path[rows] - ways.first[top]
        for tier in range(top, -1, -1):
            rest, choice = np.divmod(rest, ways.width[tier])
            field[rows] |= (choice << sum(bits[tier + 1 :])).astype(np.int32)
    return field


def class_port(fabric: Fabric, port: int) -> int:
    """Return the lowest port of a port's path class."""
    return (FIRST_PORT | port) & -1 << number_bits(fabric)


def encode_paths(fabric: Fabric, traffic: Traffic, assignment: Assignment) -> FlowEncoding:
    """Return the ports that select the paths of an assignment.

    Raises:
        InputError: two hosts have more flows than there are ports for them; the port of a flow is unknown or below
            49152; or its protocol is not RoCEv2.
    """
    outside = np.flatnonzero((traffic.udp_src < FIRST_PORT) | ~is_roce(traffic.udp_src))
    if len(outside):
        flow, given = int(outside[0]), int(traffic.udp_src[outside[0]])
        what = "its source port is unknown" if given == ANY_PORT else f"its source port {given} is below {FIRST_PORT}"
        if given > MAX_PORT:
            what = f"its protocol is {flow_ports(given).protocol}"
        raise InputError(f"{what}, so {NAME} enforcement does not support it", field=traffic.flow_id(flow))
    bits = number_bits(fabric)
    # The last number is left out: Linux takes no rules for ranges of ports that end with the last port.
    room = max((1 << bits) - 1, 1)
    key = host_key(fabric, traffic)
    units, unit = np.unique(key, return_inverse=True)
    number = granted_numbers(fabric, units >> 16, (units & 0xFFFF) - FIRST_PORT, np.zeros(0, np.int64), room)
    row = number[unit.reshape(-1)[assignment.flow]]
    port: IntArray = (FIRST_PORT + ((path_bits(fabric, assignment.path) << bits) | row)).astype(np.int32)
    return FlowEncoding(assignment.flow, assignment.path, assignment.share, port)


def compile_source_port(inputs: RuleInputs) -> RuleSet:
    """Return base rules, one rule a class at every switch below the top, and exceptions for what misses some leaves."""
    if inputs.before is not None:
        return inputs.before.rules  # no rule depends on a flow
    fabric, builders = inputs.fabric, inputs.builders()
    hops = NextHops(inputs.usable)
    below = number_bits(fabric)
    for layer, bits in reversed(list(enumerate(choice_bits(fabric)))):
        mask = ((1 << bits) - 1) << below
        for x, switch in enumerate(fabric.layers[layer]):
            _Classes(fabric, layer, x, hops, (below, mask), builders[switch.key], inputs.ecmp_action).compile()
        below += bits
    if len(fabric.layers) > 2:
        _last_cables(fabric, inputs.usable, below, builders)
    return rules_of(builders)


def _last_cables(fabric: Fabric, usable: Fabric, end: int, builders: Mapping[SwitchKey, RuleBuilder]) -> None:
    """Add a rule for each class and leaf by which an aggregation switch picks one of several cables to the leaf.

    Args:
        fabric: with the port numbers that are known.
        usable: the fabric without the cables that are drained.
        end: the bits below those that all ports have; the choices of leaves are the highest of them.
        builders: of every switch, by key.
    """
    bits = choice_bits(fabric)[0]
    shift, mask = end - bits, ((1 << bits) - 1) << (end - bits)
    leaves = fabric.choices[0]
    for b, k in np.argwhere(leaves.switch >= 0).tolist():
        agg = int(leaves.switch[b, k])
        between, builder = fabric.cables_between(b, agg), builders[fabric.layers[1][agg].key]
        actions = down_to(fabric, usable, between, int(leaves.number[k]), builder) if len(between) > 1 else ()
        for prefix in fabric.leaf_prefixes[b] if actions else ():
            fields = class_match(k, shift, mask, prefix)
            builder.add(Rule(0, LAST_CABLE, fields, actions))


def class_match(k: int, shift: int, mask: int, prefix: IPv4Network | None) -> Match:
    """Return the match of packets of class ``k``, for any destination or for one prefix."""
    fields: dict[str, MatchValue] = {} if prefix is None else {"ipv4_dst": ipv4_dst(prefix)}
    # The first two bits of the port are part of the match: ports below 49152 name no class.
    fields["udp_src"] = (FIRST_PORT | k << shift, FIRST_PORT | mask)
    fields |= {"eth_type": ETH_IPV4, "ip_proto": UDP, "udp_dst": ROCE_PORT}
    return match(**fields)


class _Classes:
    """The class rules of one switch; ``field``: by how many bits its class is shifted, and where it is, as a mask."""

    def __init__(
        self,
        fabric: Fabric,
        layer: int,
        switch: int,
        hops: NextHops,
        field: tuple[int, int],
        builder: RuleBuilder,
        ecmp_action: str,
    ) -> None:
        self._fabric, self._builder, self._ecmp_action = fabric, builder, ecmp_action
        self._uplinks = uplinks(fabric, switch, layer)
        self._failover = Failover(builder)
        self._shift, self._mask = field
        # Leaves that the same uplinks reach are alike; there are few kinds of them.
        self._leaves_by: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for b in range(fabric.n_leaves):
            ports = hops.ports(switch, b, layer) if (layer, b) != (0, switch) else ()
            if ports:
                self._leaves_by[ports].append(b)
        missed: dict[int, list[int]] = {port: [] for ports in self._leaves_by for port in ports}
        for ports, leaves in self._leaves_by.items():
            for port in missed.keys() - set(ports):
                missed[port] += leaves
        # The leaves that an uplink does not lead to; the uplinks that miss the fewest come first.
        fewest = sorted(missed.items(), key=lambda item: (len(item[1]), sorted(item[1])))
        self._missed = {port: frozenset(leaves) for port, leaves in fewest}

    def compile(self) -> None:
        for k, port in enumerate(self._uplinks):
            if port is None or port not in self._missed:
                continue
            fallback = self._fallback(port)
            self._add(CLASS, k, None, self._first(port, fallback))
            needed = set(fallback) - {port}
            for ports, leaves in self._leaves_by.items():
                if port not in ports:
                    actions = spread(self._builder, ports, self._ecmp_action)
                elif not needed.issubset(ports):
                    actions = self._first(port, ports)
                else:
                    continue
                for b in leaves:
                    for prefix in self._fabric.leaf_prefixes[b]:
                        self._add(CLASS_EXCEPTION, k, prefix, actions)

    def _fallback(self, port: int) -> tuple[int, ...]:
        """Return uplinks other than ``port`` that miss the fewest leaves, all of them missing the same leaves."""
        others = [missed for other, missed in self._missed.items() if other != port]
        return tuple(sorted(other for other, missed in self._missed.items() if missed == others[0])) if others else ()

    def _first(self, port: int, any_of: tuple[int, ...]) -> tuple[Action, ...]:
        return (ToGroup(self._failover.group(port, any_of)),)

    def _add(self, priority: int, k: int, prefix: IPv4Network | None, actions: tuple[Action, ...]) -> None:
        self._builder.add(Rule(0, priority, class_match(k, self._shift, self._mask, prefix), actions))


def _is_of_a_class(rule: Rule) -> bool:
    return rule.priority in (CLASS, CLASS_EXCEPTION)


ENFORCEMENT = Enforcement(
    NAME,
    "the UDP source port of each flow, which hosts read from /v1/routes",
    hosts="use the source port of /v1/routes, and change it when a flow moves",
    encode=encode_paths,
    compile=compile_source_port,
    is_planned=_is_of_a_class,
    chooses_ports=True,
    watchable=False,
    rule_port=class_port,
    router_export="fairspine export port-classes",
    options=PROBE_OPTIONS,
    incremental=True,
)
