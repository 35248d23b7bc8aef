"""The three ways to make switches follow a plan."""

from __future__ import annotations

from typing import Literal, get_args

Enforcement = Literal["per_flow", "segment_routing", "source_port"]
"""``per_flow``: a rule a flow at its first leaf. ``segment_routing``: that rule pushes MPLS labels. ``source_port``: no
rule a flow; the UDP source port that the host sends from says the path."""

ENFORCEMENTS: tuple[Enforcement, ...] = get_args(Enforcement)
