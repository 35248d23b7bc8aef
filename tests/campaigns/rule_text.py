"""Rules and groups in the notation of ``ovs-ofctl``, to compare the switches' rules with compiled ones."""

from __future__ import annotations

from typing import NamedTuple

from controller.southbound.rules.rule import (
    COOKIE_PREFIX,
    GROUP_BASE,
    GROUP_MASK,
    Action,
    Bundle,
    Group,
    Output,
    PopMpls,
    PushMpls,
    Resubmit,
    Rule,
    SetDscp,
    SetEthDst,
    SetTrafficClass,
    ShiftIds,
    ToController,
    ToGroup,
    number_of,
)
from controller.southbound.rules.rule_set import SwitchRules
from controller.southbound.wire.rule_bytes import ID_BITS, IPV6_BITS
from emulation.lab import Lab

NAMES = {"ipv4_src": "nw_src", "ipv4_dst": "nw_dst", "udp_src": "tp_src", "udp_dst": "tp_dst", "eth_dst": "dl_dst"}
KINDS = {0x0800: "ip", 0x0806: "arp", 0x8847: "mpls", 0x86DD: "ipv6"}
ETH_MPLS = 0x8847
UDP = 17


class RuleText(NamedTuple):
    """A rule as Open vSwitch prints it; the words of a match come in no certain order."""

    table: int
    priority: int
    match: frozenset[str]
    actions: str


class GroupText(NamedTuple):
    """A group as Open vSwitch prints it."""

    number: int
    type: str
    buckets: tuple[str, ...]


def rule_text(rule: Rule) -> RuleText:
    """Return a rule in the form that Open vSwitch prints."""
    fields = dict(rule.match)
    eth_type = int(str(fields.pop("eth_type", 0)))
    kind = KINDS.get(eth_type, f"dl_type={eth_type:#06x}" if eth_type else "")
    if fields.pop("ip_proto", None) == UDP:
        kind = "udp"
    words = {kind} if kind else set()
    for name, value in fields.items():
        text = str(value)
        if isinstance(value, tuple):
            address, mask = value
            if isinstance(mask, str):
                text = f"{address}/{number_of(mask).bit_count()}"
            else:
                text = f"{address:#x}/{mask:#x}"
        elif name == "metadata":
            text = f"{int(value):#x}" if value else "0"
        words.add(f"{NAMES.get(name, name)}={text}")
    actions = [] if rule.meter is None else [f"meter:{rule.meter}"]
    actions += [_action(action) for action in rule.actions]
    if rule.metadata is not None:
        actions.append(f"write_metadata:{f'{rule.metadata:#x}' if rule.metadata else '0'}")
    if rule.goto is not None:
        actions.append(f"goto_table:{rule.goto}")
    return RuleText(rule.table, rule.priority, frozenset(words), ",".join(actions) or "drop")


def group_text(group: Group) -> GroupText:
    """Return a group in the form that Open vSwitch prints."""
    buckets = []
    for bucket in group.buckets:
        watched = [
            f"{name}:{value}"
            for name, value in (("watch_port", bucket.watch_port), ("watch_group", bucket.watch_group))
            if value is not None
        ]
        buckets.append(",".join([*watched, "actions=" + ",".join(map(_action, bucket.actions))]))
    return GroupText(group.id, {"failover": "ff"}.get(group.kind, group.kind), tuple(buckets))


def _action(action: Action) -> str:
    match action:
        case Output(port):
            return f"output:{port}"
        case ToGroup(group):
            return f"group:{group}"
        case ToController(max_len):
            return f"CONTROLLER:{max_len}"
        case PushMpls(label):
            return f"push_mpls:{ETH_MPLS:#06x},set_field:{label}->mpls_label"
        case PopMpls(eth_type):
            return f"pop_mpls:{eth_type:#06x}"
        case SetDscp(code_point):
            return f"set_field:{code_point}->ip_dscp"
        case SetTrafficClass(number):
            return f"set_field:{number}->mpls_tc"
        case ShiftIds(block_bits):
            left, field = IPV6_BITS - block_bits - ID_BITS, "NXM_NX_IPV6_DST"
            moved = f"move:{field}[0..{left - 1}]->{field}[{ID_BITS}..{left + ID_BITS - 1}]"
            return f"{moved},load:0->{field}[0..{ID_BITS - 1}],load:0->NXM_OF_IN_PORT[]"
        case Resubmit(table):
            return f"resubmit(,{table})"
        case SetEthDst(mac):
            return f"set_field:{mac}->eth_dst"
        case Bundle(ports):
            return f"bundle(symmetric_l3l4+udp,0,hrw,ofport,members:{','.join(map(str, ports))})"


def wanted(rules: SwitchRules) -> set[RuleText]:
    """Return the rules that a switch should print."""
    return {rule_text(rule) for rule in rules.rules.values()}


def wanted_groups(rules: SwitchRules) -> set[GroupText]:
    """Return the groups that a switch should print."""
    return {group_text(group) for group in rules.groups.values()}


def held(lab: Lab, switch: str) -> set[RuleText]:
    """Return the rules of a switch that have the controller's cookie."""
    return {
        RuleText(flow.table, flow.priority, frozenset(filter(None, flow.match.split(","))), flow.actions)
        for flow in lab.flows(switch)
        if flow.cookie >> 48 == COOKIE_PREFIX
    }


def held_groups(lab: Lab, switch: str) -> set[GroupText]:
    """Return the groups of a switch that are in the controller's range of ids."""
    return {
        GroupText(group.number, group.type, group.buckets)
        for group in lab.groups(switch)
        if group.number & GROUP_MASK == GROUP_BASE
    }
