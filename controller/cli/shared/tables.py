"""Tables for people, which fit the width of the screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from controller.model.errors import one_line

if TYPE_CHECKING:
    from rich.table import Table

SHORTEST = 20
"""Columns are shortened to this number of characters before another column is given up."""

_GAP = 3  # characters between two columns
_MARGIN = 2  # characters beside the outer columns


def table_of(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    width: int | None,
    give_up: Sequence[str] = (),
    shorten: Sequence[str] = (),
) -> tuple[Table, list[str]]:
    """Return a rich table of one line a row, and the names of the columns that were given up.

    Args:
        columns: names of the columns; those that end in ``>`` are aligned to the right, and are never shortened.
        rows: one cell a column.
        width: width in characters; ``None``: as wide as needed, without giving up or shortening anything.
        give_up: the columns that can be given up, the first one first.
        shorten: the columns of text that are shortened before one is given up. If that is not enough, every column of
            text is shortened. A shortened cell ends in ``…``.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    # Names from a file or from the network may contain control characters.
    cells = [[one_line(cell) for cell in row] for row in rows]
    natural = _natural(columns, cells)
    kept, widths = list(range(len(columns))), natural
    if width is not None:
        kept, widths = _fitted(columns, natural, width, give_up, shorten)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for i in kept:
        name, right = columns[i].removesuffix(">"), columns[i].endswith(">")
        table.add_column(
            Text(name), justify="right" if right else "left", overflow="ellipsis", no_wrap=True, width=widths[i]
        )
    for row in cells:
        # Names may contain markup, too, which Text does not parse.
        table.add_row(*(Text(row[i]) for i in kept))
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
