"""Watch windows: rules by which a leaf shows the controller a packet of each flow that it does not know yet.

A watch rule is a copy of the base rule for a prefix, for RoCEv2 or TCP only: it forwards as that rule does, and sends
packets to the controller, too. The switch removes it by itself after a second. Each flow that is seen gets a counting
rule, which forwards in the same way and is above the watch rule, so that the flow sends no further packets to the
controller. All TCP connections from one host to another are one flow.
Planned flows, packets to hosts of the leaf and packets from spines meet rules of higher priorities.

These rules have a cookie of their own, so that they are no part of the rules that are installed, read back and
repaired. They are right as long as the base rules are those of which they are copies: a session removes them from its
switch before it changes base rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network
from typing import NamedTuple

from controller.model.packets.flow_ports import ALL_TCP, PORT_MASK, TCP
from controller.southbound.enforcement.ingress import FLOW_TABLE, IPV4, TCP_ONLY, TO_ROCE, UDP_ONLY
from controller.southbound.forwarding.base import ETH_IPV4
from controller.southbound.rollout.desired_rules import is_planned
from controller.southbound.rollout.update import SwitchUpdate
from controller.southbound.rules.priorities import CLASS, CLASS_EXCEPTION, PREFIX
from controller.southbound.rules.rule import WATCH_PREFIX, Action, Rule, ToController, match
from controller.southbound.rules.rule_set import SwitchRules

WINDOW_COOKIE, COUNTING_COOKIE = WATCH_PREFIX << 48 | 1, WATCH_PREFIX << 48 | 2

WATCH, COUNTING = 940, 945
"""Priorities: above the rules of prefixes, below those for packets from spines (``base.FROM_SPINE``)."""

WATCH_BYTES = 128
"""Bytes of a packet that the controller gets: all headers up to the RETH, with room for VLAN tags."""


class WatchedFlow(NamedTuple):
    """Addresses, as integers, and UDP source port of packets of one or several QPs; of TCP connections ``ALL_TCP``."""

    src: int
    dst: int
    udp_src: int


class FlowCount(NamedTuple):
    """How much a flow has sent so far.

    Attributes:
        dst_qp: number of the destination QP; 0: it was not seen.
        at: seconds since 1970, when the leaf was asked.
        octets: payload bytes since the flow was first counted.
    """

    flow: WatchedFlow
    dst_qp: int
    at: float
    octets: int


def is_watching(cookie: int) -> bool:
    """Return whether a rule with this cookie belongs to watch windows, of this controller or of an earlier one."""
    return cookie >> 48 == WATCH_PREFIX


def changes_base(update: SwitchUpdate) -> bool:
    """Return whether an update changes rules of which watch and counting rules may be copies."""
    edits = (edit for steps in update.stages.values() for step in steps for edit in step)
    return any(isinstance(edit.what, Rule) and not is_planned(edit.what) for edit in edits)


class PrefixRules:
    """The base rules of a leaf for the prefixes of other leaves."""

    def __init__(self, held: SwitchRules) -> None:
        """Collect them. There are none where path classes are chosen by source port: copies would shadow those."""
        rules: list[Rule] = []
        for rule in held.rules.values():
            if rule.priority in (CLASS, CLASS_EXCEPTION):
                rules = []
                break
            if rule.table == FLOW_TABLE and rule.priority == PREFIX and _is_copied(rule):
                rules.append(rule)
        self._rules = rules
        self._actions: dict[IPv4Network, tuple[Action, ...]] = {_prefix(rule): rule.actions for rule in rules}
        self._lengths = sorted({prefix.prefixlen for prefix in self._actions}, reverse=True)

    def watch_rules(self) -> list[Rule]:
        """Return the watch rules of each prefix: for RoCEv2, and for TCP."""
        return [
            Rule(FLOW_TABLE, WATCH, match(**dict((*rule.match, *fields))), (*rule.actions, _TO_CONTROLLER))
            for fields in ((UDP_ONLY, TO_ROCE), (TCP_ONLY,))
            for rule in self._rules
        ]

    def counting_rule(self, flow: WatchedFlow) -> Rule | None:
        """Return the counting rule of a flow; ``None``: no prefix rule forwards it."""
        actions = self._of(flow.dst)
        if actions is None:
            return None
        src, dst = str(IPv4Address(flow.src)), str(IPv4Address(flow.dst))
        if flow.udp_src == ALL_TCP:
            fields = match(ipv4_src=src, ipv4_dst=dst, **dict((IPV4, TCP_ONLY)))
        else:
            fields = match(ipv4_src=src, ipv4_dst=dst, udp_src=flow.udp_src, **dict((IPV4, UDP_ONLY, TO_ROCE)))
        return Rule(FLOW_TABLE, COUNTING, fields, actions)

    def _of(self, address: int) -> tuple[Action, ...] | None:
        for length in self._lengths:
            actions = self._actions.get(IPv4Network((address, length), strict=False))
            if actions is not None:
                return actions
        return None


_TO_CONTROLLER = ToController(WATCH_BYTES)


def _is_copied(rule: Rule) -> bool:
    fields = dict(rule.match)
    return fields.keys() == {"eth_type", "ipv4_dst"} and fields["eth_type"] == ETH_IPV4 and bool(rule.actions)


def _prefix(rule: Rule) -> IPv4Network:
    value = dict(rule.match)["ipv4_dst"]
    return IPv4Network("/".join(map(str, value)) if isinstance(value, tuple) else str(value))


class CountedRule(NamedTuple):
    """A rule for RoCEv2 or TCP packets of one sender and one receiver, with its counters.

    Attributes:
        name: unchanged from reading to reading.
        src, dst: addresses.
        udp_src, mask: the ports are those that agree with ``udp_src`` in the bits of ``mask``; of TCP ``ALL_TCP``.
    """

    name: tuple[int, Rule]
    src: int
    dst: int
    udp_src: int
    mask: int
    packets: int
    octets: int


def counted_rule(cookie: int, rule: Rule, packets: int, octets: int) -> CountedRule | None:
    """Return a rule as it was read; ``None``: it is not for one sender and one receiver, or for a port of TCP."""
    fields = dict(rule.match)
    src, dst, port = fields.get("ipv4_src"), fields.get("ipv4_dst"), fields.get("udp_src", (0, 0))
    if not isinstance(src, str) or not isinstance(dst, str) or isinstance(port, str):
        return None
    if fields.get("ip_proto") == TCP:
        if fields.keys() & {"tcp_src", "tcp_dst"}:
            return None
        return CountedRule((cookie >> 48, rule), _number(src), _number(dst), ALL_TCP, PORT_MASK, packets, octets)
    value, mask = (int(port[0]), int(port[1])) if isinstance(port, tuple) else (port, 0xFFFF)
    return CountedRule((cookie >> 48, rule), _number(src), _number(dst), value, mask, packets, octets)


@lru_cache(1 << 14)
def _number(address: str) -> int:
    return int(IPv4Address(address))


HEADER_BYTES = 62
"""Of a packet's bytes as switches count them: Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4, and the AETH of an
acknowledgement, 4: so acknowledgements carry nothing."""

TCP_HEADER_BYTES = 66
"""The same of TCP: Ethernet 14, IPv4 20, TCP 20, and the option of timestamps, 12: so acknowledgements carry nothing,
or 12 bytes where they name blocks that have arrived (RFC 2018)."""


class FlowBytes:
    """The payload of each flow since it was first counted, whichever rules have counted it."""

    def __init__(self) -> None:
        """Begin without flows."""
        self._last: dict[tuple[int, Rule], tuple[int, int]] = {}
        self._total: dict[WatchedFlow, int] = {}

    def add(self, counted: Iterable[CountedRule], known: Iterable[WatchedFlow]) -> dict[WatchedFlow, int]:
        """Add a reading of all rules; return the payload bytes so far of each known flow that a rule counts.

        What rules for several ports count is divided equally among the known flows that they cover.
        """
        rules = list(counted)
        covered = _Covered(known)
        last, totals = dict[tuple[int, Rule], tuple[int, int]](), dict[WatchedFlow, int]()
        for each in rules:
            last[each.name] = each.packets, each.octets
            flows = covered.by(each)
            packets, octets = self._last.get(each.name, (0, 0))
            if each.octets < octets:
                # It was put anew, and counts from 0.
                packets = octets = 0
            header = TCP_HEADER_BYTES if each.udp_src == ALL_TCP else HEADER_BYTES
            rise = max(each.octets - octets - header * (each.packets - packets), 0)
            for flow in flows:
                total = totals.get(flow, self._total.get(flow, 0)) + rise // len(flows)
                totals[flow] = self._total[flow] = total
        self._last = last
        return totals

    def forget(self, flow: WatchedFlow) -> None:
        """Forget a flow."""
        self._total.pop(flow, None)


class _Covered:
    """The flows that rules cover, found without a look at every flow: two hosts may have a thousand."""

    def __init__(self, flows: Iterable[WatchedFlow]) -> None:
        self._flows = list(flows)
        # Of each mask that a rule has: the flows by their ends and the bits of their port that it keeps.
        self._by_mask: dict[int, dict[tuple[int, int, int], list[WatchedFlow]]] = {}

    def by(self, rule: CountedRule) -> list[WatchedFlow]:
        """Return the flows whose packets may meet a rule."""
        of_mask = self._by_mask.get(rule.mask)
        if of_mask is None:
            of_mask = self._by_mask[rule.mask] = {}
            for flow in self._flows:
                kept = flow.udp_src & (rule.mask | ~PORT_MASK)
                of_mask.setdefault((flow.src, flow.dst, kept), []).append(flow)
        return of_mask.get((rule.src, rule.dst, rule.udp_src), [])
