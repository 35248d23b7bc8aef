"""Routing: from traffic to an assignment of paths. ``assign`` is the entry point, ``POLICIES`` lists the policies."""

from controller.routing.base import Options, Policy, Result
from controller.routing.problem.previous_plan import PreviousPlan
from controller.routing.registry import BUILT_IN, POLICIES, advising, assign, draws, enforceable, estimating, followed
from controller.routing.warm_up import warm_up, warm_up_for

__all__ = [
    "BUILT_IN",
    "POLICIES",
    "Options",
    "Policy",
    "PreviousPlan",
    "Result",
    "advising",
    "assign",
    "draws",
    "enforceable",
    "estimating",
    "followed",
    "warm_up",
    "warm_up_for",
]
