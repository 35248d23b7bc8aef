"""Look-up of many keys in a sorted table at once."""

from __future__ import annotations

import numba as nb
import numpy as np

_MIX = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: multiplicative hashing (Knuth, The Art of Computer Programming 3, 6.4)."""


@nb.njit(nogil=True, cache=True)
def first_rows(key, wanted):
    """Return the index [W] of the first row of ``key`` [R], ascending, that equals ``wanted`` [W]; -1 where none does.

    A hash table with linear probing, half full at most: a binary search for each key costs three times as much.
    """
    bits = 1
    while (1 << bits) < 2 * len(key):
        bits += 1
    shift, mask = np.uint64(64 - bits), (1 << bits) - 1
    table = np.full(1 << bits, -1, np.int32)
    for row in range(len(key)):
        if row > 0 and key[row] == key[row - 1]:
            continue
        slot = np.int64((np.uint64(key[row]) * _MIX) >> shift)
        while table[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot] = row
    rows = np.full(len(wanted), -1, np.int32)
    for w in range(len(wanted)):
        slot = np.int64((np.uint64(wanted[w]) * _MIX) >> shift)
        while table[slot] >= 0:
            if key[table[slot]] == wanted[w]:
                rows[w] = table[slot]
                break
            slot = (slot + 1) & mask
    return rows
