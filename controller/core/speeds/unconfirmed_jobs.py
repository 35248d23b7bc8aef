"""The jobs whose flows pass switches that have not confirmed their rules."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from controller.core.controller_state import ControllerState


def jobs_through(state: ControllerState, switches: Collection[str]) -> frozenset[str]:
    """Return the jobs of which a planned path begins or ends at one of these switches, or leads through one.

    Args:
        state: the newest state.
        switches: names of switches.
    """
    fabric, candidate = state.fabric, state.candidate
    if fabric is None or candidate is None or not switches:
        return frozenset()
    rows, traffic = candidate.plan.assignment, candidate.traffic
    through = np.zeros(fabric.n_links, dtype=np.bool_)
    for number, cable in enumerate(fabric.cables):
        first = fabric.first_cable_link + 2 * number
        through[first : first + 2] = cable.lower in switches or cable.upper in switches
    at = np.array([leaf in switches for leaf in fabric.leaf_index], dtype=np.bool_)
    src, dst = (fabric.host_leaf[end[rows.flow]] for end in (traffic.src, traffic.dst))
    links = fabric.ways.links(src, dst, rows.path)
    met = at[src] | at[dst] | (through[links] & (links >= 0)).any(axis=1)
    return frozenset(traffic.collectives[k].job for k in np.unique(traffic.collective[rows.flow[met]]).tolist())
