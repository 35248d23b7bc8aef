"""Tables for people, which fit the width of the screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.model.errors import one_line

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment

SHORTEST = 20
"""Columns are shortened to this number of characters before another column is given up."""

_GAP = 3  # characters between two columns
_MARGIN = 2  # characters beside the outer columns


@dataclass(frozen=True)
class TextTable:
    """A table of one line a row, which rich can print.

    It looks like a ``rich.table.Table`` in the style ``SIMPLE_HEAD``. That one lays out each cell by itself, which
    takes seconds for thousands of rows.

    Attributes:
        header: the names of the columns.
        rows: the cells of each row.
        widths: the width of each column; text that is wider ends in ``…``.
        right: whether each column is aligned to the right.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    widths: Sequence[int]
    right: Sequence[bool]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        """Yield an empty line, the header, a rule, the rows, and an empty line, all of one width."""
        from rich.segment import Segment
        from rich.style import Style

        gap = " " * _GAP
        width = sum(self.widths) + _GAP * (len(self.widths) - 1)
        yield Segment(f" {' ' * width} \n")
        yield Segment(" ")
        yield Segment(gap.join(self._cells(self.header)), Style(bold=True))
        yield Segment(f" \n {'─' * width} \n")
        for row in self.rows:
            yield Segment(f" {gap.join(self._cells(row))} \n")
        yield Segment(f" {' ' * width} \n")

    def _cells(self, row: Sequence[str]) -> list[str]:
        from rich.cells import cell_len, set_cell_size

        padded = []
        for cell, width, right in zip(row, self.widths, self.right, strict=True):
            room = width - cell_len(cell)
            if room < 0:
                cell, room = set_cell_size(cell, width - 1) + "…", 0
            padded.append(" " * room + cell if right else cell + " " * room)
        return padded


def table_of(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    width: int | None,
    give_up: Sequence[str] = (),
    shorten: Sequence[str] = (),
) -> tuple[TextTable, list[str]]:
    """Return a table of one line a row, and the names of the columns that were given up.

    Args:
        columns: names of the columns; those that end in ``>`` are aligned to the right, and are never shortened.
        rows: one cell a column.
        width: width in characters; ``None``: as wide as needed, without giving up or shortening anything.
        give_up: the columns that can be given up, the first one first.
        shorten: the columns of text that are shortened before one is given up. If that is not enough, every column of
            text is shortened. A shortened cell ends in ``…``.
    """
    # Names from a file or from the network may contain control characters.
    cells = [[cell if cell.isprintable() else one_line(cell) for cell in row] for row in rows]
    natural = _natural(columns, cells)
    kept, widths = list(range(len(columns))), natural
    if width is not None:
        kept, widths = _fitted(columns, natural, width, give_up, shorten)
    table = TextTable(
        [columns[i].removesuffix(">") for i in kept],
        [[row[i] for i in kept] for row in cells],
        [widths[i] for i in kept],
        [columns[i].endswith(">") for i in kept],
    )
    return table, [columns[i].removesuffix(">") for i in range(len(columns)) if i not in kept]


def _natural(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column if nothing is shortened."""
    from rich.cells import cell_len

    return [
        max([cell_len(column.removesuffix(">")), *(cell_len(row[i]) for row in cells)])
        for i, column in enumerate(columns)
    ]


def _fitted(
    columns: Sequence[str], natural: Sequence[int], width: int, give_up: Sequence[str], shorten: Sequence[str]
) -> tuple[list[int], list[int]]:
    """Return the indices of the columns that stay, and the width of every column."""
    kept = list(range(len(columns)))
    going = [columns.index(name) for name in give_up if name in columns]
    least = [min(n, SHORTEST) if column in shorten else n for n, column in zip(natural, columns, strict=True)]

    def excess(widths: Sequence[int]) -> int:
        return sum(widths[i] for i in kept) + _GAP * (len(kept) - 1) + _MARGIN - width

    while going and excess(least) > 0:
        kept.remove(going.pop(0))
    # Text can be shortened, numbers cannot: a part of a number is another number.
    texts = [i for i in kept if not columns[i].endswith(">")]
    first = [i for i in texts if columns[i] in shorten]
    widths = list(natural)
    _shorten(widths, first, excess(widths), SHORTEST)
    _shorten(widths, texts, excess(widths), 1)
    return kept, widths


def _shorten(widths: list[int], some: Sequence[int], excess: int, least: int) -> None:
    """Make the widest of some columns narrower, one character at a time, until nothing is in excess."""
    while excess > 0 and some and widths[widest := max(some, key=lambda i: widths[i])] > least:
        widths[widest] -= 1
        excess -= 1
