"""Least times by prices of links: milliseconds where the linear program takes seconds or minutes.

The time is never less than the narrowest cut requires. In three layers, what leaves a pod over one of its switches is
limited by the cables below that switch as well as by those above, so a pod's cut is the sum of the lesser of both
(``PodCut``). A spread of the demands that fits into the time of the narrowest cut proves that this is the least time
(``kernels.levels.priced_spread``).

Of choices that nobody can distinguish (``Fabric.choice_kinds``), one stands for all.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.model.fabric import BoolArray, Fabric, FloatArray, IntArray
from controller.model.paths.cuts import CutLinks
from controller.model.paths.ways import LinkTable
from controller.model.tolerances import ROUNDING, SOLVER_GAP
from controller.routing.kernels.levels import priced_spread

MOST_TIERS = 2
"""Most tiers of cables that the kernels know."""

MOST_ROUNDS = 600
"""Rounds of the search for a spread."""

ROUNDS_AT_ONCE = 200
"""Rounds after which prices are asked for a longer time than that of the cuts."""

MOST_ENTRIES = 20_000_000
"""Pairs and choices that all rounds examine together: some 80 ms."""

Numbers = NDArray[np.int64]


class LeastTime(NamedTuple):
    """What is known of the least time.

    Attributes:
        at_least: no spread takes fewer seconds.
        at_most: some spread takes so many; infinite where none was found.
    """

    at_least: float
    at_most: float

    @property
    def exact(self) -> bool:
        """Whether both are equal, but for the error that a solver has, too."""
        return self.at_most <= self.at_least * (1 + 2 * SOLVER_GAP)


class PodCut(NamedTuple):
    """One direction of the cut of pods, by the switches of the pods through which it leads.

    Attributes:
        gbps: [pods] sum over its switches of the lesser capacity: that of the cables below or above the switch.
        limits_below: [leaves, J] cables whose switch has no more capacity below than above.
        limits_above: [switches] whether a switch has no more capacity above than below.
        pod: [switches] pod of each switch, -1: none.
    """

    gbps: FloatArray
    limits_below: BoolArray
    limits_above: BoolArray
    pod: Numbers


class PricedTimes:
    """Least times on one fabric."""

    def __init__(self, fabric: Fabric) -> None:
        """Take the fabric, of which live cables count."""
        self._fabric = fabric
        self._ways = fabric.live_ways
        self._tiers = [self._ways.tier(number) for number in range(self._ways.n_tiers)]

    def least_time(
        self, src: IntArray, dst: IntArray, gbit: FloatArray, at_least: float = 0.0, rounds: int = MOST_ROUNDS
    ) -> LeastTime:
        """Return bounds of the least seconds in which demands fit through the cables, split at will.

        Args:
            src: [N] source leaf of each demand.
            dst: [N] destination leaf of each demand, joined to the source by at least one live path.
            gbit: [N] size of each demand.
            at_least: seconds that other links require, which are not looked at.
            rounds: most rounds of the search.
        """
        if self._ways.n_tiers > MOST_TIERS or not len(src):
            return LeastTime(at_least, np.inf if len(src) else at_least)
        n_leaves = self._fabric.n_leaves
        key, number = np.unique(src.astype(np.int64) * n_leaves + dst, return_inverse=True)
        demand = np.bincount(number.reshape(-1), weights=gbit).astype(np.float64)
        one, other = key // n_leaves, key % n_leaves
        seconds = max(at_least, self._cut_seconds(one, other, demand))
        at_most, left = np.inf, rounds
        price = None
        while left > 0:
            problem, closed, links, full = self._problem(one, other, demand, seconds)
            gbps, root = self._fabric.link_gbps[links] * self._alike.together[links], self._alike.root[links]
            if price is None:
                each = self._fabric.link_gbps[links]
                price = np.log(each.max(initial=1.0) / each)
                choices = problem.below[0].shape[1]
                entries = choices * (len(demand) + len(problem.pairs) * problem.above[0].shape[1])
                left = min(left, max(1, MOST_ENTRIES // max(1, entries)))
            tried = min(left, ROUNDS_AT_ONCE)
            excess = priced_spread.spread(*problem, closed, gbps, root, full, seconds, price, tried, SOLVER_GAP)
            if not np.isfinite(excess):
                # Some demand had only paths that must be full of others: the time of the cuts does not suffice.
                for places in closed:
                    places[:] = False
                excess = priced_spread.spread(*problem, closed, gbps, root, full, seconds, price, tried, SOLVER_GAP)
            at_most = min(at_most, seconds * (1 + excess))
            left -= tried
            # Prices that rise on and on prove that the time is too short; the next search begins where this one ended.
            # Where they prove nothing, another search comes no closer.
            proved = float(priced_spread.cheapest(*problem, gbps, price))
            if excess <= SOLVER_GAP or proved <= seconds:
                break
            seconds = proved
        return LeastTime(seconds, max(seconds, at_most))

    def _cut_seconds(self, one: Numbers, other: Numbers, demand: FloatArray) -> float:
        """Return the seconds that the cuts of leaves and pods require."""
        seconds = 0.0
        for sent, gbps in self._cuts(one, other, demand):
            seconds = max(seconds, float(np.divide(sent, gbps, out=np.zeros(len(sent)), where=gbps > 0).max(initial=0)))
        return seconds

    def _cuts(self, one: Numbers, other: Numbers, demand: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        """Return what goes out of leaves, into leaves, out of pods, into pods, each with the capacity there."""
        leaves = self._fabric.cuts[0]
        cuts = [
            (_sums(one, demand, len(leaves.up.gbps)), leaves.up.gbps),
            (_sums(other, demand, len(leaves.down.gbps)), leaves.down.gbps),
        ]
        for cut in self._pod_cuts:
            pod = self._fabric.cuts[1].group.astype(np.int64)
            crosses = pod[one] != pod[other]
            end = one if cut is self._pod_cuts[0] else other
            cuts.append((_sums(pod[end], demand * crosses, len(cut.gbps)), cut.gbps))
        return cuts

    @cached_property
    def _pod_cuts(self) -> tuple[PodCut, ...]:
        """The cuts of pods, out of them and into them; none in two layers."""
        if len(self._tiers) == 1:
            return ()
        gbps = np.append(self._fabric.link_gbps, 0.0)
        cut, cuts = self._fabric.cuts[1], []
        above = self._ways.above[: self._ways.table[1]].reshape(self._tiers[0].up.shape)
        pod = np.full(len(self._tiers[1].up), -1, dtype=np.int64)
        leaf, choice = np.nonzero(above >= 0)
        pod[above[leaf, choice]] = cut.group[leaf]
        first, second = self._tiers
        for lower, upper in zip(first, second, strict=True):
            leaf, choice = np.nonzero((lower >= 0) & (above >= 0))
            below = np.bincount(above[leaf, choice], weights=gbps[lower[leaf, choice]], minlength=len(pod))
            beyond = gbps[_distinct(upper)].sum(axis=1)
            known = pod >= 0
            room = np.bincount(pod[known], weights=np.minimum(below, beyond)[known], minlength=len(cut.up.gbps))
            limits = np.append(below <= beyond * (1 + ROUNDING), False)
            cuts.append(PodCut(room.astype(np.float64), limits[above], beyond <= below * (1 + ROUNDING), pod))
        return tuple(cuts)

    @cached_property
    def _alike(self) -> _Alike:
        """The choices that stand for all that are like them."""
        kinds = self._fabric.choice_kinds
        together, root = np.ones(self._fabric.n_links), np.ones(self._fabric.n_links)
        # On the first tier, choices are of one kind for all leaves or for none.
        count = np.bincount(kinds[0][0][kinds[0][0] >= 0], minlength=kinds[0].shape[1])
        first = np.flatnonzero(count)
        for table in self._tiers[0]:
            links = table[:, first]
            _set(together, links, np.broadcast_to(count[first], links.shape))
            _set(root, links, np.broadcast_to(np.sqrt(count[first]), links.shape))
        if len(self._tiers) == 1:
            return _Alike(first, (), together, root)
        upper = self._tiers[1]
        kind = kinds[1]
        if self._differ_by_pair(kind):
            kind = np.broadcast_to(np.arange(kind.shape[1]), kind.shape)
        stands = kind == np.arange(kind.shape[1])
        most = int(stands.sum(axis=1).max(initial=0))
        column = np.argsort(~stands, axis=1, kind="stable")[:, :most]
        row = np.arange(len(stands))[:, None]
        switch, choice = np.nonzero(kind >= 0)
        of_kind = np.zeros(kind.shape, dtype=np.int64)
        np.add.at(of_kind, (switch, kind[switch, choice]), 1)
        below = np.ones(len(stands), dtype=np.int64)
        for j in first.tolist():
            reached = self._switch_of[:, j]
            below[reached[reached >= 0]] = count[j]
        tables = []
        for table in upper:
            links = np.where(stands[row, column], table[row, column], -1).astype(np.int32)
            _set(together, links, of_kind[row, column] * below[:, None])
            _set(root, links, np.sqrt(of_kind[row, column]))
            tables.append(links)
        return _Alike(first, tuple(tables), together, root)

    def _differ_by_pair(self, kind: Numbers) -> bool:
        """Return whether some switches that a choice of the leaves leads to have choices of different kinds."""
        number = np.unique(kind, axis=0, return_inverse=True)[1].reshape(-1)
        for switches in self._switch_of.T:
            own = number[switches[switches >= 0]]
            if len(own) and (own != own[0]).any():
                return True
        return False

    @cached_property
    def _switch_of(self) -> Numbers:
        """[pods, J] the switch to which each choice leads from the leaves of a pod, -1: none."""
        above = self._ways.above[: self._ways.table[1]].reshape(self._tiers[0].up.shape)
        pod = self._ways.group[0]
        switches = np.full((int(pod.max(initial=-1)) + 1, int(self._ways.width[0])), -1, dtype=np.int64)
        np.maximum.at(switches, pod, above.astype(np.int64))
        return switches

    def _problem(
        self, one: Numbers, other: Numbers, demand: FloatArray, seconds: float
    ) -> tuple[_Problem, tuple[BoolArray, BoolArray], Numbers, BoolArray]:
        """Return the problem on the links that the demands can use: with its closed places, links, and full links."""
        alike = self._alike
        ends = [_numbered(end, self._fabric.n_leaves) for end in (one, other)]
        # In one order of memory, whatever the numbers of leaves are: kernels are compiled for this one alone.
        below = [
            np.ascontiguousarray(table[leaf][:, alike.first])
            for table, (leaf, _) in zip(self._tiers[0], ends, strict=True)
        ]
        pair = np.full(len(one), -1, dtype=np.int64)
        pairs, n_choices = np.zeros((0, 2), dtype=np.int64), below[0].shape[1]
        switches = [np.zeros((0, n_choices), dtype=np.int64)] * 2
        above, reached = [np.zeros((0, 1), dtype=np.int32)] * 2, [np.zeros(0, dtype=np.int64)] * 2
        if len(self._tiers) > 1:
            pod = self._ways.group[0].astype(np.int64)
            (apart,) = np.nonzero(pod[one] != pod[other])
            if len(apart):
                pods = [_numbered(pod[end[apart]], len(self._switch_of)) for end in (one, other)]
                n_pods = len(pods[1][0])
                met, pair[apart] = _numbered(pods[0][1] * n_pods + pods[1][1], len(pods[0][0]) * n_pods)
                pairs = np.stack([met // n_pods, met % n_pods], axis=1)
                for side in range(2):
                    chosen = self._switch_of[pods[side][0]][:, alike.first]
                    led = chosen >= 0
                    reached[side], row = _numbered(chosen[led], len(alike.upper[side]))
                    switches[side] = np.full(chosen.shape, -1, dtype=np.int64)
                    switches[side][led] = row
                    above[side] = alike.upper[side][reached[side]]
        used = np.zeros(self._fabric.n_links + 1, dtype=np.bool_)
        for table in (*below, *above):
            used[table] = True
        links = np.flatnonzero(used[:-1])
        number = np.full(self._fabric.n_links + 1, -1, dtype=np.int32)
        number[links] = np.arange(len(links))
        full = np.zeros(self._fabric.n_links, dtype=np.bool_)
        closed = [np.zeros(table.shape, dtype=np.bool_) for table in below]
        cuts = self._cuts(one, other, demand)
        tight = [sent >= gbps * seconds * (1 - ROUNDING) for sent, gbps in cuts]
        for side, cut in enumerate((self._fabric.cuts[0].up, self._fabric.cuts[0].down)):
            _fill(full, cut, tight[side])
        for side, through in enumerate(self._pod_cuts):
            leaf = ends[side][0]
            of_leaf = tight[2 + side][self._fabric.cuts[1].group[leaf]]
            closed[side][:] = through.limits_below[leaf][:, alike.first] & of_leaf[:, None] & (below[side] >= 0)
            full[below[side][closed[side]]] = True
            switch = reached[side]
            (whole,) = np.nonzero(through.limits_above[switch] & tight[2 + side][through.pod[switch]])
            busy = above[side][whole]
            full[busy[busy >= 0]] = True
        problem = _Problem(
            ends[0][1],
            ends[1][1],
            pair,
            demand,
            pairs,
            (switches[0], switches[1]),
            (number[below[0]], number[below[1]]),
            (number[above[0]], number[above[1]]),
        )
        return problem, (closed[0], closed[1]), links, full[links]


class _Alike(NamedTuple):
    """The choices that stand for all that are like them.

    Attributes:
        first: [J] those of the leaves.
        upper: the tables of the second tier of cables (if there is one) with one place for each kind: [switches, C].
        together: [E] how many cables each link of such a choice stands for, those above choices that are alike, too.
        root: [E] square root of how many choices of its own switch it stands for.
    """

    first: Numbers
    upper: tuple[LinkTable, ...]
    together: FloatArray
    root: FloatArray


class _Problem(NamedTuple):
    """The first arguments of ``priced_spread.spread``, and of ``cheapest``."""

    src: Numbers
    dst: Numbers
    pair: Numbers
    demand: FloatArray
    pairs: Numbers
    switches: tuple[Numbers, Numbers]
    below: tuple[LinkTable, LinkTable]
    above: tuple[LinkTable, LinkTable]


def _set(value: FloatArray, links: LinkTable, to: NDArray[np.number]) -> None:
    """Set the value [E] of some links (-1: none)."""
    known = links >= 0
    value[links[known]] = to[known]


def _numbered(values: Numbers, most: int) -> tuple[Numbers, Numbers]:
    """Return the distinct ones of values below ``most``, ascending, and the place of each value among them."""
    present = np.zeros(most, dtype=np.bool_)
    present[values] = True
    distinct = np.flatnonzero(present)
    place = np.empty(most, dtype=np.int64)
    place[distinct] = np.arange(len(distinct))
    return distinct, place[values]


def _sums(group: Numbers, amount: FloatArray, count: int) -> FloatArray:
    """Return the total of each group."""
    return np.bincount(group, weights=amount, minlength=count).astype(np.float64)


def _distinct(table: LinkTable) -> LinkTable:
    """Return the links of each row once: several choices may lead over one link."""
    distinct = np.sort(table, axis=1)
    distinct[:, 1:][distinct[:, 1:] == distinct[:, :-1]] = -1
    return distinct


def _fill(full: BoolArray, links: CutLinks, tight: BoolArray) -> None:
    """Mark the links of groups whose cut is tight: with a spread that fits, they are busy all the time."""
    own = np.flatnonzero(links.owner >= 0)
    full[own[tight[links.owner[own]]]] = True
