"""Kinds of choices: those that nobody can distinguish are of one kind.

Free splitting may treat all choices of a kind alike: by averaging over their permutations there is an optimum that
does.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from controller.model.paths.ways import Ways


def choice_kinds(ways: Ways, gbps: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """Return [N, K] for each tier: the choice that stands for each one and all like it; -1: no path leads there."""
    capacity = np.append(gbps, 0.0)
    tables = [np.full(ways.tier(t).up.shape, -1, dtype=np.int64) for t in range(ways.n_tiers)]

    def visit(number: int, switch: NDArray[np.integer]) -> list[tuple[str, int]]:
        """Fill in these switches (-1: none), which are one plane, and return what distinguishes it."""
        tier = ways.tier(number)
        switch, place = _by_appearance(switch)
        up = np.where(switch[:, None] >= 0, tier.up[switch], -1)
        down = np.where(switch[:, None] >= 0, tier.down[switch], -1)
        shared = [_shared(table) for table in (up, down)]
        width = np.ascontiguousarray(np.concatenate([capacity[up], capacity[down]]).T)
        alike: dict[str, list[int]] = {}
        above = None
        if number + 1 < ways.n_tiers:
            table = ways.above[ways.table[number] : ways.table[number + 1]].reshape(tier.up.shape)
            above = np.where(switch[:, None] >= 0, table[switch], -1)
            shared.append(_shared(above))
        for k in np.flatnonzero((up >= 0).any(axis=0) & (down >= 0).any(axis=0)).tolist():
            mark = k if any(alone[k] for alone in shared) else -1
            beyond = [] if above is None else visit(number + 1, above[:, k])
            content = repr((mark, beyond)).encode() + width[k].tobytes()
            alike.setdefault(hashlib.blake2b(content, digest_size=16).hexdigest(), []).append(k)
        own = switch[switch >= 0]
        for members in alike.values():
            tables[number][np.ix_(own, np.array(members))] = members[0]
        # Planes are alike only if their switches are behind the same ones below, too.
        behind = hashlib.blake2b(place.tobytes(), digest_size=16).hexdigest()
        return [(behind, 0), *sorted((kind, len(members)) for kind, members in alike.items())]

    visit(0, np.arange(ways.group.shape[1]))
    return tables


def _by_appearance(
    switch: NDArray[np.integer],
) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
    """Return each switch once, in order of first appearance, and the place of each of the given ones there."""
    distinct, first, inverse = np.unique(switch, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return distinct[order], np.argsort(order)[inverse.reshape(-1)]


def _shared(table: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return [K] whether a column of the table [N, K] has an entry (not -1) that another column has, too."""
    n = table.shape[1]
    row, column = np.nonzero(table >= 0)
    # Each entry once for each of its columns, in order of the entries (np.unique takes three times as long).
    both = np.sort(table[row, column].astype(np.int64) * n + column)
    entry, column = np.divmod(both[np.append(True, both[1:] != both[:-1])[: len(both)]], max(1, n))
    again = entry[1:] == entry[:-1]
    shared = np.zeros(n, dtype=np.bool_)
    shared[column[1:][again]] = shared[column[:-1][again]] = True
    return shared
