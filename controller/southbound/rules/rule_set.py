"""The rules of switches as immutable sets: what compilers make, the interpreter walks, and the installer sends."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

from controller.model.switch_key import SwitchKey
from controller.southbound.rules.classifier import Classifier
from controller.southbound.rules.rule import GROUP_BASE, GROUP_MASK, Bucket, Group, Rule, RuleKey, ToGroup


@dataclass(frozen=True)
class SwitchRules:
    """The rules and groups of ours on one switch."""

    rules: Mapping[RuleKey, Rule] = field(default_factory=dict)
    groups: Mapping[int, Group] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of rules."""
        return len(self.rules)

    @cached_property
    def classifier(self) -> Classifier:
        """Finds the rule that a packet meets."""
        return Classifier(self.rules.values())


@dataclass(frozen=True)
class RuleSet:
    """Rules by datapath id."""

    switches: Mapping[int, SwitchRules] = field(default_factory=dict)

    def __getitem__(self, switch: SwitchKey) -> SwitchRules:
        """Return the rules of a switch; empty if there are none, as for a switch without OpenFlow."""
        return self.switches.get(switch, EMPTY) if isinstance(switch, int) else EMPTY

    def __iter__(self) -> Iterator[int]:
        """Iterate over the datapath ids."""
        return iter(self.switches)

    def size(self, switch: SwitchKey) -> int:
        """Return the number of rules of a switch."""
        return len(self[switch])


EMPTY = SwitchRules()


class RuleBuilder:
    """Collects the rules and groups of one switch; compilers share one, so that equal groups are one.

    What it begins with, and what it has built, stays as it is: both are copied only when more is added. Most plans
    change few switches of a large fabric.
    """

    def __init__(self, begun: SwitchRules = EMPTY) -> None:
        """Begin with the rules and groups of ``begun``."""
        self._built: SwitchRules | None = begun
        self._rules: Mapping[RuleKey, Rule] = begun.rules
        self._groups: Mapping[int, Group] = begun.groups
        self._has_removed = False

    def _own(self) -> tuple[dict[RuleKey, Rule], dict[int, Group]]:
        """Return the builder's own rules and groups, to which entries can be added."""
        if self._built is not None:
            self._built, self._rules, self._groups = None, dict(self._rules), dict(self._groups)
        assert isinstance(self._rules, dict)
        assert isinstance(self._groups, dict)
        return self._rules, self._groups

    def add(self, rule: Rule) -> None:
        """Add a rule.

        Raises:
            ValueError: another rule has the same table, priority and match: one of the two would vanish.
        """
        key = rule.key
        known = self._rules.get(key)
        if known is None:
            self._own()[0][key] = rule
        elif known != rule:
            raise ValueError(f"two rules for {key}")

    def add_new(self, rules: Iterable[Rule]) -> None:
        """Add rules whose keys differ from those of all others.

        Raises:
            ValueError: another rule has the same table, priority and match as one of them.
        """
        new = list(rules)
        if not new:
            return
        own, _ = self._own()
        total = len(own) + len(new)
        own.update((rule[:3], rule) for rule in new)
        if len(own) != total:
            raise ValueError(f"two rules for one key, with one of {len(new)} new rules")

    def remove(self, keys: Iterable[RuleKey]) -> None:
        """Remove the rules with these keys, where there are such, and the groups that no rule leads to any more."""
        own, _ = self._own()
        for key in keys:
            own.pop(key, None)
        self._has_removed = True

    def add_all(self, rules: Mapping[RuleKey, Rule]) -> None:
        """Add rules by their keys.

        Raises:
            ValueError: as ``add``.
        """
        # Iterate over the smaller of the two views.
        if self._rules.keys().isdisjoint(rules.keys()):
            self._own()[0].update(rules)
        else:
            for rule in rules.values():
                self.add(rule)

    def group(self, kind: str, buckets: Iterable[Bucket]) -> int:
        """Return the id of the group with this content; create it if it does not exist."""
        content = tuple(buckets)
        # A checksum of the content names the group; on the rare clash the next free id. Python's own hash() would
        # differ between two runs of the controller, and a restart would rewrite every group.
        number = _checksum(kind, content)
        while True:
            group = Group(GROUP_BASE | number, kind, content)
            known = self._groups.get(group.id)
            if known is None:
                self._own()[1][group.id] = group
            if known is None or known == group:
                return group.id
            number = (number + 1) & ~GROUP_MASK & 0xFFFFFFFF

    def build(self) -> SwitchRules:
        """Return the rules and groups added so far."""
        if self._built is None:
            if self._has_removed:
                self._groups, self._has_removed = _in_use(self._rules.values(), self._groups), False
            self._built = SwitchRules(self._rules, self._groups)
        return self._built


def _in_use(rules: Iterable[Rule], groups: Mapping[int, Group]) -> dict[int, Group]:
    """Return the groups that rules lead to, and those that these lead to."""
    ways = {rule.actions for rule in rules}
    open_ = {action.group for actions in ways for action in actions if isinstance(action, ToGroup)}
    used: set[int] = set()
    while open_:
        used |= open_
        buckets = [bucket for id_ in open_ for bucket in groups[id_].buckets]
        open_ = {a.group for bucket in buckets for a in bucket.actions if isinstance(a, ToGroup)} - used
    return {id_: group for id_, group in groups.items() if id_ in used}


@lru_cache(maxsize=4096)
def _checksum(kind: str, content: tuple[Bucket, ...]) -> int:
    # Many leaves have groups of the same content.
    return zlib.crc32(repr((kind, content)).encode()) & ~GROUP_MASK & 0xFFFFFFFF


class Changes(NamedTuple):
    """The edits that turn one switch's rules into another's, in the order in which they must be sent."""

    new_groups: tuple[Group, ...]
    put_rules: tuple[Rule, ...]
    removed_rules: tuple[Rule, ...]
    removed_groups: tuple[Group, ...]

    def __bool__(self) -> bool:
        """Return whether there is any change."""
        return any(self)


def difference(have: SwitchRules, want: SwitchRules) -> Changes:
    """Return the changes from ``have`` to ``want``; groups that other groups lead to come first (and go last)."""
    new = [group for id_, group in want.groups.items() if have.groups.get(id_) != group]
    gone = [group for id_, group in have.groups.items() if want.groups.get(id_) != group]
    put: tuple[Rule, ...] = ()
    removed: tuple[Rule, ...] = ()
    # Nearly every switch holds what it should after a restart or a take-over: dictionaries are compared whole first.
    if have.rules is not want.rules and have.rules != want.rules:
        put = tuple(
            # Most are the same object, and need no comparison.
            rule
            for key, rule in want.rules.items()
            if (held := have.rules.get(key)) is not rule and held != rule
        )
        removed = tuple(rule for key, rule in have.rules.items() if key not in want.rules)
    return Changes(tuple(sorted(new, key=_nesting)), put, removed, tuple(sorted(gone, key=_nesting, reverse=True)))


def by_nesting(groups: Iterable[Group]) -> list[list[Group]]:
    """Split sorted groups into parts in which none leads to another of the same part."""
    return [list(part) for _, part in itertools.groupby(groups, key=_nesting)]


def deepest_last(groups: Iterable[Group]) -> list[Group]:
    """Return groups in the order in which they can be removed: those that lead to others come first."""
    return sorted(groups, key=_nesting, reverse=True)


def _nesting(group: Group) -> int:
    return int(any(bucket.watch_group is not None for bucket in group.buckets))
