"""Tables of a plan, for plans from files and plans of a running controller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from controller.cli.shared.output import (
    EXPECTED,
    Printer,
    expected_cells,
    expected_line,
    number,
    print_collectives,
    print_tenants,
    seconds,
)

SHIFT = ("job", "shift_seconds", "period_seconds", "hold", "iteration_seconds", "compatibility")
"""Fields of a job's shift."""

_BUSIEST = 8  # number of links in the table; the JSON has all of them


def print_plan(
    output: Printer, title: str, plan: dict[str, Any], flows: Sequence[int], cables: Iterable[dict[str, Any]]
) -> None:
    """Print the measures of a plan, its collectives, and its busiest links.

    Args:
        output: where and how to print.
        title: title of the first table.
        plan: ``controller.rest.schemas.Plan``; its ``flows`` and ``links`` are not used.
        flows: number of flows of each collective.
        cables: rows of the links between switches.
    """
    output.table(
        title,
        ("min speed>", "min level>", "bound, split>", "bound, single>", "gap>", "unroutable>"),
        [
            (
                number(plan["min_speed"]),
                number(plan["min_level"]),
                ("" if plan.get("bound_split_exact", True) else "≤ ") + number(plan["bound_split"]),
                number(plan["bound_single"]),
                number(plan["gap"]),
                str(len(plan["unroutable"])),
            )
        ],
    )
    print_collectives(output, plan["collectives"], flows)
    if plan.get("tenants"):
        print_tenants(output, plan["tenants"])
    if plan.get("times"):
        _print_times(output, plan["times"])
    if plan.get("schedule"):
        print_schedule(output, plan["schedule"])
    if plan.get("classes"):
        _print_classes(output, plan["classes"])
    cables = list(cables)
    _print_planes(output, cables)
    busiest = sorted(cables, key=lambda row: row["load_gbps"] / row["gbps"], reverse=True)[:_BUSIEST]
    planes = any(row.get("plane") for row in busiest)
    output.table(
        "busiest links between switches, at these speeds",
        ("link", *(("plane>",) * planes), "Gbit/s>", "load>", "of it>"),
        (
            (
                row["id"],
                *((str(row.get("plane") or "-"),) * planes),
                number(row["gbps"], 1),
                number(row["load_gbps"], 1),
                f"{row['load_gbps'] / row['gbps']:.0%}",
            )
            for row in busiest
        ),
    )


def _print_planes(output: Printer, cables: Iterable[dict[str, Any]]) -> None:
    """Print the loads of each plane, where NICs have several ports."""
    by_plane: dict[int, list[float]] = {}
    for row in cables:
        if row.get("plane"):
            by_plane.setdefault(row["plane"], []).append(row["load_gbps"] / row["gbps"])
    if by_plane:
        output.table(
            "planes, at these speeds",
            ("plane", "links between switches>", "mean load>", "highest>"),
            (
                (f"plane{plane}", str(len(loads)), f"{sum(loads) / len(loads):.0%}", f"{max(loads):.0%}")
                for plane, loads in sorted(by_plane.items())
            ),
        )


def _print_times(output: Printer, times: dict[str, Any]) -> None:
    output.table(
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
        give_up=("duty>", "computes>"),
    )


def _print_classes(output: Printer, rows: Sequence[dict[str, Any]]) -> None:
    """Print the chosen classes of priority: ``controller.rest.schemas.ChosenClass``."""
    # It needs NumPy, which takes time to load, and few plans have classes.
    from controller.model.priority import DSCP

    output.table(
        "chosen classes of priority: packets of a higher one go first",
        ("job", "class>", "dscp>"),
        ((row["job"], str(row["class"]), str(DSCP[row["class"]])) for row in rows),
    )


def print_schedule(output: Printer, schedule: dict[str, Any]) -> None:
    """Print when the jobs' iterations begin: ``controller.rest.schemas.Schedule``."""
    print_shifts(
        output,
        f"iterations that begin at shift + k * period: {schedule['slowdown']:.3f} times as long as alone, at least "
        f"{schedule['bound']:.3f}",
        schedule["jobs"],
    )


def print_shifts(output: Printer, title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print when the iterations of some jobs begin: ``controller.rest.schemas.JobShift``."""
    output.table(
        title,
        ("job", "shift>", "period>", "held", "iteration>", "sends unhindered>"),
        (
            (
                row["job"],
                f"{row['shift_seconds']:.6f} s",
                f"{row['period_seconds']:.6f} s",
                "yes" if row["hold"] else "no",
                seconds(row["iteration_seconds"]),
                f"{row['compatibility']:.0%}",
            )
            for row in rows
        ),
        give_up=("sends unhindered>", "iteration>"),
    )
