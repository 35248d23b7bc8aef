"""Groups: QPs of one cluster that are connected and carry equal volumes, and the shape of the group."""

from __future__ import annotations

import numpy as np

from controller.learning.learned_job import LearnedGroup, Shape
from controller.learning.sightings import QpKey
from controller.model.fabric import FloatArray
from controller.model.paths.grouping import components


def shape_of(edges: set[tuple[int, int]]) -> Shape:
    """Return the shape of a connected graph of hosts."""
    out, into = (
        np.unique([a for a, _ in edges], return_counts=True),
        np.unique([b for _, b in edges], return_counts=True),
    )
    if not np.array_equal(out[0], into[0]):
        return "flows"
    n = len(out[0])
    if n > 2 and (out[1] == n - 1).all() and (into[1] == n - 1).all():
        return "direct"
    if (out[1] == 1).all() and (into[1] == 1).all():
        return "ring"
    return "flows"


def groups_of(keys: list[QpKey], volume: FloatArray, phase: int) -> list[LearnedGroup]:
    """Return the groups of the QPs of one cluster, whose volumes were snapped to classes."""
    hosts, place = np.unique([(key.src, key.dst) for key in keys], return_inverse=True)
    a, b = place.reshape(-1, 2).T
    groups: list[LearnedGroup] = []
    for size in np.unique(volume):
        of_class = np.flatnonzero(volume == size)
        label = components(a[of_class].astype(np.int32), b[of_class].astype(np.int32), len(hosts))[a[of_class]]
        for name in np.unique(label):
            members = sorted(keys[i] for i in of_class[label == name].tolist())
            shape = shape_of({(key.src, key.dst) for key in members})
            groups.append(LearnedGroup(phase, shape, tuple(members), (max(1, round(size)),) * len(members)))
    return groups
