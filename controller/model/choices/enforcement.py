"""The operating modes, and the three ways to enforce a plan on switches."""

from __future__ import annotations

from typing import Literal, get_args

Mode = Literal["planned", "ecmp", "frozen"]
"""``planned``: switches enforce the newest plan. ``ecmp``: no plan is, all traffic is hashed. ``frozen``: the
switches keep their rules until the mode is ``planned`` again."""

Enforcement = Literal["per_flow", "segment_routing", "source_port"]
"""``per_flow``: a rule a flow at its first leaf. ``segment_routing``: that rule pushes MPLS labels. ``source_port``: no
rule a flow; the UDP source port that the host sends from determines the path."""

ENFORCEMENTS: tuple[Enforcement, ...] = get_args(Enforcement)
