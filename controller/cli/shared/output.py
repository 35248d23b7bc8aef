"""Output of commands: tables for people, JSON and YAML for programs."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from controller.cli.shared.tables import table_of
from controller.model.errors import one_line


class OutputFormat(StrEnum):
    """Values of ``--format``."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


FORMAT_NAMES = ("--format", "--output")


@dataclass(frozen=True)
class Printer:
    """Options of what a command prints, and how it is printed."""

    format: Annotated[
        OutputFormat, typer.Option(*FORMAT_NAMES, help="A table for people, or JSON or YAML for programs.")
    ] = OutputFormat.TABLE
    wide: Annotated[
        bool, typer.Option("--wide", help="Show all columns of tables, and all text, however wide they are.")
    ] = False

    @property
    def is_table(self) -> bool:
        """True if people read the output."""
        return self.format is OutputFormat.TABLE

    def document(self, document: Any, *, err: bool = False) -> None:
        """Print a document for programs, on standard error if ``err`` is set."""
        print_document(document, self.format, err=err)

    def table(
        self,
        title: str,
        columns: Sequence[str],
        rows: Iterable[Sequence[str]],
        *,
        give_up: Sequence[str] = (),
        shorten: Sequence[str] = (),
        err: bool = False,
        note: bool = True,
    ) -> list[str]:
        """Print a title and a table (see ``table_of``); return the columns that the screen has no room for.

        A line below the table names them if ``note`` is set.
        """
        from rich.console import Console

        width = None if self.wide else screen().columns
        table, without = table_of(columns, rows, width=width, give_up=give_up, shorten=shorten)
        # Each row is one line, whatever the screen's width: rich must not break it once more.
        console = Console(width=10_000, highlight=False, stderr=err)
        if title:
            self.line(title, "bold", err=err)
        console.print(table)
        if without and note:
            self.line(f"--wide also shows: {', '.join(without)}", "dim", err=err)
        return without

    def line(self, text: str, style: str = "", *, err: bool = False) -> None:
        """Print a text, in as many lines as the width of the screen requires; ``style`` is one of rich."""
        from rich.console import Console
        from rich.text import Text

        console = Console(highlight=False, stderr=err)
        for line in self._lines(text):
            console.print(Text(line, style=style), soft_wrap=True)

    def height(self, text: str) -> int:
        """Return the number of lines of a text."""
        return len(self._lines(text))

    def _lines(self, text: str) -> list[str]:
        text = one_line(text)
        wrapped = textwrap.wrap(text, screen().columns, break_long_words=False, break_on_hyphens=False)
        return [text] if self.wide else wrapped or [""]


def screen() -> os.terminal_size:
    """Return columns and lines of the terminal; of the environment, or 80 x 24, without one."""
    return shutil.get_terminal_size()


def print_document(document: Any, format: OutputFormat, *, err: bool = False) -> None:
    """Print a document as a line of JSON, or as YAML (after ``---`` each, so that several can follow)."""
    import orjson

    encoded = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    if format is OutputFormat.YAML:
        from controller.model.files.fabric_file import yaml_of

        # By way of JSON: the same values in both formats.
        text = f"---\n{yaml_of(orjson.loads(encoded))}"
    else:
        text = f"{encoded.decode()}\n"
    (sys.stderr if err else sys.stdout).write(text)


EXPECTED = ("iteration>", "slowdown>", "duty>")
"""Columns of a job's expected iterations."""

COLLECTIVE = ("job", "name", "speed", "ideal_seconds", "seconds", "slowdown")
"""Members that are read of a collective."""


TENANT = ("name", "weight", "jobs", "flows", "bytes", "min_speed", "slowdown")
"""Members of a row of a tenant."""


def print_tenants(output: Printer, tenants: Sequence[Mapping[str, Any]]) -> None:
    """Print what the jobs of each tenant get (``controller.rest.schemas.TenantRow``)."""
    timed = any(row["slowdown"] is not None for row in tenants)
    output.table(
        plural(len(tenants), "tenant"),
        ("tenant", "weight>", "jobs>", "flows>", "bytes>", "planned>", *(("iterations ÷ alone>",) * timed)),
        (
            (
                str(row["name"]),
                f"{row['weight']:g}",
                str(row["jobs"]),
                str(row["flows"]),
                size(row["bytes"]),
                number(row["min_speed"]),
                *((number(row["slowdown"]),) * timed),
            )
            for row in tenants
        ),
        give_up=("bytes>", "flows>"),
    )


def print_collectives(output: Printer, rows: Sequence[Mapping[str, Any]], flows: Sequence[int]) -> None:
    """Print the collectives of a plan (or of one job) as a table; ``flows`` is the number of flows of each.

    Where some job states its computing times, the table tells the expected period and duty of each collective; where
    some states what collectives wait for, also in which part of the iterations they bind, and their slack.
    """
    timed = any(row.get("duty") is not None for row in rows)
    ordered = any(row.get("binds") is not None for row in rows)
    columns = [*(("period>", "duty>") * timed), *(("binds>", "slack>") * ordered)]
    output.table(
        "collectives",
        ("job", "collective", "flows>", "speed>", "time>", "alone>", "slowdown>", *columns),
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
                *((share(row.get("binds")), seconds(row.get("slack_seconds"))) if ordered else ()),
            )
            for row, count in zip(rows, flows, strict=True)
        ),
        give_up=("period>", "flows>", "alone>", "duty>"),
    )


def plural(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: ``1 job``, ``2 jobs``; ``many`` where the plural has no ``s`` at its end."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def number(value: float | None, digits: int = 3) -> str:
    """Format a number for a table, ``-`` for ``None``."""
    return "-" if value is None else f"{value:.{digits}f}"


def expected_speed(known: float | None, expected: Mapping[str, float] | None) -> str:
    """Format a speed for a table, or the expected one where hashing decides it."""
    if known is not None or expected is None:
        return number(known)
    return f"about {number(expected['mean'])} ({number(expected['min'])} to {number(expected['max'])})"


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
        f"iterations over random phases: {times['slowdown']:.3f} times as long as alone, at least {times['bound']:.3f}"
    )


def seconds(value: float | None) -> str:
    """Format a duration for a table: ``1.234 s``, ``56.7 ms``, ``89.1 us``."""
    if value is None:
        return "-"
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if value * factor >= 1:
            return f"{value * factor:.4g} {unit}"
    return f"{value * 1e6:.3g} us"


def activity(active: bool | None, flows: int) -> str:
    """Say for a table whether the newest plan of a job is active; ``None``: a follower does not know."""
    if not flows:
        return "no flows"
    return "-" if active is None else "yes" if active else "not yet"


def link_state(row: Mapping[str, Any]) -> str:
    """Say for a table whether a link is up; unknown: it was, and a switch at its end is not connected now."""
    if not row["up"]:
        return "failed"
    return "unknown" if not row.get("known", True) else "drained" if row["drained"] else "up"


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
