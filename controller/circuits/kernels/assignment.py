"""Matchings of largest weight."""

from __future__ import annotations

import numba as nb
import numpy as np


@nb.njit(nogil=True, cache=True)
def heaviest_matching(weights):
    """Return for each server another one, all different, so that the sum of weights [n, n] is largest.

    The Hungarian method with shortest augmenting paths (Kuhn, 1955; Jonker and Volgenant, 1987), n^3 steps. No server
    gets itself; n is 2 or more.
    """
    n = len(weights)
    # Costs; the diagonal is dearer than any matching without it.
    cost = -weights.astype(np.float64)
    forbidden = 1.0 + 2.0 * n * max(1.0, np.abs(weights).max())
    for u in range(n):
        cost[u, u] = forbidden
    row_price, column_price = np.zeros(n + 1), np.zeros(n + 1)
    row_of = np.zeros(n + 1, dtype=np.int64)
    before = np.zeros(n + 1, dtype=np.int64)
    for row in range(1, n + 1):
        row_of[0] = row
        column = 0
        slack = np.full(n + 1, np.inf)
        done = np.zeros(n + 1, dtype=np.bool_)
        while True:
            done[column] = True
            here, least, following = row_of[column], np.inf, 0
            for j in range(1, n + 1):
                if not done[j]:
                    reduced = cost[here - 1, j - 1] - row_price[here] - column_price[j]
                    if reduced < slack[j]:
                        slack[j] = reduced
                        before[j] = column
                    if slack[j] < least:
                        least, following = slack[j], j
            for j in range(n + 1):
                if done[j]:
                    row_price[row_of[j]] += least
                    column_price[j] -= least
                else:
                    slack[j] -= least
            column = following
            if row_of[column] == 0:
                break
        while column != 0:
            row_of[column] = row_of[before[column]]
            column = before[column]
    matching = np.empty(n, dtype=np.int32)
    for j in range(1, n + 1):
        matching[row_of[j] - 1] = j - 1
    return matching
