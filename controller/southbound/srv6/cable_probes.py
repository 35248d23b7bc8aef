"""Probes of single cables, which agents send besides those of their flows: no plan changes them.

Some hosts of each leaf probe each of its uplinks by two packets to themselves:

- one turns around at the switch above, so only this cable can lose it;
- one goes on to another leaf, turns around there, and comes back by the same cables.

A leaf passes over a switch to which its own end of the cable shows no signal, and then the first packet never leaves
the leaf. So its loss says which cable loses packets, but its return says nothing. The second one comes back only if its
cables carry packets both ways, with one exception: where both leaves see that their cables to the switch are down (it
has no power, say), both pass over it, and the probe comes back by another switch, as packets of flows do. Where two
switches have several cables, they take another one for that of which they see that it is down; then, only silent losses
show.

So a third packet, a *bypass probe*, names the switch above and then the host at once. The switch above does not know
that id, and drops it. It comes back only if the leaf passes over the switch: then the cable is down. As long as it does
not come back, the first two have gone where they should. Where a leaf has several cables to a switch, it takes another
of them, so no probe shows that one of them works.

In three layers, hosts below an aggregation switch probe its cables to cores by packets that turn around at the core: a
carrier has no room for those of the second kind. An aggregation switch passes over a core, too, and nothing shows that.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from ipaddress import IPv6Address

from controller.southbound.srv6.segment_ids import SegmentIds

PROBERS = 3
"""Hosts that probe a cable, where a leaf has so many."""


class CableProbes:
    """Says which probes each host sends. What is common to hosts is computed once; any thread may call it."""

    def __init__(self, ids: SegmentIds) -> None:
        """Look up the cables of switches and the hosts of leaves."""
        fabric = ids.fabric
        self._ids, self._tier = ids, fabric.cable_tier.tolist()
        self._lower, self._upper = fabric.cable_lower.tolist(), fabric.cable_upper.tolist()
        self._number = fabric.cable_number.tolist()
        self._up: dict[tuple[int, int], list[int]] = defaultdict(list)
        self._down: dict[tuple[int, int], list[int]] = defaultdict(list)
        for cable, tier in enumerate(self._tier):
            self._up[tier, self._lower[cable]].append(cable)
            self._down[tier + 1, self._upper[cable]].append(cable)
        self._alone = {cable for cables in self._up.values() for cable in self._single(cables)}
        self._leaf: list[int] = fabric.host_leaf.tolist()
        self._place: list[int] = []
        self._hosts = [0] * fabric.n_leaves
        for leaf in self._leaf:
            self._place.append(self._hosts[leaf])
            self._hosts[leaf] += 1

    def of(self, host: int) -> tuple[IPv6Address, ...]:
        """Return the addresses of the probes of a host."""
        leaf, place = self._leaf[host], self._place[host]
        own, hosts = self._ids.host(host, inner=6), self._hosts[leaf]
        ways: list[tuple[int, ...]] = []
        for number, cable in enumerate(self._up.get((0, leaf), ())):
            turn = (place - number) % hosts
            if turn < PROBERS:
                ways.append((self._above(cable), self._below(cable), own))
                ways += self._by_other_leaf(cable, number + turn, own)
            ways += self._to_cores(cable, leaf, place, own)
        return tuple(map(self._ids.address, dict.fromkeys(ways)))

    def bypasses(self, host: int) -> tuple[IPv6Address, ...]:
        """Return the addresses of bypass probes of a host: they come back only where its leaf passes over a switch."""
        own = self._ids.host(host, inner=6)
        cables = [cable for cable in self._probed(host) if cable in self._alone]
        return tuple(self._ids.address((self._above(cable), own)) for cable in cables)

    def _probed(self, host: int) -> list[int]:
        """Return the uplinks of its leaf that a host probes."""
        leaf, place = self._leaf[host], self._place[host]
        cables, hosts = self._up.get((0, leaf), ()), self._hosts[leaf]
        return [cable for number, cable in enumerate(cables) if (place - number) % hosts < PROBERS]

    def _single(self, cables: list[int]) -> list[int]:
        """Return those of the cables of a switch that are its only one to another switch."""
        uppers = Counter(self._upper[cable] for cable in cables)
        return [cable for cable in cables if uppers[self._upper[cable]] == 1]

    def _by_other_leaf(self, cable: int, choice: int, own: int) -> list[tuple[int, ...]]:
        """Return the way over a cable, down to another leaf, and back; probers of a cable choose unlike leaves."""
        leaf = self._lower[cable]
        others = [each for each in self._down[1, self._upper[cable]] if self._lower[each] != leaf]
        if not others:
            return []
        down = others[(leaf + choice) % len(others)]
        return [(self._above(cable), self._below(down), self._above(down), self._below(cable), own)]

    def _to_cores(self, cable: int, leaf: int, place: int, own: int) -> list[tuple[int, ...]]:
        """Return this host's share of the ways over a cable to a switch with uplinks, over those, and back."""
        above = self._upper[cable]
        uplinks = self._up.get((1, above), ())
        if not uplinks:
            return []
        leaves = list(dict.fromkeys(self._lower[each] for each in self._down[1, above]))
        at = leaves.index(leaf)
        ways: list[tuple[int, ...]] = []
        for number, uplink in enumerate(uplinks):
            for turn in range(PROBERS):
                round_, its_leaf = divmod(number + turn, len(leaves))
                if its_leaf == at and round_ % self._hosts[leaf] == place:
                    out = self._above(cable), self._above(uplink)
                    ways.append((*out, self._below(uplink), self._below(cable), own))
        return ways

    def _above(self, cable: int) -> int:
        """Return the id of the upper switch over a cable."""
        return self._ids.over_cable(self._tier[cable] + 1, self._upper[cable], self._number[cable])

    def _below(self, cable: int) -> int:
        """Return the id of the lower switch over a cable."""
        return self._ids.over_cable(self._tier[cable], self._lower[cable], self._number[cable])
