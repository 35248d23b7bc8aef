"""Deviations of a switch from what it confirmed: rules that others have changed, and others' rules in the way. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from controller.southbound.rollout.watch_rules import is_watching
from controller.southbound.rules.rule import (
    COOKIE_MASK,
    COOKIE_PREFIX,
    GROUP_BASE,
    GROUP_MASK,
    INSTANCE_MASK,
    INSTANCE_SHIFT,
    Group,
    Match,
    MatchValue,
    Rule,
    RuleKey,
    number_of,
)
from controller.southbound.rules.rule_set import SwitchRules, difference

REPAIRS, WINDOW, HOLD = 3, 60.0, 60.0
"""Number of repairs within a number of seconds after which a switch is repaired only once per period, in seconds."""

ETH_LLDP = 0x88CC
MOST_STRANGERS = 200
"""Most rules of others that are examined; of more, those of the highest priorities."""


@dataclass(frozen=True)
class Deviation:
    """How the rules of a switch, as read back, deviate from those that it confirmed.

    Attributes:
        drifted: rules of this controller are missing or changed, and not known to be repaired.
        foreign: rules of others that catch packets which rules of this controller forward.
    """

    drifted: bool
    foreign: tuple[Rule, ...]


class CookieRule(NamedTuple):
    """A rule and its cookie."""

    cookie: int
    rule: Rule


@dataclass(frozen=True)
class Drift:
    """The difference between a switch's rules and what it confirmed.

    Attributes:
        missing: rules of ours that are not there.
        changed: rules of ours that do something else.
        added: rules with our cookie that we did not install.
        groups: groups that are missing, changed or added.
        by: the instance of another fairspine that wrote what is changed or added; ``None``: unknown.
    """

    missing: int = 0
    changed: int = 0
    added: int = 0
    groups: int = 0
    by: int | None = None

    def __bool__(self) -> bool:
        """Return whether there is any difference."""
        return bool(self.missing or self.changed or self.added or self.groups)

    @property
    def size(self) -> int:
        """The number of rules and groups that differ."""
        return self.missing + self.changed + self.added + self.groups

    @property
    def text(self) -> str:
        """The differences in words."""
        parts = [
            f"{number} {what if number == 1 else what + 's'} {difference}"
            for number, what, difference in (
                (self.missing, "rule", "missing"),
                (self.changed, "rule", "changed"),
                (self.added, "rule", "added"),
                (self.groups, "group", "missing, changed or added"),
            )
            if number
        ]
        return ", ".join(parts)


@dataclass(frozen=True)
class ForeignRules:
    """Rules of others that catch packets of ours, represented by the one of the highest priority.

    ``rules``: all of them that were examined, by falling priority.
    """

    cookie: int
    rule: Rule
    count: int
    rules: tuple[Rule, ...] = ()

    @property
    def text(self) -> str:
        """The foreign rules in words."""
        what = (
            described(self.cookie, self.rule)
            if self.count == 1
            else f"{self.count} rules not installed by fairspine, for example one {_place(self.cookie, self.rule)}"
        )
        return f"{what} matches packets before the rules of fairspine; it is not changed"


def described(cookie: int, rule: Rule) -> str:
    """Return a rule of others in words."""
    return f"a rule not installed by fairspine {_place(cookie, rule)}"


def _place(cookie: int, rule: Rule) -> str:
    fields = ",".join(f"{name}={_shown(value)}" for name, value in rule.match) or "any packet"
    return f"(cookie {cookie:#x}, table {rule.table}, priority {rule.priority}, {fields})"


def _shown(value: MatchValue) -> str:
    return f"{value[0]}/{value[1]}" if isinstance(value, tuple) else str(value)


def is_ours(cookie: int) -> bool:
    """Return whether a rule with this cookie is fairspine's, of this instance or of another."""
    return cookie & COOKIE_MASK == COOKIE_PREFIX << 48


def instance_of(cookie: int) -> int:
    """Return the instance that wrote a rule of fairspine's; 0: a version that did not record it."""
    return cookie >> INSTANCE_SHIFT & INSTANCE_MASK


def ours(read: Iterable[CookieRule], groups: Mapping[int, Group]) -> SwitchRules:
    """Return the part of a switch's rules and groups that is fairspine's."""
    rules = {rule.key: rule for cookie, rule in read if is_ours(cookie)}
    return SwitchRules(rules, {id_: group for id_, group in groups.items() if id_ & GROUP_MASK == GROUP_BASE})


def drift(expected: SwitchRules, held: SwitchRules, cookies: Mapping[RuleKey, int], instance: int) -> Drift:
    """Return the changes by others to the rules that a switch confirmed.

    Args:
        expected: the confirmed rules.
        held: the rules that the switch holds.
        cookies: of the rules that it holds.
        instance: ours.
    """
    edit = difference(held, expected)
    changed = [rule for rule in edit.put_rules if rule.key in held.rules]
    written = [held.rules[rule.key] for rule in changed] + list(edit.removed_rules)
    others = {instance_of(cookies[rule.key]) for rule in written} - {0, instance}
    groups = {group.id for group in (*edit.new_groups, *edit.removed_groups)}
    return Drift(
        missing=len(edit.put_rules) - len(changed),
        changed=len(changed),
        added=len(edit.removed_rules),
        groups=len(groups),
        by=min(others) if others else None,
    )


def foreign_rules(read: Iterable[CookieRule], expected: SwitchRules) -> ForeignRules | None:
    """Return the rules of others that catch packets which rules of ours forward; ``None``: there are none."""
    others = sorted((each for each in read if _may_catch(each)), key=lambda each: -each.rule.priority)[:MOST_STRANGERS]
    if not others:
        return None
    forwarding = [rule for rule in expected.rules.values() if rule.actions or rule.goto is not None]
    catching = [each for each in others if any(_catches(each.rule, rule) for rule in forwarding)]
    if not catching:
        return None
    return ForeignRules(*catching[0], len(catching), tuple(each.rule for each in catching))


def _may_catch(read: CookieRule) -> bool:
    watching = is_watching(read.cookie)
    return not is_ours(read.cookie) and not watching and ("eth_type", ETH_LLDP) not in read.rule.match


def _catches(other: Rule, rule: Rule) -> bool:
    if other.table != rule.table or other.priority < rule.priority:
        return False
    return overlap(other.match, rule.match)


def overlap(one: Match, other: Match) -> bool:
    """Return whether some packet meets both matches."""
    fields = dict(one)
    for name, value in other:
        if name in fields:
            (a, a_mask), (b, b_mask) = _bits(fields[name]), _bits(value)
            if (a ^ b) & a_mask & b_mask:
                return False
    return True


def _bits(value: MatchValue) -> tuple[int, int]:
    if isinstance(value, tuple):
        return number_of(value[0]), number_of(value[1])
    return number_of(value), -1


class Repairs:
    """The times at which a switch may be repaired: at once, but not forever if another program undoes it each time."""

    def __init__(self) -> None:
        """Begin with no repairs."""
        self._when: deque[float] = deque(maxlen=REPAIRS)
        self.contested = False

    def wait(self, now: float, drift: Drift) -> float:
        """Return the seconds until drift may be repaired; 0: now, and it counts as done."""
        recent = [at for at in self._when if now - at < WINDOW]
        # An active second controller is certain here.
        if recent and (len(recent) == REPAIRS or drift.by is not None or self.contested):
            self.contested = True
            left = self._when[-1] + HOLD - now
            if left > 0:
                return left
        self._when.append(now)
        return 0.0

    def clean(self, now: float) -> bool:
        """Record that no drift was found; return whether earlier repairs are long enough ago to be forgotten."""
        if self._when and now - self._when[-1] < 2 * HOLD:
            return False
        self._when.clear()
        self.contested = False
        return True
