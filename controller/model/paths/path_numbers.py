"""The number of a path, from the links that documents name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.model.fabric import Fabric
from controller.model.paths.ways import NO_LINK


@dataclass(frozen=True)
class PathNumbers:
    """The paths of a fabric by the links on which they go up; those on which they come down follow from these.

    Attributes:
        fabric: the fabric.
        choice: the choice that leads over each uplink, by the link's number.
    """

    fabric: Fabric
    choice: dict[int, int]

    @staticmethod
    def of(fabric: Fabric) -> PathNumbers:
        """Read the choices of a fabric's switches."""
        choice: dict[int, int] = {}
        for tier in range(fabric.ways.n_tiers):
            up = fabric.ways.tier(tier).up
            at, taken = np.nonzero(up != NO_LINK)
            choice.update(zip(up[at, taken].tolist(), taken.tolist(), strict=True))
        return PathNumbers(fabric, choice)

    def number(self, links: Sequence[str]) -> int | None:
        """Return the number of the path of a flow between leaves; ``None``: the fabric has no such path.

        Args:
            links: names of all links in the order of travel, with the two of the hosts.
        """
        ways, uplinks = self.fabric.ways, [self.fabric.link_index.get(name) for name in links[1 : len(links) // 2]]
        if len(links) % 2 or not 1 <= len(uplinks) <= ways.n_tiers:
            return None
        number = 0
        for tier, link in enumerate(uplinks):
            choice = None if link is None else self.choice.get(link)
            if choice is None:
                return None
            number = number * int(ways.width[tier]) + choice
        return int(ways.first[len(uplinks) - 1]) + number
