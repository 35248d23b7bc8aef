"""Room: what rates leave of links is given to the flows that can use it.

The flows of a stage end together, so one that is not on the fullest link has more time than it needs. At the rate of
the others it would still be as late as they are: on a ring, each step then waits for the latency of the step before.
With the room of its links it ends its steps earlier, and only the flows on full links are waited for. Where each host
has several peers, as in an all-to-all, nothing waits for a single flow, and full links only make queues.
"""

from __future__ import annotations

import numpy as np

from controller.model.assignment import UNROUTABLE, Assignment
from controller.model.fabric import BoolArray, Fabric, FloatArray
from controller.model.paths.ways import NO_LINK
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Int64Array, Traffic

ROUNDS = 8
"""Times that room is given out: each row takes its part of what is left on the fullest of its links."""


def with_room(
    fabric: Fabric,
    traffic: Traffic,
    assignment: Assignment,
    rows: Int64Array,
    least: FloatArray,
    waited_for: BoolArray,
) -> FloatArray:
    """Return rates [N] in Gbit/s, none below ``least`` and together within what links carry, if those are.

    Args:
        fabric: the fabric.
        traffic: the flows.
        assignment: their paths.
        rows: [N] rows of the assignment that are sent at once.
        least: [N] their rates without room.
        waited_for: [N] whether a host waits for the flow alone; others get no room.
    """
    flow, path = assignment.flow[rows], assignment.path[rows]
    sent = (path != UNROUTABLE) & (least > 0)
    src, dst = traffic.src[flow], traffic.dst[flow]
    paths = fabric.ways.links(fabric.host_leaf[src], fabric.host_leaf[dst], path)
    ends = np.stack([src, fabric.n_hosts + dst], axis=1).astype(paths.dtype)
    table = np.concatenate([ends, paths], axis=1)
    at, column = np.nonzero((table != NO_LINK) & sent[:, None])
    link = table[at, column]
    rate = np.where(sent, least, 0.0)
    capacity = fabric.link_gbps
    for _ in range(ROUNDS):
        room = capacity - np.bincount(link, weights=rate[at], minlength=len(capacity))
        rises = sent & waited_for
        rises[at[room[link] <= TOLERANCE * capacity[link]]] = False
        if not rises.any():
            break
        load = np.bincount(link, weights=np.where(rises, rate, 0.0)[at], minlength=len(capacity))
        more = np.full(len(rows), np.inf)
        np.minimum.at(more, at, np.divide(room, load, out=np.full(len(load), np.inf), where=load > 0)[link])
        rate[rises] *= 1 + more[rises]
    return np.where(sent, rate, least)
