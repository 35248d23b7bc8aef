"""Adaptive baselines: each transfer selects a path at its start, by the number of transfers on the links.

They idealise CONGA (SIGCOMM 2014) and the global load balancing of switch vendors: a view of all links, without delay
unless ``view_seconds`` sets one. They make no plan, and no rule or host of this project could follow them: they are
baselines for plans that are fixed for an iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.model.assignment import LOCAL, Assignment
from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.paths.ways import Ways
from controller.model.traffic import Int64Array, Traffic

AdaptiveKind = Literal["least_loaded", "power_of_two"]

FIXED, LEAST_LOADED, POWER_OF_TWO = 0, 1, 2


@dataclass(frozen=True)
class Adaptive:
    """A baseline.

    Attributes:
        kind: ``least_loaded``: of all live paths the one whose fullest link carries the fewest transfers for its
            capacity; of equal ones that with fewer on all its links, then the present one. ``power_of_two``: the better
            of two paths that are drawn (Mitzenmacher, IEEE TPDS 12(10), 2001).
        view_seconds: how often the view of the links is taken; 0: it is always the present one.
        seed: of what is drawn.
    """

    kind: AdaptiveKind
    view_seconds: float = 0.0
    seed: int = 0


class Choice(NamedTuple):
    """The engine's data for the choice of paths (arrays, because compiled code reads them).

    Attributes:
        kind: [1] ``FIXED``, ``LEAST_LOADED`` or ``POWER_OF_TWO``.
        src, dst: [R] leaf of each end of a row; -1 where it does not cross spines.
        ways: the live paths.
        links: [2T] for the links of the path that is looked at, for T tiers of cables.
        carried: [E+1] transfers on each link.
        known: [E+1] the same, as the choice knows it.
        view_seconds: [1]. view_until: [1] seconds at which it is taken anew.
        state: [1] of the random generator.
    """

    kind: Int64Array
    src: IntArray
    dst: IntArray
    ways: Ways
    links: Int64Array
    carried: Int64Array
    known: Int64Array
    view_seconds: FloatArray
    view_until: FloatArray
    state: NDArray[np.uint64]


def no_choice() -> Choice:
    """Return the data with which every transfer keeps the path of its plan."""
    none, count, time = np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64), np.zeros(1)
    nowhere = Ways(count, count[:0], count, none, none, none, np.zeros((0, 0), dtype=np.int32))
    return Choice(count, none, none, nowhere, count[:0], count, count, time, time, count.astype(np.uint64))


def choice_of(fabric: Fabric, traffic: Traffic, row_flow: IntArray, adaptive: Adaptive) -> Choice:
    """Return the data by which rows choose their paths.

    Args:
        fabric: the fabric.
        traffic: the flows.
        row_flow: [R] flow of the traffic that each row of the movers belongs to.
        adaptive: the baseline.
    """
    ways = fabric.live_ways
    src, dst = fabric.host_leaf[traffic.src[row_flow]], fabric.host_leaf[traffic.dst[row_flow]]
    crosses = src != dst
    n_links = fabric.n_links + 1
    return Choice(
        kind=np.array([LEAST_LOADED if adaptive.kind == "least_loaded" else POWER_OF_TWO], dtype=np.int64),
        src=np.where(crosses, src, -1).astype(np.int32),
        dst=np.where(crosses, dst, -1).astype(np.int32),
        ways=ways._replace(up=ways.up.copy(), down=ways.down.copy()),
        links=np.empty(2 * ways.n_tiers, dtype=np.int64),
        carried=np.zeros(n_links, dtype=np.int64),
        known=np.zeros(n_links, dtype=np.int64),
        view_seconds=np.array([adaptive.view_seconds]),
        view_until=np.zeros(1),
        state=np.array([2 * (adaptive.seed & 0xFFFFFFFF) + 1], dtype=np.uint64),
    )


def first_paths(fabric: Fabric, traffic: Traffic) -> Assignment:
    """Return an assignment of the right form; every transfer that crosses spines replaces its path before it starts."""
    local = fabric.host_leaf[traffic.src] == fabric.host_leaf[traffic.dst]
    return Assignment.single(np.where(local, LOCAL, 0).astype(np.int32))
