"""The ways through a fabric, as the arrays that planning works on: whole paths (``Ways``), and one tier (``Tier``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LinkTable = NDArray[np.int32]
Numbers = NDArray[np.integer]

NO_LINK = -1


class Tier(NamedTuple):
    """The links between the N switches of a tier and the tier above, by the choice that leads over them.

    A unit that goes up from switch a and comes down to switch b makes one choice k for both directions. It is possible
    if neither ``up[a, k]`` nor ``down[b, k]`` is ``NO_LINK``.

    Attributes:
        up: [N, K] link by which choice k leaves each switch, ``NO_LINK`` where there is none.
        down: [N, K] link by which choice k reaches each switch, ``NO_LINK`` where there is none.
    """

    up: LinkTable
    down: LinkTable

    def possible(self, src: Numbers, dst: Numbers) -> NDArray[np.bool_]:
        """Return whether each choice leads from each source to its destination: [N, K] for arrays [N] of switches."""
        return np.asarray((self.up[src] >= 0) & (self.down[dst] >= 0))

    def joined(self, src: Numbers, dst: Numbers, choice: Numbers) -> NDArray[np.bool_]:
        """Return whether each choice leads from its source to its destination, for arrays of equal shapes."""
        return np.asarray((self.up[src, choice] >= 0) & (self.down[dst, choice] >= 0))


class Ways(NamedTuple):
    """All paths between the L leaves of a fabric of T tiers of cables.

    A path goes up m + 1 tiers of cables and comes down by the same choices (k_0, .., k_m), where m is the lowest tier
    of cables above which its two leaves meet. Its number says both: the paths of m = 0 come first, then those of
    m = 1, and so on; within one m, in order of the choices, the last one fastest. So a number has the same meaning for
    every pair of leaves, and a leaf-spine fabric, where T is 1, has K paths for K choices.

    Compiled code reads the arrays (``routing/kernels/paths.py``). Switches are numbered within their tier.

    Attributes:
        first: [T+1] first path of each m; the last entry is the number of paths.
        width: [T] number of choices of a switch on each tier.
        table: [T+1] where the part of each tier begins in ``up`` and ``down``.
        up: link by which a switch x of tier t is left by choice k, at ``table[t] + x * width[t] + k``; or ``NO_LINK``.
        down: link by which it is reached by choice k, at the same place; or ``NO_LINK``.
        above: the switch of tier t + 1 to which choice k leads from x, at the same place, for t + 1 < T; -1: none.
        group: [T, L] leaves meet in a tier if they have the same number there.
    """

    first: NDArray[np.int64]
    width: NDArray[np.int64]
    table: NDArray[np.int64]
    up: LinkTable
    down: LinkTable
    above: LinkTable
    group: LinkTable

    @property
    def n_paths(self) -> int:
        """The number of paths."""
        return int(self.first[-1])

    @property
    def n_tiers(self) -> int:
        """The number T of tiers of cables."""
        return len(self.width)

    def tier(self, number: int) -> Tier:
        """Return the links of one tier, as views."""
        part, shape = slice(*self.table[number : number + 2]), (-1, int(self.width[number]))
        if not shape[1]:
            shape = (self.group.shape[1], 0)
        return Tier(self.up[part].reshape(shape), self.down[part].reshape(shape))

    def first_choice(self, path: int) -> int:
        """Return the choice on the first tier of cables of a path, at both of its leaves."""
        top = int(np.searchsorted(self.first, path, side="right")) - 1
        return (path - int(self.first[top])) // int(np.prod(self.width[1 : top + 1]))

    def meet(self, src: Numbers, dst: Numbers) -> NDArray[np.int64]:
        """Return the lowest tier of cables above which each two leaves meet; T: they do not."""
        same = self.group[:, src] == self.group[:, dst]
        return np.where(same.any(axis=0), same.argmax(axis=0), self.n_tiers)

    def links(self, src: Numbers, dst: Numbers, path: Numbers) -> LinkTable:
        """Return the links of paths between leaves, in the order of travel.

        Args:
            src: [N] source leaf of each path.
            dst: [N] destination leaf of each path.
            path: [N] number of each path; negative: one without links.

        Returns:
            [N, 2T]: T uplinks and T downlinks, ``NO_LINK`` for tiers above that in which the leaves meet and for
            cables that there are not.
        """
        path = np.asarray(path, dtype=np.int64)
        links = np.full((len(path), 2 * self.n_tiers), NO_LINK, dtype=np.int32)
        for top in range(self.n_tiers):
            rows = (path >= self.first[top]) & (path < self.first[top + 1])
            rest = path[rows] - self.first[top]
            lower, upper = np.asarray(src)[rows].astype(np.int64), np.asarray(dst)[rows].astype(np.int64)
            for tier in range(top + 1):
                after = int(np.prod(self.width[tier + 1 : top + 1]))
                choice, rest = rest // after, rest % after
                out, back = (self.table[tier] + end * self.width[tier] + choice for end in (lower, upper))
                links[rows, tier] = np.where(lower >= 0, self.up[out], NO_LINK)
                links[rows, 2 * self.n_tiers - 1 - tier] = np.where(upper >= 0, self.down[back], NO_LINK)
                if tier < top:
                    lower = np.where(lower >= 0, self.above[out], -1)
                    upper = np.where(upper >= 0, self.above[back], -1)
        return links

    def links_of(self, src: int, dst: int, path: int) -> tuple[int, ...]:
        """Return the links of one path between leaves, in the order of travel; ``NO_LINK`` for cables there are not."""
        if 0 <= path < self.first[1]:
            at = int(self.width[0])
            return int(self.up[src * at + path]), int(self.down[dst * at + path])
        (between,) = self.links(np.array([src]), np.array([dst]), np.array([path])).tolist()
        tiers = int(np.searchsorted(self.first, path, side="right"))
        return (*between[:tiers], *between[len(between) - tiers :])

    def joined(self, src: Numbers, dst: Numbers, path: Numbers) -> NDArray[np.bool_]:
        """Return [N] whether each path leads from its source leaf to its destination leaf; a negative number: no."""
        top = np.searchsorted(self.first, path, side="right") - 1
        present = (self.links(src, dst, path) >= 0).sum(axis=1)
        return np.asarray((top >= 0) & (top == self.meet(src, dst)) & (present == 2 * (top + 1)))

    def between(self, src: int, dst: int) -> NDArray[np.int32]:
        """Return the paths that join two leaves, ascending."""
        met = next((t for t in range(self.n_tiers) if self.group[t, src] == self.group[t, dst]), self.n_tiers)
        if met == 0:
            width = int(self.width[0])
            up, down = self.up[src * width :][:width], self.down[dst * width :][:width]
            return np.flatnonzero((up >= 0) & (down >= 0)).astype(np.int32)
        if met == self.n_tiers:
            return np.zeros(0, dtype=np.int32)
        path = np.arange(self.first[met], self.first[met + 1])
        return path[self.joined(np.full(len(path), src), np.full(len(path), dst), path)].astype(np.int32)

    def only(self, link_up: NDArray[np.bool_]) -> Ways:
        """Return the same paths without the links that are down."""
        up = np.where((self.up >= 0) & link_up[self.up], self.up, NO_LINK).astype(np.int32)
        down = np.where((self.down >= 0) & link_up[self.down], self.down, NO_LINK).astype(np.int32)
        return self._replace(up=up, down=down)
