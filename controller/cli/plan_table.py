"""A plan as tables, from files and from a running controller alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from controller.cli.output import number, print_collectives, print_table

_BUSIEST = 8  # links in the table; all of them are in the JSON


def print_plan(title: str, plan: dict[str, Any], flows: Sequence[int], cables: Iterable[dict[str, Any]]) -> None:
    """What a plan is worth, its collectives, and its busiest links.

    Args:
        plan: ``controller.rest.schemas.Plan``; its ``flows`` and ``links`` are not looked at.
        flows: how many each collective has.
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
    busiest = sorted(cables, key=lambda row: row["load_gbps"] / row["gbps"], reverse=True)[:_BUSIEST]
    print_table(
        "busiest links between leaves and spines, at these speeds",
        ("link", "Gbit/s>", "load>", "of it>"),
        (
            (row["id"], number(row["gbps"], 1), number(row["load_gbps"], 1), f"{row['load_gbps'] / row['gbps']:.0%}")
            for row in busiest
        ),
    )
