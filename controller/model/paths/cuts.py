"""The cuts of a fabric: the total capacity by which each group of leaves is left and reached on a tier of cables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from controller.model.paths.ways import LinkTable, Ways

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class CutLinks:
    """The links of a tier of cables in one direction, by N groups: leaves, and above them leaves that meet below.

    Attributes:
        owner: [E] group of each live link of the tier, -1 for other links.
        gbps: [N] total capacity of each group's links.
        whole: [N] whether every choice of every switch of the group has a live link of its own.
        link_gbps: [E] capacity of each link.
    """

    owner: NDArray[np.int64]
    gbps: Floats
    whole: Booleans
    link_gbps: Floats

    @cached_property
    def even(self) -> Booleans:
        """[N] whether the group is ``whole``, and all its links have the same capacity."""
        used = np.flatnonzero(self.owner >= 0)
        most, least = np.zeros(len(self.gbps)), np.full(len(self.gbps), np.inf)
        np.maximum.at(most, self.owner[used], self.link_gbps[used])
        np.minimum.at(least, self.owner[used], self.link_gbps[used])
        return self.whole & (most <= least)

    @cached_property
    def links(self) -> LinkTable:
        """[N, M] the links of each group, -1 fills up."""
        used = np.flatnonzero(self.owner >= 0)
        by_group = used[np.argsort(self.owner[used], kind="stable")]
        count = np.bincount(self.owner[used], minlength=len(self.gbps))
        place = np.arange(len(by_group)) - np.repeat(np.cumsum(count) - count, count)
        table = np.full((len(count), int(count.max(initial=0))), -1, dtype=np.int32)
        table[np.repeat(np.arange(len(count)), count), place] = by_group
        return table


@dataclass(frozen=True, eq=False)
class TierCuts:
    """The two cuts of one tier of cables.

    Attributes:
        group: [L] group of each leaf: itself on the first tier, above it that of the leaves which it meets below.
        up: the links out of the groups.
        down: the links into them.
    """

    group: LinkTable
    up: CutLinks
    down: CutLinks

    @property
    def even(self) -> bool:
        """Whether both cuts are."""
        return bool(self.up.even.all() and self.down.even.all())


def cuts_of(ways: Ways, link_gbps: Floats) -> tuple[TierCuts, ...]:
    """Return the cuts of each tier of cables, for ways of live links.

    Where all are even, spreading every flow over all its paths alike loads the links of a group alike: free splitting
    is then limited by host links and cuts only.
    """
    n_leaves = ways.group.shape[1]
    # [N_t] some leaf below each switch of the tier, -1: none.
    below = np.arange(n_leaves)
    cuts = []
    for number in range(ways.n_tiers):
        tier = ways.tier(number)
        group = np.arange(n_leaves) if number == 0 else ways.group[number - 1].astype(np.int64)
        if ways.width[number]:
            owner = np.where(below >= 0, group[below], -1)
        else:
            # Nothing leads up from this tier, and its tables do not show how many switches it has.
            owner = np.full(len(tier.up), -1, dtype=np.int64)
        n_groups = int(group.max(initial=-1)) + 1
        up, down = (_cut(table, owner, n_groups, link_gbps) for table in (tier.up, tier.down))
        cuts.append(TierCuts(group.astype(np.int32), up, down))
        if number + 1 < ways.n_tiers:
            above = ways.above[ways.table[number] : ways.table[number + 1]].reshape(tier.up.shape)
            n_above = int(ways.table[number + 2] - ways.table[number + 1]) // max(1, int(ways.width[number + 1]))
            n_above = max(n_above, int(above.max(initial=-1)) + 1)
            leaf = np.full(n_above, -1, dtype=np.int64)
            switch, choice = np.nonzero(above >= 0)
            leaf[above[switch, choice]] = below[switch]
            below = leaf
    return tuple(cuts)


def _cut(table: LinkTable, owner: NDArray[np.int64], n_groups: int, link_gbps: Floats) -> CutLinks:
    """Return the cut of the links of one table [N_t, K], whose rows belong to these groups."""
    live = (table >= 0) & (owner >= 0)[:, None]
    owner_of = np.full(len(link_gbps), -1, dtype=np.int64)
    owner_of[table[live]] = np.broadcast_to(owner[:, None], live.shape)[live]
    used = np.flatnonzero(owner_of >= 0)
    total = np.bincount(owner_of[used], weights=link_gbps[used], minlength=n_groups).astype(np.float64)
    needed = np.bincount(owner[owner >= 0], minlength=n_groups) * table.shape[1]
    whole = np.bincount(owner_of[used], minlength=n_groups) == needed
    return CutLinks(owner_of, total, whole, link_gbps)
