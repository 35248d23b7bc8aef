"""Drift: rules and groups of the controller that something else deletes or changes on a switch."""

from __future__ import annotations

from controller.southbound.rules.rule import COOKIE_PREFIX, GROUP_BASE, GROUP_MASK
from emulation.lab import Lab


def change_behind_the_back(lab: Lab, switch: str, how: str, number: int) -> None:
    """Delete or change one of the controller's rules, or delete one of its groups, with ``ovs-ofctl``.

    Args:
        lab: a running lab.
        switch: its name; nothing is changed if it has no rule (or group) yet.
        how: ``rule deleted``, ``rule changed`` or ``group deleted`` (with the rules that use it).
        number: chooses the rule or group, modulo their number.
    """
    if how == "group deleted":
        groups = sorted(group.number for group in lab.groups(switch) if group.number & GROUP_MASK == GROUP_BASE)
        if groups:
            lab.ofctl("del-groups", switch, f"group_id={groups[number % len(groups)]}")
        return
    flows = [flow for flow in lab.flows(switch) if flow.cookie >> 48 == COOKIE_PREFIX]
    if not flows:
        return
    flow = sorted(flows, key=lambda flow: (flow.table, flow.priority, flow.match))[number % len(flows)]
    fields = f"table={flow.table},priority={flow.priority}" + (f",{flow.match}" if flow.match else "")
    if how == "rule deleted":
        lab.ofctl("del-flows", switch, "--strict", fields)
    else:
        lab.ofctl("mod-flows", switch, "--strict", f"{fields},actions=drop")
