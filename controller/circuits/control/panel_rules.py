"""Circuits as the rules of OpenFlow switches: a rule for each, from its first port to its second one."""

from __future__ import annotations

from collections.abc import Iterable

from controller.circuits.fabric.optical_fabric import Circuit, OpticalFabric
from controller.southbound.rules.rule import Output, Rule, match
from controller.southbound.rules.rule_set import RuleSet, SwitchRules

PRIORITY = 100


def rules_of(fabric: OpticalFabric, circuits: Iterable[Circuit]) -> RuleSet:
    """Return the rules of all panels; a panel without circuits holds none."""
    of_panel: dict[str, list[Rule]] = {name: [] for name in fabric.switch_names}
    for each in circuits:
        of_panel[each.switch].append(Rule(0, PRIORITY, match(in_port=each.in_port), (Output(each.out_port),)))
    return RuleSet(
        {
            dpid: SwitchRules({rule.key: rule for rule in of_panel[name]})
            for name, dpid in zip(fabric.switch_names, fabric.dpids, strict=True)
        }
    )


def circuit_of(panel: str, rule: Rule) -> Circuit | None:
    """Return the circuit that a rule is; ``None``: it is none."""
    if rule.priority != PRIORITY or len(rule.match) != 1 or len(rule.actions) != 1:
        return None
    ((name, port),), (action,) = rule.match, rule.actions
    if name != "in_port" or not isinstance(port, int) or not isinstance(action, Output):
        return None
    return Circuit(panel, port, action.port)


def circuits_in(fabric: OpticalFabric, held: RuleSet) -> frozenset[Circuit]:
    """Return the circuits between NICs of servers that panels hold."""
    made = (
        circuit_of(name, rule)
        for name, dpid in zip(fabric.switch_names, fabric.dpids, strict=True)
        for rule in held[dpid].rules.values()
    )
    switches = {name: i for i, name in enumerate(fabric.switch_names)}
    return frozenset(
        each
        for each in made
        if each is not None
        and all((switches[each.switch], port) in fabric.nic_at for port in (each.in_port, each.out_port))
    )


def without_conflicts(lit: Iterable[Circuit], added: Iterable[Circuit]) -> frozenset[Circuit]:
    """Return those of circuits that have no port in common with others that are added."""
    new = frozenset(added)
    inputs = {(each.switch, each.in_port) for each in new}
    outputs = {(each.switch, each.out_port) for each in new}
    return frozenset(
        each
        for each in lit
        if each in new or ((each.switch, each.in_port) not in inputs and (each.switch, each.out_port) not in outputs)
    )
