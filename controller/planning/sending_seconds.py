"""The seconds that collectives and flows of a plan are sent."""

from __future__ import annotations

import numpy as np

from controller.model.fabric import FloatArray
from controller.model.plan import Objective
from controller.model.traffic import Traffic


def collective_seconds(objective: Objective) -> FloatArray:
    """Return seconds [K] ``A_k / s_k``, NaN where a collective is not on the network or is unroutable."""
    speed = objective.speed
    seconds: FloatArray = objective.ideal_seconds / np.where(speed > 0, speed, np.nan)
    return seconds


def flow_seconds(traffic: Traffic, objective: Objective) -> FloatArray:
    """Return seconds [F] of each flow: those of its round where its collective is sent in rounds."""
    if objective.flow_seconds is not None:
        return objective.flow_seconds
    return collective_seconds(objective)[traffic.collective]
