"""What changes of the list of links, so that a client that has it is sent the changes alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.model.traffic import Int64Array


class LinkVersion(NamedTuple):
    """One version of the list of links.

    Attributes:
        id: names the version; 1 to 64 letters, digits and ``-``.
        changed: [E] the version number at which each link last changed.
        number: of this version.
        complete: the number of the first version with the present links: clients with an earlier one need all of them.
    """

    id: str
    changed: Int64Array
    number: int
    complete: int

    def rows_since(self, version: str | None) -> NDArray[np.bool_] | None:
        """Return which links [E] have changed since a version; ``None``: that is not known, or all links are new."""
        run, _, number = self.id.rpartition("-")
        theirs, _, digits = (version or "").rpartition("-")
        if theirs != run or not (digits.isascii() and digits.isdigit()) or len(digits) > len(number):
            return None
        since = int(digits)
        return self.changed > since if self.complete <= since <= self.number else None


class LinkChanges:
    """Gives numbers to versions of the list of links. Keeps the newest version only."""

    def __init__(self, run: str) -> None:
        """Begin without links; ``run`` differs between runs of the controller and between lists."""
        self._run = run
        self._ids: Sequence[str] = ()
        self._values: NDArray[np.float64] = np.empty((0, 0))
        self._version = LinkVersion(f"{run}-0", np.empty(0, dtype=np.int64), 0, 0)

    def update(self, ids: Sequence[str], values: NDArray[np.float64]) -> LinkVersion:
        """Return the version of the list with these values.

        Args:
            ids: of the E links.
            values: [E, V] all that is told of each link, NaN where it is not known.
        """
        version = self._version
        number = version.number + 1
        if self._ids != ids or self._values.shape != values.shape:
            version = LinkVersion(f"{self._run}-{number}", np.full(len(ids), number), number, number)
        else:
            same = (self._values == values) | (np.isnan(self._values) & np.isnan(values))
            differs = ~same.all(axis=1)
            if differs.any():
                changed = np.where(differs, number, version.changed)
                version = version._replace(id=f"{self._run}-{number}", changed=changed, number=number)
        self._ids, self._values, self._version = ids, values, version
        return version
