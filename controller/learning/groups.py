"""Groups: QPs of one cluster that are connected and carry equal volumes, and the shape of the group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

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


def joined(groups: Iterable[LearnedGroup]) -> tuple[LearnedGroup, ...]:
    """Return groups of a job, in order, with those of one phase and equal bytes joined that only together have a shape.

    QPs of one group may be taken for those of several clusters: where one host reads or sends its counters later than
    the others do. Groups with a shape of their own stay what they are.
    """
    by_kind: dict[tuple[int, int], list[LearnedGroup]] = {}
    kept: list[LearnedGroup] = []
    for group in groups:
        parts = kept if group.shape != "flows" else by_kind.setdefault((group.phase, group.bytes[0]), [])
        parts.append(group)
    for parts in by_kind.values():
        kept += _joined(parts)
    return tuple(sorted(kept, key=lambda group: (group.phase, group.qps)))


def _joined(parts: Sequence[LearnedGroup]) -> Sequence[LearnedGroup]:
    """Return groups without a shape, of one phase and equal bytes, of which those are joined that have one together."""
    phase, size = parts[0].phase, parts[0].bytes[0]
    keys = sorted(chain.from_iterable(part.qps for part in parts))
    whole = [group for group in groups_of(keys, np.full(len(keys), float(size)), phase) if group.shape != "flows"]
    inside = {key for group in whole for key in group.qps}
    # Each part is connected, so it is within one of them or outside all.
    return [*whole, *(part for part in parts if part.qps[0] not in inside)]
