"""The static rules for what goes to leaves and pods, up and down: those that switches have in common are one object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from controller.model.fabric import Fabric
from controller.southbound.forwarding.destinations import Destinations
from controller.southbound.forwarding.next_hops import NextHops, Switches
from controller.southbound.rules.priorities import POD_PREFIX, PREFIX
from controller.southbound.rules.rule import Action, Bundle, Match, Output, Rule, RuleKey, ToGroup, port_bucket
from controller.southbound.rules.rule_set import RuleBuilder

Matches = list[list[Match]]
"""[D] the matches of everything that goes to a destination."""


class Upwards:
    """The rules of the switches of one layer, below the top, for what goes up from them.

    Leaves of a switch's own pod have a rule each; another pod has one, and so has each leaf there that is not reached
    by the same uplinks as most of its pod (RIFT's negative disaggregation, RFC 9692, section 6.5).
    """

    def __init__(
        self, layer: int, to: Destinations, hops: tuple[NextHops, NextHops], shared: SharedRules, ecmp_action: str
    ) -> None:
        """Group the leaves. ``hops``: by the cables in use, and by those for packets that are on their way."""
        self._layer, self._to, self._shared, self._ecmp_action = layer, to, shared, ecmp_action
        self._hops, self._past = hops
        self._in_pod = [self._alike(leaves) for leaves in to.leaves_of]
        self._usual: list[int] = []
        self._other: list[tuple[int, int]] = []
        for groups in filter(None, self._in_pod):
            usual = max(groups, key=len)
            self._usual.append(usual[0])
            self._other += [(leaf, usual[0]) for leaves in groups if leaves is not usual for leaf in leaves]
        pod_of = to.pod_of_leaf
        self._pods = [
            (leaves[0], tuple(to.pod(pod_of[leaf]) for leaf in leaves)) for leaves in self._alike(self._usual)
        ]

    def _alike(self, leaves: Iterable[int]) -> list[tuple[int, ...]]:
        """Return groups of the leaves that are reached by the same switches of the layer above."""
        alike: dict[tuple[Switches, Switches], list[int]] = {}
        for leaf in leaves:
            key = (self._hops.reached_by(leaf, self._layer + 1), self._past.reached_by(leaf, self._layer + 1))
            alike.setdefault(key, []).append(leaf)
        return list(map(tuple, alike.values()))

    def add(self, x: int, below: set[int], builder: RuleBuilder) -> None:
        """Add the rules of a switch; ``below``: the leaves to which it has other rules."""
        own = self._to.pod_of(self._layer, x)
        for leaves in self._in_pod[own]:
            ports = self._ports(x, leaves[0]) if not below.issuperset(leaves) else ()
            if ports:
                builder.add_all(self._shared.to_each(leaves, below, self._spread(builder, ports)))
        for leaf, pods in self._pods:
            ports = self._ports(x, leaf) if pods != (self._to.pod(own),) else ()
            if ports:
                builder.add_all(self._shared.to_each(pods, {self._to.pod(own)}, self._spread(builder, ports)))
        for leaf, usual in self._other:
            ports = self._ports(x, leaf)
            if self._to.pod_of_leaf[leaf] != own and ports != self._ports(x, usual):
                builder.add_all(self._shared.to(leaf, self._spread(builder, ports) if ports else ()))

    def _ports(self, x: int, leaf: int) -> tuple[int, ...]:
        return self._hops.ports(x, leaf, self._layer) or self._past.ports(x, leaf, self._layer)

    def _spread(self, builder: RuleBuilder, ports: tuple[int, ...]) -> tuple[Action, ...]:
        return spread(builder, ports, self._ecmp_action)


class Downwards:
    """The rules of the switches above the leaves for what is below them, spread over parallel cables."""

    def __init__(self, fabric: Fabric, usable: Fabric, shared: SharedRules, ecmp_action: str) -> None:
        """Look up ports. ``fabric``: with those that are known; ``usable``: without the cables that are drained."""
        self._shared, self._ecmp_action = shared, ecmp_action
        # Cables that are drained come last.
        self._usable, self._known = (
            [cable.upper_port if cable.up else None for cable in each.cables] for each in (usable, fabric)
        )

    def add(self, cables_to: Mapping[int, list[int]], priority: int | None, builder: RuleBuilder) -> set[int]:
        """Add the rules of a switch and return what it so reaches; ``priority`` as in ``SharedRules.to``."""
        ends = []
        for end, cables in cables_to.items():
            ports = self._ports(self._usable, cables) or self._ports(self._known, cables)
            if ports:
                ends.append((end, spread(builder, ports, self._ecmp_action)))
        # The switches of a plane mostly have the same cables.
        builder.add_all(self._shared.to_all(tuple(ends), priority))
        return {end for end, _ in ends}

    def _ports(self, known: list[int | None], cables: list[int]) -> tuple[int, ...]:
        return tuple([port for c in cables if (port := known[c])])


class SharedRules:
    """The rules for what goes to a destination: one object for all switches that hold the same one.

    On a large fabric nearly all rules of a leaf are those of every other leaf, too. One object saves their memory, and
    values derived from a rule, above all its bytes, are derived once.
    """

    def __init__(self, ways: Matches, n_leaves: int) -> None:
        """Begin without rules. ``ways``: [D] the matches of everything that goes to a destination."""
        self._ways, self._n_leaves = ways, n_leaves
        self._rules: dict[tuple[int, tuple[Action, ...], int], dict[RuleKey, Rule]] = {}
        self._blocks: dict[tuple[tuple[int, ...], tuple[Action, ...]], dict[RuleKey, Rule]] = {}
        self._mixed: dict[tuple[tuple[tuple[int, tuple[Action, ...]], ...], int | None], dict[RuleKey, Rule]] = {}

    def to(self, end: int, actions: tuple[Action, ...], priority: int | None = None) -> dict[RuleKey, Rule]:
        """Return rules that apply these actions to everything for a destination."""
        if priority is None:
            priority = PREFIX if end < self._n_leaves else POD_PREFIX
        rules_of_end = self._rules.get((end, actions, priority))
        if rules_of_end is None:
            rules = (Rule(0, priority, fields, actions) for fields in self._ways[end])
            rules_of_end = self._rules[end, actions, priority] = {rule.key: rule for rule in rules}
        return rules_of_end

    def to_each(self, ends: tuple[int, ...], but: set[int], actions: tuple[Action, ...]) -> dict[RuleKey, Rule]:
        """Return the same rules for several destinations, without some (which may be none of them)."""
        block = self._blocks.get((ends, actions))
        if block is None:
            block = self._blocks[ends, actions] = {}
            for end in ends:
                block.update(self.to(end, actions))
        left_out = but.intersection(ends)
        if not left_out:
            return block
        rest = block.copy()
        for end in left_out:
            for key in self.to(end, actions):
                del rest[key]
        return rest

    def to_all(self, to: tuple[tuple[int, tuple[Action, ...]], ...], priority: int | None) -> dict[RuleKey, Rule]:
        """Return rules that apply to everything for each of these destinations the actions beside it."""
        block = self._mixed.get((to, priority))
        if block is None:
            block = self._mixed[to, priority] = {}
            for end, actions in to:
                block.update(self.to(end, actions, priority))
        return block


def spread(builder: RuleBuilder, ports: tuple[int, ...], ecmp_action: str) -> tuple[Action, ...]:
    """Return the actions that spread packets over ports by their 5-tuple."""
    if len(ports) == 1:
        return output(ports[0])
    if ecmp_action == "bundle":
        return (Bundle(ports),)
    return (ToGroup(builder.group("select", map(port_bucket, ports))),)


@lru_cache(maxsize=4096)
def output(port: int) -> tuple[Action, ...]:
    """Return the action that sends out of a port. One object for all rules."""
    return (Output(port),)
