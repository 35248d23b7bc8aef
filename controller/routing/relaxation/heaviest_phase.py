"""Capacity constraints in which only the heaviest phase of each job counts."""

from __future__ import annotations

import numpy as np

from controller.model.fabric import FloatArray, IntArray
from controller.model.traffic import Int64Array
from controller.routing.relaxation.solver import LinearProgram


def add_heaviest(
    program: LinearProgram,
    link_rows: Int64Array,
    link: Int64Array,
    group: IntArray,
    group_job: IntArray,
    variable: Int64Array,
    load: FloatArray | float,
) -> None:
    """Let only the heaviest phase group of each job count in the capacity constraints.

    One variable for each job and link is at least the load of each of the job's groups there, and replaces them.

    Args:
        program: the program to extend.
        link_rows: the capacity constraint of each link.
        link: [N] link of each term.
        group: [N] phase group of each term.
        group_job: [G] job of each group.
        variable: [N] column of each term.
        load: [N] factor of each term: the group puts ``load * variable`` on the link.
    """
    if not len(link):
        return
    cells, cell = np.unique(np.stack([group, link], axis=1), axis=0, return_inverse=True)
    jobs, heaviest = np.unique(np.stack([group_job[cells[:, 0]], cells[:, 1]], axis=1), axis=0, return_inverse=True)
    heavy = program.columns(len(jobs))
    program.add(link_rows[jobs[:, 1]], heavy, 1.0)
    group_rows = program.rows(len(cells), upper=0.0)
    program.add(group_rows[cell.reshape(-1)], variable, load)
    program.add(group_rows, heavy[heaviest.reshape(-1)], -1.0)
