"""Routing: traffic to an assignment of paths. ``assign`` is the front door, ``POLICIES`` says what there is."""

from controller.routing.base import TOLERANCE, Options, Policy, Result
from controller.routing.previous import Previous
from controller.routing.registry import DRAWING, ENFORCEABLE, POLICIES, assign
from controller.routing.warm_up import warm_up

__all__ = [
    "DRAWING",
    "ENFORCEABLE",
    "POLICIES",
    "TOLERANCE",
    "Options",
    "Policy",
    "Previous",
    "Result",
    "assign",
    "warm_up",
]
