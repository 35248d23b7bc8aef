"""The update of switches from held to desired rules: make before break, over the whole network.

An update has four stages. Every switch first takes what only prepares (groups, rules of spines, and rules for labelled
packets, which no switch sends yet), then rules for the new paths; then the rules for the old paths are removed, and
last those that no packet reaches any more. A stage begins on any switch only when all switches on which others depend
have confirmed the one before.

A switch that is too full to hold old and new rules at once removes planned rules first (``RemoveFirst``): their flows
are spread by the base rules until the new rules are there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from controller.southbound.enforcement.ingress import with_exact_ports
from controller.southbound.forwarding.leaf_guards import unmetered
from controller.southbound.rollout.absent_ports import without_ports
from controller.southbound.rollout.desired_rules import is_planned, used_groups
from controller.southbound.rules.priorities import HOST
from controller.southbound.rules.rule import ETH_MPLS, Group, Rule, RuleKey
from controller.southbound.rules.rule_set import Changes, SwitchRules, by_nesting, deepest_last, difference

STEP = 500
"""Most changes between two barriers: a switch that is slow but at work answers one in time."""


class Stage(IntEnum):
    """The parts of an update, in their order."""

    PREPARE = 0
    SWITCH = 1
    WITHDRAW = 2
    REMOVE = 3


class RemoveFirst(IntEnum):
    """The planned rules that a switch removes before it takes new ones."""

    NONE = 0
    UNWANTED = 1
    CHANGED = 2
    """Rules that get other actions, too: their groups must go to make room for new groups."""


class RuleEdit(NamedTuple):
    """One change. ``put``: make it so, else remove it. ``replaces``: there is a group of this id with other content."""

    put: bool
    what: Rule | Group
    replaces: bool = False


EditBatch = tuple[RuleEdit, ...]
"""Changes that may be carried out in any order; a barrier parts them from the next ones (OpenFlow 1.3.5, 6.2)."""


@dataclass(frozen=True)
class SwitchUpdate:
    """One switch's part in an update.

    Attributes:
        want: what it should hold in the end.
        missing: ports that the rules lead to and the switch does not have; what would go there is dropped.
        stages: the steps of each stage.
        others_use: stages on which other switches depend: rules are put or withdrawn in them.
        labels_go: whether rules for labelled packets are removed, of which some may still be on their way.
    """

    want: SwitchRules
    missing: tuple[int, ...]
    stages: Mapping[Stage, tuple[EditBatch, ...]]
    others_use: frozenset[Stage]
    labels_go: bool

    def __bool__(self) -> bool:
        """Return whether there is anything to do."""
        return any(self.stages.values())


class HeldRules:
    """The rules and groups of ours that one switch holds, updated edit by edit.

    They are copied before the first edit: most of a thousand switches hold just what they should after a restart.
    """

    def __init__(self, held: SwitchRules) -> None:
        """Begin with these rules and groups."""
        self.rules: Mapping[RuleKey, Rule] = held.rules
        self.groups: Mapping[int, Group] = held.groups
        self._own: tuple[dict[RuleKey, Rule], dict[int, Group]] | None = None

    def as_rules(self) -> SwitchRules:
        """Return the rules without a copy, for immediate use: they may change with the next edit."""
        return SwitchRules(self.rules, self.groups)

    def _editable(self) -> tuple[dict[RuleKey, Rule], dict[int, Group]]:
        if self._own is None:
            self._own = dict(self.rules), dict(self.groups)
            self.rules, self.groups = self._own
        return self._own

    def carry_out(self, edits: Iterable[RuleEdit]) -> None:
        """Apply edits that the switch has confirmed."""
        for put, what, _ in edits:
            rules, groups = self._editable()
            if isinstance(what, Rule):
                if put:
                    rules[what.key] = what
                else:
                    rules.pop(what.key, None)
            elif put:
                groups[what.id] = what
            else:
                groups.pop(what.id, None)

    def table_size(self, table: int) -> int:
        """Return the number of rules in one table."""
        return sum(key[0] == table for key in self.rules)

    def lacks(self, want: SwitchRules, table: int) -> int:
        """Return the number of rules of ``want`` for which there is no entry in that table yet."""
        return sum(key[0] == table and key not in self.rules for key in want.rules)


def work(
    held: SwitchRules,
    want: SwitchRules,
    ports: frozenset[int],
    first: RemoveFirst = RemoveFirst.NONE,
    *,
    meters: bool = True,
    port_masks: bool = True,
) -> SwitchUpdate:
    """Return the stages of work of one switch.

    Args:
        held: what it holds of ours.
        want: what it should hold.
        ports: the switch's.
        meters: whether it has those of ``leaf_guards.METERS``; otherwise it gets the rules without them.
        port_masks: whether it takes rules for blocks of ports; otherwise it gets a rule for each port.
        first: what it removes before anything else, at the beginning of ``PREPARE``.
    """
    want = want if port_masks else with_exact_ports(want)
    want, missing = without_ports(want if meters else unmetered(want), ports)
    if first:
        return _after_removal(held, want, ports, first, missing)
    changes = difference(held, want)
    spine = not has_hosts(held) and not has_hosts(want)
    early, others = _parted(changes.put_rules, spine)
    last, before = _parted(changes.removed_rules, spine)
    stages = {
        Stage.PREPARE: tuple(_cut([*by_nesting(changes.new_groups), *_by_rank(early)], put=True, held=held)),
        Stage.SWITCH: tuple(_cut(_by_rank(others), put=True, held=held)),
        Stage.WITHDRAW: tuple(_cut(reversed(_by_rank(before)), put=False, held=held)),
        Stage.REMOVE: tuple(_cut([*reversed(_by_rank(last)), *_old_groups(changes, want)], put=False, held=held)),
    }
    parts = ((Stage.PREPARE, early), (Stage.SWITCH, others), (Stage.WITHDRAW, before))
    used = frozenset(stage for stage, rules in parts if rules)
    return SwitchUpdate(want, missing, stages, used, any(map(is_labelled, changes.removed_rules)))


def _after_removal(
    held: SwitchRules, want: SwitchRules, ports: frozenset[int], first: RemoveFirst, missing: tuple[int, ...]
) -> SwitchUpdate:
    """Return the work of a switch that removes planned rules, and the groups that only those used, before all else."""
    gone = [
        rule
        for key, rule in held.rules.items()
        if is_planned(rule) and (key not in want.rules or (first is RemoveFirst.CHANGED and want.rules[key] != rule))
    ]
    rules = dict(held.rules)
    for rule in gone:
        del rules[rule.key]
    groups = used_groups(rules.values(), held.groups)
    groups |= {id_: group for id_, group in held.groups.items() if want.groups.get(id_) == group}
    old = by_nesting(deepest_last(group for id_, group in held.groups.items() if id_ not in groups))
    removal = tuple(_cut([*reversed(_by_rank(gone)), *old], put=False, held=held))
    rest = work(SwitchRules(rules, groups), want, ports)
    stages = {**rest.stages, Stage.PREPARE: (*removal, *rest.stages[Stage.PREPARE])}
    return SwitchUpdate(want, missing, stages, rest.others_use, rest.labels_go)


_LABELLED = ("eth_type", ETH_MPLS)


def _parted(rules: Iterable[Rule], spine: bool) -> tuple[list[Rule], list[Rule]]:
    """Return the rules that only match packets sent by another switch, and the others."""
    if spine:
        return list(rules), []
    rules = list(rules)
    passive = [rule for rule in rules if _LABELLED in rule.match]
    return passive, [rule for rule in rules if _LABELLED not in rule.match] if passive else rules


def is_labelled(rule: Rule) -> bool:
    """Return whether a rule is for packets with an MPLS header, which only another switch can have put on."""
    return _LABELLED in rule.match


def has_hosts(rules: SwitchRules) -> bool:
    """Return whether packets enter the network at the switch that holds these rules."""
    return any(rule.priority == HOST for rule in rules.rules.values())


def _old_groups(changes: Changes, want: SwitchRules) -> list[list[Group]]:
    return by_nesting(group for group in changes.removed_groups if group.id not in want.groups)


def _by_rank(rules: Iterable[Rule]) -> list[list[Rule]]:
    """Group rules in the order of installation.

    Last table first: a packet that is sent on to a table finds its rules there. Base rules before planned ones: they
    must not wait for rules that may have no room. Then highest priority first: exceptions are there before the rule
    from which they except.
    """
    parts = defaultdict[tuple[int, int], list[Rule]](list)
    for rule in rules:
        parts[rule.table, rule.priority].append(rule)
    return sorted(parts.values(), key=lambda part: _rank(part[0]))


def _rank(rule: Rule) -> tuple[int, bool, int]:
    return -rule.table, is_planned(rule), -rule.priority


def _cut(parts: Iterable[list[Rule] | list[Group]], *, put: bool, held: SwitchRules) -> Iterator[EditBatch]:
    for part in parts:
        for start in range(0, len(part), STEP):
            # A part has nothing but rules, or nothing but groups; a large one has rules.
            some = part[start : start + STEP]
            if put and isinstance(some[0], Group):
                yield tuple(RuleEdit(put, what, what.id in held.groups) for what in some if isinstance(what, Group))
            else:
                yield tuple([RuleEdit(put, what) for what in some])
