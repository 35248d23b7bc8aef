"""Tables of a plan, for plans from files and plans of a running controller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from controller.cli.output import (
    EXPECTED,
    expected_cells,
    expected_line,
    number,
    print_collectives,
    print_table,
    seconds,
)

_BUSIEST = 8  # number of links in the table; the JSON has all of them


def print_plan(title: str, plan: dict[str, Any], flows: Sequence[int], cables: Iterable[dict[str, Any]]) -> None:
    """Print the measures of a plan, its collectives, and its busiest links.

    Args:
        title: title of the first table.
        plan: ``controller.rest.schemas.Plan``; its ``flows`` and ``links`` are not used.
        flows: number of flows of each collective.
        cables: rows of the links between leaves and spines.
    """
    print_table(
        title,
        ("min speed>", "min level>", "bound, split>", "bound, single>", "gap>", "unroutable>"),
        [
            (
                number(plan["min_speed"]),
                number(plan["min_level"]),
                number(plan["bound_split"]),
                number(plan["bound_single"]),
                number(plan["gap"]),
                str(len(plan["unroutable"])),
            )
        ],
    )
    print_collectives(plan["collectives"], flows)
    if plan.get("times"):
        _print_times(plan["times"])
    busiest = sorted(cables, key=lambda row: row["load_gbps"] / row["gbps"], reverse=True)[:_BUSIEST]
    print_table(
        "busiest links between leaves and spines, at these speeds",
        ("link", "Gbit/s>", "load>", "of it>"),
        (
            (row["id"], number(row["gbps"], 1), number(row["load_gbps"], 1), f"{row['load_gbps'] / row['gbps']:.0%}")
            for row in busiest
        ),
    )


def _print_times(times: dict[str, Any]) -> None:
    print_table(
        expected_line(times),
        ("job", "computes>", "alone>", *EXPECTED),
        (
            (
                row["job"],
                seconds(row["compute_seconds"]),
                seconds(row["alone_seconds"]),
                *expected_cells(row),
            )
            for row in times["jobs"]
        ),
    )
