"""The choices of an integer program: units and their live path classes, and the resulting loads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.model.fabric import FloatArray
from controller.model.traffic import Int64Array
from controller.routing.placing.place_units import live_paths
from controller.routing.problem.demand import Demand
from controller.routing.relaxation.heaviest_phase import add_heaviest
from controller.routing.relaxation.solver import LinearProgram


@dataclass(frozen=True, eq=False)
class Pairs:
    """The N (unit, live path class) pairs that can be chosen, and the Q loads that they put on links.

    Attributes:
        unit: [N] unit of each pair.
        path: [N] path class of each pair.
        pair: [Q] pair of each load.
        part: [Q] part (flow) of each load.
        link: [Q] link of each load, as an index into ``links``.
        links: the links that any pair uses.
    """

    unit: Int64Array
    path: Int64Array
    pair: Int64Array
    part: Int64Array
    link: Int64Array
    links: Int64Array

    @staticmethod
    def of(demand: Demand) -> Pairs:
        """List the pairs of all units that need a path."""
        unit, path = live_paths(demand.fabric, demand.unit_src, demand.unit_dst)
        n_parts = np.diff(demand.part_ptr)[unit]
        pair = np.repeat(np.arange(len(unit)), n_parts)
        number = np.arange(len(pair)) - np.repeat(np.cumsum(n_parts) - n_parts, n_parts)
        part = demand.part_ptr[unit[pair]] + number
        own = demand.fabric.live_ways.links(demand.unit_src[unit], demand.unit_dst[unit], path)
        used = own[pair].T.reshape(-1)
        there = used >= 0
        links, link = np.unique(used[there], return_inverse=True)
        pair, part = np.tile(pair, own.shape[1])[there], np.tile(part, own.shape[1])[there]
        return Pairs(unit, path, pair, part, link.reshape(-1), links.astype(np.int64))

    def add_loads(
        self, program: LinearProgram, demand: Demand, rows: Int64Array, variable: Int64Array, load: FloatArray
    ) -> None:
        """Add ``load * variable`` [Q] to the capacity constraints; the heaviest phase of each job counts."""
        group = demand.part_group[self.part]
        steady = demand.group_job[group] == 0
        program.add(rows[self.link[steady]], variable[steady], load[steady])
        rest = ~steady
        add_heaviest(program, rows, self.link[rest], group[rest], demand.group_job, variable[rest], load[rest])
