"""Rules and groups as frozen data: what compilers make, the interpreter walks, and the installer sends.

The vocabulary is OpenFlow 1.3's, cut down to what fairspine uses, plus Open vSwitch's ``bundle`` action. What is never
right apart is one action here: an MPLS header is pushed together with its label. A match is a sorted tuple of (field,
value) with OpenFlow's field names; a masked value is (value, mask). IPv4 addresses are dotted strings, as Ryu reads
them back, so that rules compare equal with what a switch says it holds.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

from controller.model.switch_key import SwitchKey
from controller.southbound.rules.classifier import Classifier

COOKIE_PREFIX = 0xFA15
"""First 16 bits of the cookie of every rule of ours. 16 bits for the instance that wrote it (``Store.instance``; 0: a
version that did not say) and 32 for the epoch in which it did follow."""

INSTANCE_SHIFT, INSTANCE_MASK, EPOCH_MASK = 32, 0xFFFF, 0xFFFFFFFF

COOKIE_MASK = 0xFFFF << 48

WATCH_PREFIX = 0xFA16
"""First 16 bits of the cookies of the rules of watch windows, which are not part of what is installed
(``watch_rules``)."""

GROUP_BASE = 0xFA000000
GROUP_MASK = 0xFF000000
"""Groups carry no cookie: ours are those whose id starts with this byte."""

ETH_MPLS = 0x8847

MatchValue = int | str | tuple[int, int] | tuple[str, str]
Match = tuple[tuple[str, MatchValue], ...]


# Each action names its kind: as tuples, sending out of port 17 and pushing label 17 would be equal otherwise.


class Output(NamedTuple):
    """Send out of a port."""

    port: int
    kind: Literal["output"] = "output"


class ToGroup(NamedTuple):
    """Hand to a group."""

    group: int
    kind: Literal["group"] = "group"


class Bundle(NamedTuple):
    """Open vSwitch: hash the 5-tuple over the live ones of these ports (highest random weight)."""

    ports: tuple[int, ...]
    kind: Literal["bundle"] = "bundle"


class ToController(NamedTuple):
    """Send to the controller, up to this many bytes."""

    max_len: int
    kind: Literal["controller"] = "controller"


class PushMpls(NamedTuple):
    """Push an MPLS header with this label, the first one as the bottom of the stack (RFC 3032)."""

    label: int
    kind: Literal["push_mpls"] = "push_mpls"


class PopMpls(NamedTuple):
    """Pop the outermost MPLS header; what is under it is of this Ethernet type."""

    eth_type: int
    kind: Literal["pop_mpls"] = "pop_mpls"


Action = Output | ToGroup | Bundle | ToController | PushMpls | PopMpls


class Rule(NamedTuple):
    """One flow entry. No actions and no ``goto``: drop (and count).

    ``metadata`` is written before going on to table ``goto``. ``meter`` drops what is too much
    (``leaf_guards.METERS``).
    """

    table: int
    priority: int
    match: Match
    actions: tuple[Action, ...] = ()
    goto: int | None = None
    metadata: int | None = None
    meter: int | None = None

    @property
    def key(self) -> RuleKey:
        """The fields by which OpenFlow identifies a rule within its switch."""
        return (self.table, self.priority, self.match)


RuleKey = tuple[int, int, Match]


class Bucket(NamedTuple):
    """One bucket: its actions, at most one of each kind, live while ``watch_port`` (or ``watch_group``) is."""

    actions: tuple[Action, ...]
    watch_port: int | None = None
    watch_group: int | None = None


class Group(NamedTuple):
    """A ``select`` group (a hash picks among live buckets) or a ``failover`` one (the first live bucket).

    Groups are named by their content and never modified: a change is a new group, so that rules can move over to it
    one by one and nothing is ever half changed.
    """

    id: int
    kind: str
    buckets: tuple[Bucket, ...]


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


def port_bucket(port: int, actions: tuple[Action, ...] = ()) -> Bucket:
    """Return the bucket that does something and sends out of a port, while the port is live."""
    return Bucket((*actions, Output(port)), watch_port=port)


def match(**fields: MatchValue) -> Match:
    """Return a match from OpenFlow field names: ``match(eth_type=0x800, ipv4_dst="10.0.1.1")``."""
    return tuple(sorted(fields.items()))


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
            self._built = SwitchRules(self._rules, self._groups)
        return self._built


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
