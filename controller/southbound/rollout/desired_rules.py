"""The rules that switches should hold, and those that they hold while one of them has no room for the newest.

A target has two parts. Base rules follow from the fabric alone: they forward everything, around failed cables, too.
Planned rules follow from the jobs. Base rules never wait for planned ones: where a switch refuses a target, all of them
get a fall-back, which has the *newest* base rules with

1. the planned rules of the last plan that all switches had, for the flows that are still there, on live paths;
2. the same without the planned rules of switches that refuse these, too (their flows are spread by ECMP);
3. no planned rules at all, where a switch lacks room for the label rules that other switches' planned rules need.

A switch that does not take its base rules is left out, and tried again separately.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.model.switch_key import SwitchKey
from controller.southbound.rules.priorities import CLASS, CLASS_EXCEPTION, DISCOVERY, LABEL, LOWEST_FLOW
from controller.southbound.rules.rule import Group, Rule, ToGroup
from controller.southbound.rules.rule_set import RuleSet, SwitchRules


@dataclass(frozen=True, eq=False)
class DesiredRules:
    """The newest rules.

    Attributes:
        names: of switches, by key.
        plan: what a later target's ``earlier`` needs of this one.
        earlier: the base rules of this target with the planned rules of an earlier one, given that one's ``plan``.
            Pure, and may take long. ``None``: there is no such thing (the rules are not those of a plan).
    """

    rules: RuleSet
    epoch: int
    names: Mapping[SwitchKey, str]
    plan: Any = None
    earlier: Callable[[Any], RuleSet] | None = None


@dataclass(frozen=True)
class Fallback:
    """The choice of planned rules in a fall-back.

    Attributes:
        earlier: epoch and ``plan`` of the target whose planned rules it has; ``None``: those of the newest one.
        bare: switches without planned rules; ``all_bare``: no switch has any.
    """

    earlier: tuple[int, Any] | None = None
    bare: frozenset[int] = frozenset()
    all_bare: bool = False

    def rules(self, target: DesiredRules) -> RuleSet:
        """Return the rules of this fall-back for a target."""
        rules = target.rules
        if self.earlier is not None and target.earlier is not None:
            rules = target.earlier(self.earlier[1])
        if self.all_bare:
            return RuleSet({dpid: without(rules[dpid], is_enforcement) for dpid in rules})
        return RuleSet({dpid: without(rules[dpid], is_planned) if dpid in self.bare else rules[dpid] for dpid in rules})

    def lower(self, dpid: int, refused: SwitchRules) -> Fallback | None:
        """Return the fall-back to try when a switch refuses ``refused``; ``None``: it does not take its base rules."""
        rules = refused.rules.values()
        if not self.all_bare and dpid not in self.bare and any(map(is_planned, rules)):
            return dataclasses.replace(self, bare=self.bare | {dpid})
        if not self.all_bare and any(map(is_enforcement, rules)):
            return dataclasses.replace(self, all_bare=True)
        return None


def is_planned(rule: Rule) -> bool:
    """Return whether a rule sends planned flows on their way at the ingress. Without it, base rules forward them."""
    return LOWEST_FLOW <= rule.priority < DISCOVERY or rule.priority in (CLASS, CLASS_EXCEPTION)


def is_enforcement(rule: Rule) -> bool:
    """Return whether a rule is no base rule: a planned one, or a label rule that others' planned rules need."""
    return is_planned(rule) or rule.priority == LABEL


def without(held: SwitchRules, goes: Callable[[Rule], bool]) -> SwitchRules:
    """Return one switch's rules without some of them, and without the groups that only those used."""
    rules = {key: rule for key, rule in held.rules.items() if not goes(rule)}
    return held if len(rules) == len(held.rules) else SwitchRules(rules, used_groups(rules.values(), held.groups))


def used_groups(rules: Iterable[Rule], groups: Mapping[int, Group]) -> dict[int, Group]:
    """Return the groups to which rules lead, directly or by other groups."""
    waiting = [action.group for rule in rules for action in rule.actions if isinstance(action, ToGroup)]
    used: dict[int, Group] = {}
    while waiting:
        number = waiting.pop()
        if number in used or number not in groups:
            continue
        used[number] = groups[number]
        buckets = groups[number].buckets
        waiting += [each.group for bucket in buckets for each in bucket.actions if isinstance(each, ToGroup)]
    return used


class RuleCapacity:
    """The known capacity, in our rules or groups, of switches that were found to be full."""

    def __init__(self) -> None:
        """Begin without known limits."""
        self._known: dict[tuple[int, int | None], int] = {}

    def record(self, dpid: int, table: int | None, room: int) -> None:
        """Record that a table (``None``: the groups) of a switch takes ``room`` of our entries and no more."""
        self._known[dpid, table] = room

    def forget(self, dpid: int | None = None) -> None:
        """Forget the limits of a switch (``None``: of all), because there may be more room now."""
        self._known = {} if dpid is None else {key: room for key, room in self._known.items() if key[0] != dpid}

    def short(self, rules: RuleSet) -> tuple[int, int | None, int] | None:
        """Return datapath id, table, and the number of entries in excess; ``None``: the rules may fit."""
        for (dpid, table), room in self._known.items():
            needed = entries(rules[dpid], table)
            if needed > room:
                return dpid, table, needed - room
        return None


def entries(held: SwitchRules, table: int | None) -> int:
    """Return the number of rules in a table, or of groups (``None``)."""
    return len(held.groups) if table is None else sum(key[0] == table for key in held.rules)
