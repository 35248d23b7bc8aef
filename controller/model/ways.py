"""The ways through a fabric, as the arrays that planning works on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LinkTable = NDArray[np.int32]

NO_LINK = -1


class Tier(NamedTuple):
    """The links between the N switches of a tier and the tier above, by the choice that leads over them.

    A unit that goes up from switch a and comes down to switch b makes one choice k for both directions. It is possible
    if neither ``up[a, k]`` nor ``down[b, k]`` is ``NO_LINK``.

    Attributes:
        up: [N, K] link by which choice k leaves each switch, ``NO_LINK`` where there is none.
        down: [N, K] link by which choice k reaches each switch, ``NO_LINK`` where there is none.
    """

    up: LinkTable
    down: LinkTable

    @property
    def n_choices(self) -> int:
        """The number K of choices."""
        return int(self.up.shape[1])

    def possible(self, src: NDArray[np.integer], dst: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return whether each choice leads from each source to its destination: [N, K] for arrays [N] of switches."""
        return np.asarray((self.up[src] >= 0) & (self.down[dst] >= 0))

    def joined(
        self, src: NDArray[np.integer], dst: NDArray[np.integer], choice: NDArray[np.integer]
    ) -> NDArray[np.bool_]:
        """Return whether each choice leads from its source to its destination, for arrays of equal shapes."""
        return np.asarray((self.up[src, choice] >= 0) & (self.down[dst, choice] >= 0))
