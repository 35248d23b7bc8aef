"""Output functions of commands: tables for people, JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.model.errors import one_line

if TYPE_CHECKING:
    from rich.table import Table

_WIDE = 160


class OutputFormat(StrEnum):
    """Values of ``--format``."""

    TABLE = "table"
    JSON = "json"


FormatOption = Annotated[OutputFormat, typer.Option("--format", help="A table for people or JSON for programs.")]


def print_json(document: bytes) -> None:
    """Print an encoded JSON document and a newline."""
    sys.stdout.write(document.decode() + "\n")


def table_of(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a rich table; columns whose name ends in ``>`` are aligned to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column.removesuffix(">"), justify="right" if column.endswith(">") else "left", overflow="fold")
    for row in rows:
        # Names from a file or from the network may contain markup and control characters: Text is not parsed, and
        # one_line removes control characters.
        table.add_row(*(Text(one_line(cell)) for cell in row))
    return table


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, err: bool = False) -> None:
    """Print a title and a table (see ``table_of``), on standard error if ``err`` is set."""
    from rich.console import Console
    from rich.text import Text

    table = table_of(columns, rows)
    # A file or a pipe has no width; its reader needs unbroken rows.
    stream = sys.stderr if err else sys.stdout
    console = Console(width=None if stream.isatty() else _WIDE, highlight=False, stderr=err)
    console.print(Text(one_line(title), style="bold"))
    console.print(table)


EXPECTED = ("iteration>", "slowdown>", "duty>")
"""Columns of a job's expected iterations."""

COLLECTIVE = ("job", "name", "speed", "ideal_seconds", "seconds", "slowdown")
"""Members that are read of a collective."""


def print_collectives(rows: Sequence[Mapping[str, Any]], flows: Sequence[int]) -> None:
    """Print the collectives of a plan (or of one job) as a table; ``flows`` is the number of flows of each.

    Where some job states its computing times, the table tells the expected period and duty of each collective.
    """
    timed = any(row.get("duty") is not None for row in rows)
    print_table(
        "collectives",
        ("job", "collective", "flows>", "speed>", "time>", "alone>", "slowdown>", *(("period>", "duty>") * timed)),
        (
            (
                row["job"],
                row["name"],
                str(count),
                number(row["speed"]),
                seconds(row["seconds"]),
                seconds(row["ideal_seconds"]),
                number(row["slowdown"]),
                *((seconds(row["period_seconds"]), share(row["duty"])) if timed else ()),
            )
            for row, count in zip(rows, flows, strict=True)
        ),
    )


def plural(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: ``1 job``, ``2 jobs``; ``many`` where the plural has no ``s`` at its end."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def number(value: float | None, digits: int = 3) -> str:
    """Format a number for a table, ``-`` for ``None``."""
    return "-" if value is None else f"{value:.{digits}f}"


def share(value: float | None) -> str:
    """Format a part of a whole for a table: ``25%``."""
    return "-" if value is None else f"{value:.0%}"


def expected_cells(times: Mapping[str, Any] | None) -> tuple[str, str, str]:
    """Return the expected iteration time, slowdown and duty of a job; dashes where they are unknown."""
    if times is None:
        return "-", "-", "-"
    return seconds(times["iteration_seconds"]), number(times["slowdown"]), share(times["duty"])


def expected_line(times: Mapping[str, Any]) -> str:
    """Return what a plan or a list of jobs tells of the mean expected slowdown, as a line."""
    return (
        f"expected iterations over random phases: {times['slowdown']:.3f} times as long as alone, at least "
        f"{times['bound']:.3f}"
    )


def seconds(value: float | None) -> str:
    """Format a duration for a table: ``1.234 s``, ``56.7 ms``, ``89.1 us``."""
    if value is None:
        return "-"
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if value * factor >= 1:
            return f"{value * factor:.4g} {unit}"
    return f"{value * 1e6:.3g} us"


def moment(text: str) -> str:
    """Format a timestamp (RFC 3339) for a table, in UTC: ``2026-01-02 03:12:00``."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return text


def size(value: float) -> str:
    """Format a number of bytes for a table: ``1.5 GB`` (powers of 1000)."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= factor:
            return f"{value / factor:.4g} {unit}"
    return f"{value:.0f} B"
