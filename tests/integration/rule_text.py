"""Our rules in the words of ``ovs-ofctl dump-flows``, to compare what switches hold with what compilers say."""

from __future__ import annotations

from controller.southbound.rules import COOKIE_PREFIX, Action, Bundle, Output, Rule, SwitchRules, ToController, ToGroup
from emulation.lab import Lab

NAMES = {"ipv4_src": "nw_src", "ipv4_dst": "nw_dst", "udp_src": "tp_src", "udp_dst": "tp_dst"}


def rule_text(rule: Rule) -> tuple[int, int, frozenset[str], str]:
    """(table, priority, match, actions) as Open vSwitch prints them."""
    fields = dict(rule.match)
    kind = {0x800: "ip", 0x806: "arp"}.get(int(str(fields.pop("eth_type", 0))), "")
    if fields.pop("ip_proto", None) == 17:
        kind = "udp"
    words = {kind} if kind else set()
    for name, value in fields.items():
        if isinstance(value, tuple):
            bits = sum(bin(int(part)).count("1") for part in str(value[1]).split("."))
            value = f"{value[0]}/{bits}"
        elif name == "metadata":
            value = f"{int(value):#x}" if value else "0"
        words.add(f"{NAMES.get(name, name)}={value}")
    actions = [_action(action) for action in rule.actions]
    if rule.metadata is not None:
        actions.append(f"write_metadata:{f'{rule.metadata:#x}' if rule.metadata else '0'}")
    if rule.goto is not None:
        actions.append(f"goto_table:{rule.goto}")
    return rule.table, rule.priority, frozenset(words), ",".join(actions) or "drop"


def _action(action: Action) -> str:
    match action:
        case Output(port):
            return f"output:{port}"
        case ToGroup(group):
            return f"group:{group}"
        case ToController(max_len):
            return f"CONTROLLER:{max_len}"
        case Bundle(ports):
            return f"bundle(symmetric_l3l4+udp,0,hrw,ofport,members:{','.join(map(str, ports))})"


def wanted(rules: SwitchRules) -> set[tuple[int, int, frozenset[str], str]]:
    """What a switch should print."""
    return {rule_text(rule) for rule in rules.rules.values()}


def held(lab: Lab, switch: str) -> set[tuple[int, int, frozenset[str], str]]:
    """What a switch holds of the rules with our cookie."""
    return {
        (flow.table, flow.priority, frozenset(filter(None, flow.match.split(","))), flow.actions)
        for flow in lab.flows(switch)
        if flow.cookie >> 48 == COOKIE_PREFIX
    }
