"""Search for paths at which a level is higher, on any fabric: by the choices of one tier, or on whole paths.

The search on one tier keeps the loads of a choice's two links beside each other; that on whole paths walks up and down
the tiers at each step, and would be slower on one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.routing.kernels.placing.breakout_on_ways import breakout_on_ways
from controller.routing.kernels.placing.breakout_search import breakout_search

MOST_CELLS = 50_000_000
"""Most pairs of link and phase group whose loads are kept one by one; above, all phases count as one."""


class Movable(NamedTuple):
    """The U units that a search moves, each of one or several of P parts.

    Attributes:
        src, dst: [U] leaves.
        part_ptr: [U+1] parts of each unit.
        part_group: [P] phase group of each part.
        group_job: [G] job of each phase group.
    """

    src: IntArray
    dst: IntArray
    part_ptr: IntArray
    part_group: IntArray
    group_job: IntArray


class Wanted(NamedTuple):
    """The loads of parts and the levels to try.

    Attributes:
        fixed: [P] Gbit/s of each part that stays.
        rising: [P] Gbit/s of each part at level 1.
        target: the first level to try; each success is followed by one higher by the fraction ``step``.
        limit: the level at which the search ends.
        step: the relative rise after a success.
    """

    fixed: FloatArray
    rising: FloatArray
    target: float
    limit: float
    step: float


def raise_level(
    fabric: Fabric, units: Movable, wanted: Wanted, path: IntArray, rounds: int, seed: int
) -> tuple[IntArray, float, int]:
    """Return other paths [U], the level of rising parts with them (0: no target was reached), and the rounds used.

    Args:
        fabric: the fabric.
        units: what moves.
        wanted: the loads, and the levels to try.
        path: [U] live paths to begin from.
        rounds: the most moves to try.
        seed: the seed of the search; its low 32 bits count.
    """
    seed &= 0xFFFFFFFF
    if len(fabric.tiers) == 1:
        outcome = breakout_search(*units, fabric.tiers[0], fabric.link_gbps, path, *wanted, rounds, seed)
    else:
        ways = fabric.live_ways
        if len(units.group_job) * fabric.n_links > MOST_CELLS:
            units = units._replace(part_group=np.zeros_like(units.part_group), group_job=units.group_job[:1])
        meet = ways.meet(units.src, units.dst)
        outcome = breakout_on_ways(*units, meet, ways, fabric.link_gbps, path, *wanted, rounds, seed)
    paths, reached, used = outcome
    return paths, float(reached), int(used)
