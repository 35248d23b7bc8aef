"""How switches get from what they hold to what they should hold: make before break, over the whole network.

An update has four stages. Every switch first takes what only prepares (groups, rules of spines, and rules for labelled
packets, which nobody sends yet), then what sends traffic on its new ways; then what sent it on the old ones goes, and
last what nobody sends anything to any more. A stage begins on any switch only when all switches on which others depend
have confirmed the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from typing import NamedTuple

from controller.southbound.absent_ports import without_ports
from controller.southbound.base import HOST
from controller.southbound.rules import ETH_MPLS, Changes, Group, Rule, RuleKey, SwitchRules, by_nesting, difference

STEP = 500
"""Most changes between two barriers: a switch that is slow but at work answers one in time."""


class Stage(IntEnum):
    """The parts of an update, in their order."""

    PREPARE = 0
    SWITCH = 1
    WITHDRAW = 2
    REMOVE = 3


class Edit(NamedTuple):
    """One change. ``put``: make it so, else remove it. ``replaces``: there is a group of this id with other content."""

    put: bool
    what: Rule | Group
    replaces: bool = False


Step = tuple[Edit, ...]
"""Changes that may be carried out in any order; a barrier parts them from the next ones (OpenFlow 1.3.5, 6.2)."""


@dataclass(frozen=True)
class Work:
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
    stages: Mapping[Stage, tuple[Step, ...]]
    others_use: frozenset[Stage]
    labels_go: bool

    def __bool__(self) -> bool:
        return any(self.stages.values())


class Holding:
    """What one switch holds of ours, edit by edit."""

    def __init__(self, held: SwitchRules) -> None:
        self.rules: dict[RuleKey, Rule] = dict(held.rules)
        self.groups: dict[int, Group] = dict(held.groups)

    def as_rules(self) -> SwitchRules:
        """For reading at once: it changes with the next edit."""
        return SwitchRules(self.rules, self.groups)

    def carry_out(self, edits: Iterable[Edit]) -> None:
        """The switch has confirmed these."""
        for put, what, _ in edits:
            if isinstance(what, Rule):
                if put:
                    self.rules[what.key] = what
                else:
                    self.rules.pop(what.key, None)
            elif put:
                self.groups[what.id] = what
            else:
                self.groups.pop(what.id, None)

    def table_size(self, table: int) -> int:
        """Rules in one table."""
        return sum(key[0] == table for key in self.rules)

    def lacks(self, want: SwitchRules, table: int) -> int:
        """Rules of ``want`` for which there is no entry in that table yet."""
        return sum(key[0] == table and key not in self.rules for key in want.rules)


def work(held: SwitchRules, want: SwitchRules, ports: frozenset[int]) -> Work:
    """What one switch has to do.

    Args:
        ports: the switch's.
    """
    want, missing = without_ports(want, ports)
    changes = difference(held, want)
    spine = not has_hosts(held) and not has_hosts(want)
    first, others = _parted(changes.put_rules, spine)
    last, before = _parted(changes.removed_rules, spine)
    stages = {
        Stage.PREPARE: tuple(_cut([*by_nesting(changes.new_groups), *_by_rank(first)], put=True, held=held)),
        Stage.SWITCH: tuple(_cut(_by_rank(others), put=True, held=held)),
        Stage.WITHDRAW: tuple(_cut(reversed(_by_rank(before)), put=False, held=held)),
        Stage.REMOVE: tuple(_cut([*reversed(_by_rank(last)), *_old_groups(changes, want)], put=False, held=held)),
    }
    parts = ((Stage.PREPARE, first), (Stage.SWITCH, others), (Stage.WITHDRAW, before))
    used = frozenset(stage for stage, rules in parts if rules)
    return Work(want, missing, stages, used, any(map(is_labelled, changes.removed_rules)))


def _parted(rules: Iterable[Rule], spine: bool) -> tuple[list[Rule], list[Rule]]:
    """Rules that only meet what another switch has sent, and the others."""
    passive: list[Rule] = []
    active: list[Rule] = []
    for rule in rules:
        (passive if spine or is_labelled(rule) else active).append(rule)
    return passive, active


def is_labelled(rule: Rule) -> bool:
    """Whether a rule is for packets with an MPLS header, which reach a switch only when another one has put it on."""
    return ("eth_type", ETH_MPLS) in rule.match


def has_hosts(rules: SwitchRules) -> bool:
    """Whether packets begin their way through the network at the switch that holds these rules."""
    return any(rule.priority == HOST for rule in rules.rules.values())


def _old_groups(changes: Changes, want: SwitchRules) -> list[list[Group]]:
    return by_nesting(group for group in changes.removed_groups if group.id not in want.groups)


def _by_rank(rules: Iterable[Rule]) -> list[list[Rule]]:
    """Last table first: a packet that is sent on to a table finds its rules there. Highest priority first: exceptions
    are there before the rule from which they except."""
    ordered = sorted(rules, key=_rank)
    return [list(part) for _, part in groupby(ordered, key=_rank)]


def _rank(rule: Rule) -> tuple[int, int]:
    return -rule.table, -rule.priority


def _cut(parts: Iterable[list[Rule] | list[Group]], *, put: bool, held: SwitchRules) -> Iterator[Step]:
    for part in parts:
        for start in range(0, len(part), STEP):
            yield tuple(
                Edit(put, what, put and isinstance(what, Group) and what.id in held.groups)
                for what in part[start : start + STEP]
            )
