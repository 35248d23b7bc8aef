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
from functools import cached_property
from typing import NamedTuple

from controller.southbound.classifier import Classifier

COOKIE_PREFIX = 0xFA15
"""First 16 bits of the cookie of every rule of ours; the other 48 hold the epoch in which it was last written."""

COOKIE_MASK = 0xFFFF << 48

GROUP_BASE = 0xFA000000
GROUP_MASK = 0xFF000000
"""Groups carry no cookie: ours are those whose id starts with this byte."""

ETH_MPLS = 0x8847

MatchValue = int | str | tuple[int, int] | tuple[str, str]
Match = tuple[tuple[str, MatchValue], ...]


class Output(NamedTuple):
    """Send out of a port."""

    port: int


class ToGroup(NamedTuple):
    """Hand to a group."""

    group: int


class Bundle(NamedTuple):
    """Open vSwitch: hash the 5-tuple over the live ones of these ports (highest random weight)."""

    ports: tuple[int, ...]


class ToController(NamedTuple):
    """Send to the controller, up to this many bytes."""

    max_len: int


class PushMpls(NamedTuple):
    """Push an MPLS header with this label, the first one as the bottom of the stack (RFC 3032)."""

    label: int


class PopMpls(NamedTuple):
    """Pop the outermost MPLS header; what is under it is of this Ethernet type."""

    eth_type: int


Action = Output | ToGroup | Bundle | ToController | PushMpls | PopMpls


class Rule(NamedTuple):
    """One flow entry. No actions and no ``goto``: drop (and count).

    ``metadata`` is written before going on to table ``goto``.
    """

    table: int
    priority: int
    match: Match
    actions: tuple[Action, ...] = ()
    goto: int | None = None
    metadata: int | None = None

    @property
    def key(self) -> RuleKey:
        """What OpenFlow identifies a rule by within its switch."""
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
    """Everything of ours on one switch."""

    rules: Mapping[RuleKey, Rule] = field(default_factory=dict)
    groups: Mapping[int, Group] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rules)

    @cached_property
    def classifier(self) -> Classifier:
        """Finds the rule that a packet meets."""
        return Classifier(self.rules.values())


@dataclass(frozen=True)
class RuleSet:
    """Rules by datapath id."""

    switches: Mapping[int, SwitchRules] = field(default_factory=dict)

    def __getitem__(self, dpid: int) -> SwitchRules:
        return self.switches.get(dpid, EMPTY)

    def __iter__(self) -> Iterator[int]:
        return iter(self.switches)

    @property
    def n_rules(self) -> int:
        return sum(len(switch.rules) for switch in self.switches.values())


EMPTY = SwitchRules()


def port_bucket(port: int, actions: tuple[Action, ...] = ()) -> Bucket:
    """The bucket that does something and sends out of a port, while the port is live."""
    return Bucket((*actions, Output(port)), watch_port=port)


def match(**fields: MatchValue) -> Match:
    """A match from OpenFlow field names: ``match(eth_type=0x800, ipv4_dst="10.0.1.1")``."""
    return tuple(sorted(fields.items()))


class Builder:
    """Collects the rules and groups of one switch; compilers share one, so that equal groups are one."""

    def __init__(self) -> None:
        self._rules: dict[RuleKey, Rule] = {}
        self._groups: dict[int, Group] = {}

    def add(self, rule: Rule) -> None:
        """Add a rule.

        Raises:
            ValueError: another rule has the same table, priority and match: one of the two would vanish.
        """
        if self._rules.setdefault(rule.key, rule) != rule:
            raise ValueError(f"two rules for {rule.key}")

    def group(self, kind: str, buckets: Iterable[Bucket]) -> int:
        """The id of the group with this content, made when it is not there yet."""
        content = tuple(buckets)
        # A checksum of the content names the group; on the rare clash the next free id. Python's own hash() would
        # differ between two runs of the controller, and a restart would rewrite every group.
        number = zlib.crc32(repr((kind, content)).encode()) & ~GROUP_MASK & 0xFFFFFFFF
        while True:
            group = Group(GROUP_BASE | number, kind, content)
            if self._groups.setdefault(group.id, group) == group:
                return group.id
            number = (number + 1) & ~GROUP_MASK & 0xFFFFFFFF

    def build(self) -> SwitchRules:
        return SwitchRules(dict(self._rules), dict(self._groups))


class Changes(NamedTuple):
    """What turns one switch's rules into another's, in the order in which it must be sent."""

    new_groups: tuple[Group, ...]
    put_rules: tuple[Rule, ...]
    removed_rules: tuple[Rule, ...]
    removed_groups: tuple[Group, ...]

    def __bool__(self) -> bool:
        return any(self)


def difference(have: SwitchRules, want: SwitchRules) -> Changes:
    """The changes from ``have`` to ``want``; groups that other groups lead to come first (and go last)."""
    new = [group for id_, group in want.groups.items() if have.groups.get(id_) != group]
    gone = [group for id_, group in have.groups.items() if want.groups.get(id_) != group]
    return Changes(
        tuple(sorted(new, key=_nesting)),
        tuple(rule for key, rule in want.rules.items() if have.rules.get(key) != rule),
        tuple(rule for key, rule in have.rules.items() if key not in want.rules),
        tuple(sorted(gone, key=_nesting, reverse=True)),
    )


def by_nesting(groups: Iterable[Group]) -> list[list[Group]]:
    """Sorted groups, cut where those that lead to others begin or end: none leads to another of its own part."""
    return [list(part) for _, part in itertools.groupby(groups, key=_nesting)]


def _nesting(group: Group) -> int:
    return int(any(bucket.watch_group is not None for bucket in group.buckets))
