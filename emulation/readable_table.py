"""Tables on standard output that people read."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table


def console_of(width: int) -> Console:
    """Return standard output: as wide as its terminal, or of this width where there is none."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=width)


def table_of(columns: Sequence[str], left: int) -> Table:
    """Return a table without rows, of which the first ``left`` columns are aligned to the left, the others right."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i < left else "right")
    return table
