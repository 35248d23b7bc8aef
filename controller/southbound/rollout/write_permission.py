"""The permission to change switches, which every message that changes one needs."""

from __future__ import annotations


class WritePermission:
    """Whether this controller may change rules, groups and meters, and send packets; one object for all switches.

    Attributes:
        withheld: why it may not; empty: it may.
    """

    def __init__(self) -> None:
        """Begin with the permission given."""
        self.withheld = ""
