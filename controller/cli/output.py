"""How commands print: tables for people, JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated

import typer


class Format(StrEnum):
    """What ``--format`` may be."""

    TABLE = "table"
    JSON = "json"


FormatOption = Annotated[Format, typer.Option("--format", help="A table for people or JSON for programs.")]


def print_json(document: bytes) -> None:
    """A document on a line of its own."""
    sys.stdout.write(document.decode() + "\n")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table; columns whose name ends in ``>`` are numbers, set to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column.removesuffix(">"), justify="right" if column.endswith(">") else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(highlight=False)
    if not console.is_terminal:
        # A file or a pipe has no width; what reads it wants whole rows.
        console = Console(highlight=False, width=max(80, console.measure(table).maximum))
    console.print(table)


def number(value: float | None, digits: int = 3) -> str:
    """A number for a table, ``-`` where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def seconds(value: float | None) -> str:
    """A time for a table: ``1.234 s``, ``56.7 ms``, ``89.1 us``."""
    if value is None:
        return "-"
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if value * factor >= 1:
            return f"{value * factor:.4g} {unit}"
    return f"{value * 1e6:.3g} us"


def size(value: float) -> str:
    """Bytes for a table: ``1.5 GB`` (powers of 1000)."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= factor:
            return f"{value / factor:.4g} {unit}"
    return f"{value:.0f} B"
