"""The open QPs of a host in pages, of which each report tells one: thousands of QPs are more than a report may have."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

LOG = logging.getLogger("fairspine.agent")

MOST_REPORTED = 8192
"""QPs of a page."""
MOST_PAGES = 12
"""The controller takes 100,000 QPs of a host."""

_SPREADS = 0x9E3779B1
"""An odd factor: its products have other upper bits for numbers that differ by powers of two, too."""

Row = dict[str, Any]


class QpPages:
    """What is told of open QPs. The number of a QP says on which page it is, so each page can be told anew alone."""

    def __init__(self) -> None:
        """Begin without QPs; nothing tells of any."""
        self._rows: Sequence[Row] | None = None
        self._pages: list[list[Row]] = []
        self._told: list[list[Row] | None] = []
        self._next = 0
        self._are_too_many = False

    def take(self, rows: Sequence[Row] | None) -> bool:
        """Take all QPs; return whether there is something new to tell."""
        if rows == self._rows:
            return False
        self._rows, before = rows, len(self._pages)
        self._pages = [] if rows is None else _paged(rows)
        if len(self._pages) != before:
            self._told = [None] * len(self._pages)
        too_many = rows is not None and not self._pages
        if rows is not None and too_many and not self._are_too_many:
            most = MOST_PAGES * MOST_REPORTED
            LOG.warning("%d QPs are open, and at most %d can be told: the controller hears of none", len(rows), most)
        self._are_too_many = too_many
        return self.lacks or len(self._pages) != before

    @property
    def lacks(self) -> bool:
        """Whether a page is not told as it is now."""
        return any(page != told for page, told in zip(self._pages, self._told, strict=True))

    def next(self) -> dict[str, Any]:
        """Return the part of a report: the next page that is new, or else the next one; empty: nothing can be told."""
        pages = len(self._pages)
        if not pages:
            return {}
        order = [(self._next + n) % pages for n in range(pages)]
        page = next((n for n in order if self._pages[n] != self._told[n]), order[0])
        self._next = (page + 1) % pages
        self._told[page] = self._pages[page]
        return {"qps": self._pages[page]} | ({} if pages == 1 else {"qps_page": page, "qps_pages": pages})


def _paged(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the fewest pages on which all have room; none: there are too many."""
    for many in range(max(1, -(-len(rows) // MOST_REPORTED)), MOST_PAGES + 1):
        pages: list[list[Row]] = [[] for _ in range(many)]
        for row in rows:
            pages[((row["qp"] * _SPREADS & 0xFFFFFFFF) >> 12) % many].append(row)
        if max(map(len, pages)) <= MOST_REPORTED:
            return pages
    return []
