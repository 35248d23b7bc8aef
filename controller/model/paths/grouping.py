"""Groups among numbered things: connected switches, and places among equals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]


def components(a: IntArray, b: IntArray, n: int) -> IntArray:
    """Return the component [n] of each node of an undirected graph with edges (a, b): the lowest node in it."""
    label = np.arange(n, dtype=np.int32)
    while True:
        least = np.minimum(label[a], label[b])
        lower = label.copy()
        np.minimum.at(lower, label[a], least)
        np.minimum.at(lower, label[b], least)
        # Follow the labels to their own labels, so that long chains take few rounds.
        while not np.array_equal(lower, lower[lower]):
            lower = lower[lower]
        lower = lower[label]
        if np.array_equal(lower, label):
            return label
        label = lower


def numbered(label: NDArray[np.integer]) -> IntArray:
    """Return [N] the rank of each entry among the different entries of an array: 0, 1, .."""
    rank: IntArray = np.unique(label, return_inverse=True)[1].reshape(-1).astype(np.int32)
    return rank


def place_among_equals(key: NDArray[np.integer]) -> IntArray:
    """Return [N] how many earlier entries of an array are equal to each."""
    order = np.argsort(key, kind="stable")
    _, first, of = np.unique(key[order], return_index=True, return_inverse=True)
    place = np.empty(len(key), dtype=np.int32)
    place[order] = np.arange(len(key)) - first[of]
    return place
