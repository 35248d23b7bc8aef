"""Inference, from port counters, of the uplinks that hashes picked for a flow.

A switch that hashes does not report the uplink of a flow. But the bytes that each uplink has carried between two
readings are known, and so are the bytes that each flow has sent (``sent_bytes``): only some placements of flows on
uplinks explain both.

Placed together are the flows of one leaf; in three layers those of one pod, on the uplinks of its leaves and of its
aggregation switches, since the leaves' flows share the latter. These uplinks carry no other flows.

The placements are counted; flows with the same size and the same choices are interchangeable. The confidence that a
flow takes a way is the fraction of placements that have it there. A bound that needs no counting is applied first: a
flow is not on a link that has carried fewer bytes than the flow sent.

Where flows collide, packets may be lost, and are counted on one side only. The bytes that a switch has received and not
forwarded limit how many bytes any of its flows may lack further on; flow sizes that were derived from received bytes
are then estimates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from controller.model.fabric import Fabric
from controller.telemetry.sent_bytes import SLACK, Sent
from controller.telemetry.trace import Links, Traced, TraceInputs, uplinks

ALIKE = 0.03
"""Flows whose sizes differ by less than this fraction count as equal in size."""

MOST_NODES = 20_000
"""Limit on the steps of counting placements; beyond it, only the bound is used."""

ESTIMATED_MOST = 0.9
"""Largest confidence of a flow where sizes had to be estimated."""


@dataclass(frozen=True)
class HashedPaths:
    """The inferred choice of a hash for one row.

    Attributes:
        way: index into the row's ways, taken from a placement that explains the counters of all uplinks; ``None`` if
            there is none.
        sure: the fraction of all such placements that have the row on this way; or, if they are too many to count, one
            over the number of ways that the bound leaves.
        possible: indices of the ways that are left.
        why: the reason in words if there is no way.
    """

    way: int | None
    sure: float
    possible: tuple[int, ...]
    why: str = ""


def infer(situation: TraceInputs, traced: Sequence[Traced], sizes: Sent) -> dict[int, HashedPaths]:
    """Return the inferred choice of each row that is hashed, by row."""
    fabric = situation.fabric
    leaf = fabric.host_leaf[situation.traffic.src[situation.wire.flow]]
    below = fabric.pod_of_leaf[leaf] if len(fabric.layers) > 2 else leaf
    names = fabric.pod_names or tuple(fabric.leaf_index)
    paths: dict[int, HashedPaths] = {}
    for group in np.unique(below).tolist():
        rows = np.flatnonzero(below == group).tolist()
        if any(len(traced[row].ways) > 1 for row in rows):
            paths |= _Group(fabric, names[group], {row: int(leaf[row]) for row in rows}, traced, sizes).choices()
    return paths


@dataclass
class _Class:
    """Flows of nearly equal size that can take the same ways: by way, the uplinks on it."""

    ways: tuple[int, ...]
    ups: tuple[Links, ...]
    rows: list[int] = field(default_factory=list)
    total: float = 0.0

    @property
    def size(self) -> float:
        return self.total / len(self.rows)


class _Group:
    """The flows of a leaf or pod, and the bytes that its uplinks have carried."""

    def __init__(
        self, fabric: Fabric, name: str, leaf: Mapping[int, int], traced: Sequence[Traced], sizes: Sent
    ) -> None:
        """Take the group's rows, with the leaf from which each comes."""
        self._fabric, self._name, self._leaf, self._traced, self._sizes = fabric, name, leaf, traced, sizes
        self._numbers = {switch.name: n for n, switch in enumerate(fabric.switches)}
        self._hashed = [row for row in leaf if len(traced[row].ways) > 1]
        # Losses are known by the switches below which the flows are the same: a leaf, or all above it in the pod.
        part: dict[int, tuple[int, int]] = {}
        sent: dict[tuple[int, int], float] = {(0, each): 0.0 for each in leaf.values()}
        for row in self._hashed:
            own: dict[int, tuple[int, int]] = {}
            for way in traced[row].ways:
                own |= {up: (tier, 0 if tier else leaf[row]) for tier, up in enumerate(uplinks(fabric, way.links))}
            part |= own
            for each in {*own.values(), (0, leaf[row])}:
                sent[each] = sent.get(each, 0.0) + float(sizes.row[row])
        # One estimated size makes the result an estimate for all flows, since they share the uplinks.
        self._estimated = bool(sizes.estimated[list(leaf)].any())
        self._left = {up: float(sizes.link[up]) for up in sorted(part)}
        self._slack = {up: SLACK * many for up, many in self._left.items()}
        for up, each in part.items():
            sent[each] -= self._left[up]
        for row in leaf:
            only = traced[row].only
            for up in () if only is None else uplinks(fabric, only.links):
                if up in part:
                    self._left[up] -= float(sizes.row[row])
                    sent[part[up]] += float(sizes.row[row])
        # Bytes that flows have sent and the uplinks of a part have not carried.
        self._lost_on = {each: max(many, 0.0) for each, many in sent.items()}
        self._lost = {up: self._lost_on[each] for up, each in part.items()}

    def choices(self) -> dict[int, HashedPaths]:
        unknown = [up for up, many in self._left.items() if math.isnan(many)]
        sizes = self._sizes.row[self._hashed]
        if unknown or np.isnan(sizes).any():
            return self._nothing("two readings of counters are required to infer its path")
        largest = float(sizes.max(initial=0.0))
        idle = [row for row, size in zip(self._hashed, sizes, strict=True) if size <= SLACK * largest or size == 0]
        paths = {row: self._none(row, "it sent too little between two readings to infer its path") for row in idle}
        busy = [row for row in self._hashed if row not in paths]
        if not busy:
            return paths
        bounded = {row: self._bounded(row) for row in busy}
        if not all(bounded.values()):
            return paths | self._unfit()
        classes = self._classes(busy, bounded)
        spare = 0.1 * min(each.size for each in classes) + float(self._sizes.row[idle].sum())
        count = _Count(classes, self._left, {up: slack + spare for up, slack in self._slack.items()}, self._lost)
        if count.run():
            if not count.total:
                return paths | self._unfit()
            return paths | self._counted(classes, count)
        return paths | {row: self._by_bound(row, ways) for row, ways in bounded.items()}

    def _bounded(self, row: int) -> tuple[int, ...]:
        """Return the ways of a row whose cables have all carried at least the bytes it sent, minus earlier losses."""
        size = float(self._sizes.row[row]) * (1 - 2 * SLACK) - self._lost_on[0, self._leaf[row]]
        return tuple(
            index for index, way in enumerate(self._traced[row].ways) if not self._carried_less(way.links, size)
        )

    def _carried_less(self, links: Links, size: float) -> bool:
        """Return whether a cable on the way has carried fewer bytes than ``size``; cables without counters do not."""
        fabric, carried = self._fabric, self._sizes.link
        for link in links:
            if link < fabric.first_cable_link:
                continue
            size -= float(self._sizes.lost[self._sender(link)])
            if carried[link] < size:
                return True
        return False

    def _sender(self, link: int) -> int:
        """Return the number of the switch that sends on a link between switches."""
        cable = self._fabric.cables[(link - self._fabric.first_cable_link) // 2]
        return self._numbers[cable.upper if link % 2 else cable.lower]

    def _classes(self, rows: list[int], bounded: Mapping[int, tuple[int, ...]]) -> list[_Class]:
        """Group rows into classes, largest flows first, since these leave the fewest placements."""
        classes: list[_Class] = []
        newest: dict[tuple[tuple[Links, ...], tuple[int, ...]], _Class] = {}
        for row in sorted(rows, key=lambda row: -self._sizes.row[row]):
            ways, size = bounded[row], float(self._sizes.row[row])
            ups = tuple(uplinks(self._fabric, self._traced[row].ways[way].links) for way in ways)
            one = newest.get((ups, ways))
            if one is None or size < one.size * (1 - ALIKE):
                one = newest[ups, ways] = _Class(ways, ups)
                classes.append(one)
            one.rows.append(row)
            one.total += size
        return classes

    def _counted(self, classes: list[_Class], count: _Count) -> dict[int, HashedPaths]:
        paths = {}
        for k, one in enumerate(classes):
            places = [j for j, many in enumerate(count.first[k]) for _ in range(many)]
            # These integers may exceed the range of a float.
            part = [there / (count.total * len(one.rows)) for there in count.there[k]]
            possible = tuple(way for way, there in zip(one.ways, count.there[k], strict=True) if there)
            for row, j in zip(one.rows, places, strict=True):
                if self._estimated:
                    every = tuple(range(len(self._traced[row].ways)))
                    paths[row] = HashedPaths(one.ways[j], min(part[j], ESTIMATED_MOST), every)
                else:
                    paths[row] = HashedPaths(one.ways[j], part[j], possible)
        return paths

    def _by_bound(self, row: int, ways: tuple[int, ...]) -> HashedPaths:
        if len(ways) == 1 and not self._estimated:
            return HashedPaths(ways[0], 1.0, ways)
        return HashedPaths(None, 1.0 / len(ways), ways, f"there are too many placements of the flows of {self._name}")

    def _nothing(self, why: str) -> dict[int, HashedPaths]:
        return {row: self._none(row, why) for row in self._hashed}

    def _unfit(self) -> dict[int, HashedPaths]:
        why = f"no placement of the flows of {self._name} explains the counters of its uplinks: there is other traffic"
        return self._nothing(why)

    def _none(self, row: int, why: str) -> HashedPaths:
        return HashedPaths(None, 0.0, tuple(range(len(self._traced[row].ways))), why)


class _Count:
    """Counter of the placements of flow classes on uplinks that agree with the bytes each uplink has carried.

    Attributes:
        total: number of placements.
        there: by class and uplink, the number of flows of the class on it, summed over all placements.
        first: one placement: by class and uplink, the number of flows.
    """

    def __init__(
        self,
        classes: list[_Class],
        left: Mapping[int, float],
        slack: Mapping[int, float],
        lost: Mapping[int, float],
    ) -> None:
        """Prepare the count.

        Args:
            classes: the classes of flows, largest first.
            left: bytes of each uplink that the flows must explain.
            slack: tolerance of ``left`` in bytes, by uplink.
            lost: bytes that flows may have sent and the uplink has not carried.
        """
        self._classes, self._left, self._slack, self._lost = classes, dict(left), slack, lost
        self.total = 0
        self.there = [[0] * len(one.ups) for one in classes]
        self.first: list[tuple[int, ...]] = []
        self._now: list[tuple[int, ...]] = []
        self._nodes = 0
        # Upper bound on the bytes that later classes can add to each uplink.
        self._later: list[dict[int, float]] = [{} for _ in range(len(classes) + 1)]
        # Whether a later way of the same class has the uplink, too: by class, way and uplink of the way.
        self._again = [_again(one.ups) for one in classes]
        for k in range(len(classes) - 1, -1, -1):
            self._later[k] = dict(self._later[k + 1])
            for up in {up for ups in classes[k].ups for up in ups}:
                self._later[k][up] = self._later[k].get(up, 0.0) + classes[k].total

    def run(self) -> bool:
        """Count the placements; return whether all of them could be counted within ``MOST_NODES`` steps."""
        return self._class(0, 1)

    def _class(self, k: int, weight: int) -> bool:
        if k == len(self._classes):
            if all(-self._slack[up] - self._lost[up] <= left <= self._slack[up] for up, left in self._left.items()):
                self.total += weight
                self.first = self.first or list(self._now)
                for there, many in zip(self.there, self._now, strict=True):
                    for j, n in enumerate(many):
                        there[j] += weight * n
            return True
        return self._place(k, 0, len(self._classes[k].rows), (), weight)

    def _place(self, k: int, j: int, left: int, placed: tuple[int, ...], weight: int) -> bool:
        """Try each number of flows of class ``k`` on its j-th way; ``left`` flows are not placed yet."""
        self._nodes += 1
        if self._nodes > MOST_NODES:
            return False
        one = self._classes[k]
        if j == len(one.ups):
            if left:
                return True
            self._now.append(placed)
            done = self._class(k + 1, weight)
            self._now.pop()
            return done
        ups = one.ups[j]
        room = min((self._left[up] + self._slack[up] + self._lost[up] for up in ups), default=math.inf)
        most = left if room == math.inf else min(left, int(room / one.size)) if room > 0 else 0
        # Bytes that no later class can add must come from this class.
        least = left if j == len(one.ups) - 1 else 0
        for up, again in zip(ups, self._again[k][j], strict=True):
            if not again:
                must = self._left[up] - self._slack[up] - self._later[k + 1].get(up, 0.0)
                least = max(least, math.ceil(must / one.size))
        for many in range(least, most + 1):
            for up in ups:
                self._left[up] -= many * one.size
            done = self._place(k, j + 1, left - many, (*placed, many), weight * math.comb(left, many))
            for up in ups:
                self._left[up] += many * one.size
            if not done:
                return False
        return True


def _again(ups: Sequence[Links]) -> list[tuple[bool, ...]]:
    """Return whether each uplink of each way is on a later way, too."""
    return [tuple(any(up in later for later in ups[j + 1 :]) for up in own) for j, own in enumerate(ups)]
