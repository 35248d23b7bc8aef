"""Least times of demands that are split at will: by prices where these prove them, else by the linear program.

A linear program that would be large is solved only when an exact value is asked for; then a lower bound is returned,
with the time of the best spread that was found.
"""

from __future__ import annotations

import sys
from functools import cached_property

import numpy as np

from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.routing.relaxation import concurrent
from controller.routing.relaxation.priced import LeastTime, PricedTimes

MOST_VARIABLES = 2_000
"""Linear programs of more variables take longer than about 0.1 s."""

MOST_IN_ALL = 10_000
"""Variables of all linear programs of one traffic together, unless exact values are asked for."""


class LeastTimes:
    """Least times on one fabric."""

    def __init__(self, fabric: Fabric, *, exact: bool = False) -> None:
        """Take the fabric.

        Args:
            fabric: the fabric, of which live cables count.
            exact: solve linear programs of any size.
        """
        self._fabric = fabric
        self._exact = exact
        self._left = MOST_IN_ALL

    @cached_property
    def _priced(self) -> PricedTimes:
        return PricedTimes(self._fabric)

    def of(
        self,
        src: IntArray,
        dst: IntArray,
        gbit: FloatArray,
        at_least: float,
        group: IntArray | None = None,
        group_job: IntArray | None = None,
    ) -> LeastTime:
        """Return what is known of the least seconds in which demands fit through the live cables.

        Args:
            src: [N] source leaf of each demand.
            dst: [N] destination leaf of each demand, joined to the source by at least one live path.
            gbit: [N] size of each demand.
            at_least: seconds that host links and cuts require.
            group: [N] phase group; see ``concurrent.least_time``.
            group_job: [G] job of each group.
        """
        known = LeastTime(at_least, np.inf)
        if group_job is None or len(group_job) == 1:
            known = self._priced.least_time(src, dst, gbit, at_least)
            if known.exact:
                return known
        most = sys.maxsize if self._exact else min(MOST_VARIABLES, self._left)
        solved = concurrent.least_time(self._fabric, src, dst, gbit, group, group_job, most=most)
        if solved is None:
            return known
        self._left -= solved.variables
        seconds = max(at_least, solved.seconds)
        return LeastTime(seconds, seconds)
