"""Which uplink a hash picked for a flow, told from port counters.

A switch that hashes does not say where a flow went. But between two readings each uplink of a leaf has carried so many
bytes, and each flow has sent so many (``carried.py``): only some ways to place the leaf's flows on its uplinks explain
both.

The ways to place a leaf's flows are counted, flows of one size and choice being alike. A flow is on an uplink as
surely as the part of all these ways that has it there. The bound that needs no counting comes first: a flow is on no
link that has carried less than the flow sent.

Where flows collide, packets may be lost, and are counted on one side only. What a leaf or a spine has taken in and not
sent on is how much any of its flows may lack further on; sizes that are told by what arrived are guesses then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from controller.model.fabric import Fabric
from controller.telemetry.carried import SLACK, Sent
from controller.telemetry.trace import Links, Situation, Traced, uplink

ALIKE = 0.03
"""Flows whose sizes differ by less are of one size."""

MOST_NODES = 20_000
"""Steps of counting a leaf's ways; where there are more, only the bound is used."""

ESTIMATED_MOST = 0.9
"""No flow is surer than this where sizes had to be estimated."""


@dataclass(frozen=True)
class Choice:
    """What is known of a hash's choice for one row.

    Attributes:
        way: index into the row's ways of a placing that explains all counters of the leaf; ``None``: none does.
        sure: the part of all such placings that has it there; or (where they are too many to count) one over the
            number of ways that the bound leaves.
        possible: indices of the ways that are left.
        why: where there is no way, in words.
    """

    way: int | None
    sure: float
    possible: tuple[int, ...]
    why: str = ""


def infer(situation: Situation, traced: Sequence[Traced], sizes: Sent) -> dict[int, Choice]:
    """For each row that is hashed: what the counters say."""
    fabric = situation.fabric
    source = fabric.host_leaf[situation.traffic.src[situation.wire.flow]]
    found: dict[int, Choice] = {}
    for leaf in np.unique(source).tolist():
        rows = np.flatnonzero(source == leaf).tolist()
        if any(len(traced[row].ways) > 1 for row in rows):
            found |= _Leaf(fabric, leaf, rows, traced, sizes).choices()
    return found


@dataclass
class _Class:
    """Flows of about one size that can take the same uplinks."""

    ways: tuple[int, ...]
    ups: tuple[int, ...]
    rows: list[int] = field(default_factory=list)
    total: float = 0.0

    @property
    def size(self) -> float:
        return self.total / len(self.rows)


class _Leaf:
    """The flows of one leaf and the bytes that its uplinks have carried."""

    def __init__(self, fabric: Fabric, leaf: int, rows: list[int], traced: Sequence[Traced], sizes: Sent) -> None:
        self._fabric, self._name, self._traced, self._sizes = fabric, fabric.leaves[leaf].name, traced, sizes
        self._hashed = [row for row in rows if len(traced[row].ways) > 1]
        ups = {up for row in self._hashed for way in traced[row].ways if (up := uplink(fabric, way.links)) is not None}
        # A guess about one flow is one about the others, too: they share the uplinks.
        self._estimated = bool(sizes.estimated[rows].any())
        self._left = {up: float(sizes.link[up]) for up in sorted(ups)}
        self._slack = {up: SLACK * many for up, many in self._left.items()}
        # What its flows have sent and its uplinks have not, and the same of each spine.
        self._lost = -sum(self._left.values()) + sum(float(sizes.row[row]) for row in self._hashed)
        for row in rows:
            only = traced[row].only
            up = None if only is None else uplink(fabric, only.links)
            if up in self._left:
                self._left[up] -= float(sizes.row[row])
                self._lost += float(sizes.row[row])
        self._lost = max(self._lost, 0.0)

    def choices(self) -> dict[int, Choice]:
        unknown = [up for up, many in self._left.items() if math.isnan(many)]
        sizes = self._sizes.row[self._hashed]
        if unknown or np.isnan(sizes).any():
            return self._nothing("counters of two moments are needed to tell where")
        largest = float(sizes.max(initial=0.0))
        idle = [row for row, size in zip(self._hashed, sizes, strict=True) if size <= SLACK * largest or size == 0]
        found = {row: self._none(row, "it sent too little between two readings to tell where") for row in idle}
        busy = [row for row in self._hashed if row not in found]
        if not busy:
            return found
        bounded = {row: self._bounded(row) for row in busy}
        if not all(bounded.values()):
            return found | self._unfit()
        classes = self._classes(busy, bounded)
        spare = 0.1 * min(each.size for each in classes) + float(self._sizes.row[idle].sum())
        count = _Count(classes, self._left, {up: slack + spare for up, slack in self._slack.items()}, self._lost)
        if count.run():
            if not count.total:
                return found | self._unfit()
            return found | self._counted(classes, count)
        return found | {row: self._by_bound(row, ways) for row, ways in bounded.items()}

    def _bounded(self, row: int) -> tuple[int, ...]:
        """Ways of a row all of whose cables have carried as much as it sent, less what was lost before."""
        size = float(self._sizes.row[row]) * (1 - 2 * SLACK) - self._lost
        return tuple(
            index for index, way in enumerate(self._traced[row].ways) if not self._carried_less(way.links, size)
        )

    def _carried_less(self, links: Links, size: float) -> bool:
        """Whether a cable on the way has carried less than that; one that is not known has not."""
        fabric, carried = self._fabric, self._sizes.link
        for link in links:
            if link < fabric.first_cable_link:
                continue
            if link % 2:
                spine = int(fabric.cable_spine[(link - fabric.first_cable_link) // 2])
                size -= float(self._sizes.lost_in_spine[spine])
            if carried[link] < size:
                return True
        return False

    def _classes(self, rows: list[int], bounded: Mapping[int, tuple[int, ...]]) -> list[_Class]:
        """Large flows first: they leave the fewest ways."""
        classes: list[_Class] = []
        newest: dict[tuple[Links, tuple[int, ...]], _Class] = {}
        for row in sorted(rows, key=lambda row: -self._sizes.row[row]):
            ways, size = bounded[row], float(self._sizes.row[row])
            ups = tuple(self._up(row, way) for way in ways)
            one = newest.get((ups, ways))
            if one is None or size < one.size * (1 - ALIKE):
                one = newest[ups, ways] = _Class(ways, ups)
                classes.append(one)
            one.rows.append(row)
            one.total += size
        return classes

    def _up(self, row: int, way: int) -> int:
        up = uplink(self._fabric, self._traced[row].ways[way].links)
        return -1 if up is None else up

    def _counted(self, classes: list[_Class], count: _Count) -> dict[int, Choice]:
        found = {}
        for k, one in enumerate(classes):
            places = [j for j, many in enumerate(count.first[k]) for _ in range(many)]
            # Whole numbers, which may be larger than any float.
            part = [there / (count.total * len(one.rows)) for there in count.there[k]]
            possible = tuple(way for way, there in zip(one.ways, count.there[k], strict=True) if there)
            for row, j in zip(one.rows, places, strict=True):
                if self._estimated:
                    every = tuple(range(len(self._traced[row].ways)))
                    found[row] = Choice(one.ways[j], min(part[j], ESTIMATED_MOST), every)
                else:
                    found[row] = Choice(one.ways[j], part[j], possible)
        return found

    def _by_bound(self, row: int, ways: tuple[int, ...]) -> Choice:
        if len(ways) == 1 and not self._estimated:
            return Choice(ways[0], 1.0, ways)
        return Choice(None, 1.0 / len(ways), ways, "there are too many ways to place its leaf's flows")

    def _nothing(self, why: str) -> dict[int, Choice]:
        return {row: self._none(row, why) for row in self._hashed}

    def _unfit(self) -> dict[int, Choice]:
        why = f"no placing of the flows of {self._name} explains its uplinks' counters: other traffic is there, too"
        return self._nothing(why)

    def _none(self, row: int, why: str) -> Choice:
        return Choice(None, 0.0, tuple(range(len(self._traced[row].ways))), why)


class _Count:
    """Counts the ways to place classes of flows on uplinks so that each uplink carries what it has carried.

    Attributes:
        total: ways.
        there: by class and place, how many flows of the class are there, over all ways.
        first: one of the ways: by class and place, how many flows.
    """

    def __init__(
        self, classes: list[_Class], left: Mapping[int, float], slack: Mapping[int, float], lost: float
    ) -> None:
        """
        Args:
            left: bytes of each uplink that flows must explain; ``slack``: more or less.
            lost: bytes that flows may have sent and no uplink has carried.
        """
        self._classes, self._left, self._slack, self._lost = classes, dict(left), slack, lost
        self.total = 0
        self.there = [[0] * len(one.ups) for one in classes]
        self.first: list[tuple[int, ...]] = []
        self._now: list[tuple[int, ...]] = []
        self._nodes = 0
        # What later classes may still bring to each uplink, at most.
        self._later: list[dict[int, float]] = [{} for _ in range(len(classes) + 1)]
        for k in range(len(classes) - 1, -1, -1):
            self._later[k] = dict(self._later[k + 1])
            for up in classes[k].ups:
                self._later[k][up] = self._later[k].get(up, 0.0) + classes[k].total

    def run(self) -> bool:
        """Whether all ways could be counted."""
        return self._class(0, 1)

    def _class(self, k: int, weight: int) -> bool:
        if k == len(self._classes):
            if all(-self._slack[up] - self._lost <= left <= self._slack[up] for up, left in self._left.items()):
                self.total += weight
                self.first = self.first or list(self._now)
                for there, many in zip(self.there, self._now, strict=True):
                    for j, n in enumerate(many):
                        there[j] += weight * n
            return True
        return self._place(k, 0, len(self._classes[k].rows), (), weight)

    def _place(self, k: int, j: int, left: int, placed: tuple[int, ...], weight: int) -> bool:
        """Try how many of a class go to its j-th place, ``left`` of them being without one."""
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
        up = one.ups[j]
        room = self._left[up] + self._slack[up] + self._lost
        most = min(left, int(room / one.size)) if room > 0 else 0
        # What no later class can bring has to come from this one.
        least = max(0, math.ceil((self._left[up] - self._slack[up] - self._later[k + 1].get(up, 0.0)) / one.size))
        if j == len(one.ups) - 1:
            least = max(least, left)
        for many in range(least, most + 1):
            self._left[up] -= many * one.size
            done = self._place(k, j + 1, left - many, (*placed, many), weight * math.comb(left, many))
            self._left[up] += many * one.size
            if not done:
                return False
        return True
