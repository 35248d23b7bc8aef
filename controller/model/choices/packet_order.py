"""Whether receivers need the packets of a flow in the order in which they were sent."""

from __future__ import annotations

from typing import Literal

PacketOrder = Literal["kept", "any"]
"""``kept``: packets that overtake each other count as lost, so a flow has one path. ``any``: receivers place each
packet where it belongs, so packets of a flow may take all paths at once."""

KEPT: PacketOrder = "kept"
"""The order of jobs that state none."""
