"""Three tiers of switches for the laws of paths: drawn switches and cables, and the tables of ``Ways`` for them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from controller.model.paths.ways import NO_LINK, Ways

Switch = tuple[str, int, int]


@dataclass(frozen=True)
class Pods:
    """Pods of leaves and aggregation switches: number j of each pod's aggregation switches has the cores of plane j.

    Attributes:
        uplink: the number of the uplink of each cable, by its lower and upper switch; the downlink has the next number.
    """

    pods: int
    leaves: int
    aggs: int
    cores: int
    uplink: dict[tuple[Switch, Switch], int]

    def leaf(self, number: int) -> Switch:
        """Return a leaf by its number in the fabric."""
        return ("leaf", *divmod(number, self.leaves))

    def ways(self) -> Ways:
        """Return all paths as tables."""
        places = list(itertools.product(range(self.pods), range(self.leaves), range(self.aggs)))
        places_above = list(itertools.product(range(self.pods), range(self.aggs), range(self.cores)))
        up = [self.uplink.get((("leaf", p, i), ("agg", p, j)), NO_LINK) for p, i, j in places]
        up += [self.uplink.get((("agg", p, j), ("core", j, c)), NO_LINK) for p, j, c in places_above]
        links = np.array(up, dtype=np.int32)
        n_leaves = self.pods * self.leaves
        return Ways(
            first=np.array([0, self.aggs, self.aggs + self.aggs * self.cores]),
            width=np.array([self.aggs, self.cores]),
            table=np.array([0, len(places), len(up)]),
            up=links,
            down=np.where(links >= 0, links + 1, NO_LINK).astype(np.int32),
            above=np.array([p * self.aggs + j for p, _, j in places], dtype=np.int32),
            group=np.stack([np.arange(n_leaves) // self.leaves, np.zeros(n_leaves, np.int64)]).astype(np.int32),
        )

    def walks(self, src: Switch, dst: Switch) -> set[tuple[int, ...]]:
        """Return the links of every shortest way up and down between two leaves, by trying all cables."""
        found: set[tuple[int, ...]] = set()
        for (low, high), out in self.uplink.items():
            if low != src:
                continue
            if src[1] == dst[1]:
                if (dst, high) in self.uplink:
                    found.add((out, self.uplink[dst, high] + 1))
                continue
            for (below, core), second in self.uplink.items():
                if below != high:
                    continue
                for (back, other), third in self.uplink.items():
                    if other == core and (dst, back) in self.uplink:
                        found.add((out, second, third + 1, self.uplink[dst, back] + 1))
        return found


@st.composite
def pods(draw: st.DrawFn) -> Pods:
    """Small fabrics of three tiers in which any cable may be missing."""
    n_pods, leaves, aggs, cores = (draw(st.integers(1, 3)) for _ in range(4))
    cables: list[tuple[Switch, Switch]] = [
        (("leaf", p, i), ("agg", p, j)) for p in range(n_pods) for i in range(leaves) for j in range(aggs)
    ]
    cables += [(("agg", p, j), ("core", j, c)) for p in range(n_pods) for j in range(aggs) for c in range(cores)]
    present = draw(st.lists(st.booleans(), min_size=len(cables), max_size=len(cables)))
    kept = [cable for cable, there in zip(cables, present, strict=True) if there]
    number = draw(st.permutations(range(len(kept))))
    return Pods(n_pods, leaves, aggs, cores, {cable: 2 * n for cable, n in zip(kept, number, strict=True)})
