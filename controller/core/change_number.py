"""The number of a change of a cluster's store: changes of all leaders are in one order."""

from __future__ import annotations

import re
from typing import NamedTuple

_FORM = re.compile(r"([0-9]+)-([0-9]+)")

_LONGEST = 100
"""Characters; far more than any number of a store has."""


class ChangeNumber(NamedTuple):
    """The place of a change among all changes; compared by term, then by number.

    Attributes:
        term: of the leader that made it.
        number: one more than that of the change before, of whichever term.
    """

    term: int
    number: int

    def __str__(self) -> str:
        """Return ``TERM-NUMBER``."""
        return f"{self.term}-{self.number}"

    @staticmethod
    def parse(text: str) -> ChangeNumber:
        """Return the number of ``TERM-NUMBER``.

        Raises:
            ValueError: the text is not of this form.
        """
        match = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
        if match is None:
            raise ValueError("must be like 4-51")
        return ChangeNumber(int(match[1]), int(match[2]))
