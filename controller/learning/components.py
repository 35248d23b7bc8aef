"""Components: QPs that belong together because their hosts are connected by QPs."""

from __future__ import annotations

import numpy as np

from controller.model.fabric import IntArray


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
