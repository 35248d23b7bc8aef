"""Classes of priority, in which outputs serve packets: a higher class first, with a floor for the lower ones.

A flow has ``SHARE`` times the rate of a flow of the class below it where they share a full link. That is strict
priority with a floor: as ``SHARE`` grows, progressive filling by weights becomes progressive filling class by class on
what is left (docs/explanation/objective.md, "Classes").
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from controller.model.fabric import FloatArray, IntArray

CLASSES = 4
"""Classes of priority: 0 is the lowest one, that of jobs which state none."""

SHARE = 100.0
"""Rate of a flow beside one of the class below, so the floor of that class is about one part in so many."""

DSCP = (0, 16, 24, 32)
"""DSCP of the packets of each class: default forwarding, then CS2 to CS4 (RFC 2474); CS1 is often less than that."""


class JobClass(NamedTuple):
    """The class of priority that a plan chooses for all collectives of a job."""

    job: str
    priority: int


def shares(classes: IntArray) -> FloatArray:
    """Return the proportions of the rates of flows of these classes on a full link.

    >>> shares(np.array([0, 1, 0]))
    array([  1., 100.,   1.])
    """
    factor: FloatArray = SHARE ** np.asarray(classes, dtype=np.float64)
    return factor
