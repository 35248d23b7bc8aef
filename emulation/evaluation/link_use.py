"""Utilisation and imbalance of the links between leaves and spines in a simulation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emulation.fluid.records import Results


@dataclass(frozen=True)
class LinkUse:
    """Link use over the whole simulation, computation included, of cables that were up at its start or carried traffic.

    Attributes:
        mean, busiest: utilisation, between 0 and 1.
        imbalance: the busiest of a leaf's uplinks (downlinks) over their mean, averaged over leaves and directions and
            weighted by the carried traffic; 1 is even, ``None`` if nothing crossed the spines.
    """

    mean: float
    busiest: float
    imbalance: float | None


def link_use(results: Results) -> LinkUse:
    """Return the link use of a simulation."""
    fabric = results.fabric
    first = fabric.first_cable_link
    gbit = results.carried[first:].reshape(-1, 2)
    gbps = fabric.link_gbps[first:].reshape(-1, 2)
    there = fabric.link_up[first:].reshape(-1, 2) | (gbit > 0)
    seconds = results.ended - min(results.came.values(), default=0.0)
    if not there.any() or seconds <= 0:
        return LinkUse(0.0, 0.0, None)
    # A cable has its uplink first and its downlink second (controller.model.fabric).
    end = (fabric.cable_lower[:, None] * 2 + np.array([0, 1]))[there]
    gbit, gbps = gbit[there], gbps[there]
    used = gbit / gbps
    total, room = np.bincount(end, weights=gbit), np.bincount(end, weights=gbps)
    busiest = np.zeros(len(total))
    np.maximum.at(busiest, end, used)
    sends = total > 0
    uneven = busiest[sends] * room[sends] / total[sends]
    return LinkUse(
        mean=float(gbit.sum() / gbps.sum() / seconds),
        busiest=float(used.max() / seconds),
        imbalance=float(np.average(uneven, weights=total[sends])) if sends.any() else None,
    )
