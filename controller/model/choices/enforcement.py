"""The operating modes, and the names of the built-in enforcements: the ways to make switches follow a plan."""

from __future__ import annotations

from typing import Literal

Mode = Literal["planned", "ecmp", "frozen"]
"""``planned``: switches enforce the newest plan. ``ecmp``: no plan is, all traffic is hashed. ``frozen``: the
switches keep their rules until the mode is ``planned`` again."""

BUILT_IN_ENFORCEMENTS = ("per_flow", "segment_routing", "source_port", "srv6", "probed_port", "path_address")
"""Each is the value ``ENFORCEMENT`` of the module of this name in ``controller/southbound/enforcement``, whose registry
has those of plug-ins, too."""

DEFAULT_ENFORCEMENT = BUILT_IN_ENFORCEMENTS[0]
