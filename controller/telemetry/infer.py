"""Which uplink a hash picked for a flow, told from port counters.

A switch that hashes does not say where a flow went. But between two readings each uplink of a leaf has carried so many
bytes, and each flow has sent so many: only some ways to place the leaf's flows on its uplinks explain both.

What a flow has sent is known from its own rule's counter, where it has one; else from host links: where all flows of a
host but one are known, the rest of what the host sent (or received) is that one's, again and again until nothing more
follows. What is left is estimated: flows of one host share what it sent in proportion to their bytes.

Then the ways to place a leaf's flows are counted, flows of one size and choice being alike. A flow is on an uplink as
surely as the part of all these ways that has it there. The bound that needs no counting comes first: a flow is on no
link that has carried less than the flow sent.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.telemetry.counts import SwitchCount
from controller.telemetry.trace import Links, Situation, Traced, uplink

SLACK = 0.03
"""Counters of one moment disagree by so much of what they count: packets are on their way, others (ARP) mix in."""

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


@dataclass(frozen=True)
class Between:
    """What links have carried between two readings.

    Attributes:
        bytes: [E] that left by each directed link; NaN: not known, or counters have begun anew.
        seconds: [E] between the two; NaN where bytes are.
    """

    bytes: FloatArray
    seconds: FloatArray


@dataclass(frozen=True)
class Sent:
    """Between two readings.

    Attributes:
        link: [E] bytes that left by each link, NaN where that is not known.
        row: [R] bytes of each row of the wire.
        estimated: [R] whether that is a guess.
    """

    link: FloatArray
    row: FloatArray
    estimated: IntArray


def between(fabric: Fabric, before: Mapping[int, SwitchCount], now: Mapping[int, SwitchCount]) -> Between:
    """What links have carried between two readings.

    Of the two ends of a cable the sender's counter is taken, or the receiver's where the sender is not read.
    """
    found = np.full((2, fabric.n_links), np.nan)
    dpid = {switch.name: switch.dpid for switch in (*fabric.leaves, *fabric.spines)}

    def counted(switch: str, port: int | None, *, sent: bool) -> tuple[float, float]:
        old, new = before.get(dpid[switch]), now.get(dpid[switch])
        if old is None or new is None or port is None or port not in old.ports or port not in new.ports:
            return math.nan, math.nan
        one, other = old.ports[port], new.ports[port]
        many = other.tx_bytes - one.tx_bytes if sent else other.rx_bytes - one.rx_bytes
        return (float(many), new.at - old.at) if many >= 0 and new.at > old.at else (math.nan, math.nan)

    for h, host in enumerate(fabric.hosts):
        found[:, h] = counted(host.leaf, host.port, sent=False)
        found[:, fabric.n_hosts + h] = counted(host.leaf, host.port, sent=True)
    for c, cable in enumerate(fabric.cables):
        ends = ((cable.leaf, cable.leaf_port), (cable.spine, cable.spine_port))
        for link, (sender, receiver) in enumerate((ends, ends[::-1]), fabric.first_cable_link + 2 * c):
            many = counted(*sender, sent=True)
            found[:, link] = counted(*receiver, sent=False) if math.isnan(many[0]) else many
    return Between(found[0], found[1])


def sent(situation: Situation, link: FloatArray, own: FloatArray) -> Sent:
    """What each row has sent.

    Args:
        link: [E] bytes that left by each link (``between``).
        own: [R] bytes that a rule of the row's own has counted meanwhile, NaN where it has none.
    """
    traffic, wire, n_hosts = situation.traffic, situation.wire, situation.fabric.n_hosts
    row = own.copy()
    ends = (traffic.src[wire.flow], n_hosts + traffic.dst[wire.flow])
    rest = {int(end): float(link[end]) for column in ends for end in np.unique(column)}
    open_: dict[int, set[int]] = defaultdict(set)
    for r, (src, dst) in enumerate(zip(*(column.tolist() for column in ends), strict=True)):
        for end in (src, dst):
            if math.isnan(row[r]):
                open_[end].add(r)
            else:
                rest[end] -= row[r]
    ready = [end for end, rows in open_.items() if len(rows) == 1 and not math.isnan(rest[end])]
    while ready:
        end = ready.pop()
        if len(open_[end]) != 1:
            continue
        (r,) = open_[end]
        row[r] = max(rest[end], 0.0)
        for other in (int(ends[0][r]), int(ends[1][r])):
            open_[other].discard(r)
            rest[other] -= row[r]
            if len(open_[other]) == 1 and not math.isnan(rest[other]):
                ready.append(other)
    left = np.flatnonzero(np.isnan(row))
    weight = traffic.bytes[wire.flow[left]] * wire.share[left]
    total = np.bincount(ends[0][left], weights=weight, minlength=n_hosts)
    of_host = np.array([max(rest.get(h, math.nan), 0.0) for h in range(n_hosts)])
    row[left] = of_host[ends[0][left]] * weight / total[ends[0][left]]
    estimated = np.zeros(len(row), dtype=np.int32)
    estimated[left] = 1
    return Sent(link, row, estimated)


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
        for row in rows:
            only = traced[row].only
            up = None if only is None else uplink(fabric, only.links)
            if up in self._left:
                self._left[up] -= float(sizes.row[row])

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
        count = _Count(classes, self._left, {up: slack + spare for up, slack in self._slack.items()})
        if count.run():
            if not count.total:
                return found | self._unfit()
            return found | self._counted(classes, count)
        return found | {row: self._by_bound(row, ways) for row, ways in bounded.items()}

    def _bounded(self, row: int) -> tuple[int, ...]:
        """Ways of a row all of whose cables have carried as much as it sent."""
        size = float(self._sizes.row[row]) * (1 - 2 * SLACK)
        first = self._fabric.first_cable_link
        return tuple(
            index
            for index, way in enumerate(self._traced[row].ways)
            # A link that is not known excludes nothing.
            if not any(self._sizes.link[link] < size for link in way.links if link >= first)
        )

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

    def __init__(self, classes: list[_Class], left: Mapping[int, float], slack: Mapping[int, float]) -> None:
        self._classes, self._left, self._slack = classes, dict(left), slack
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
            if all(abs(left) <= self._slack[up] for up, left in self._left.items()):
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
        room = self._left[up] + self._slack[up]
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
