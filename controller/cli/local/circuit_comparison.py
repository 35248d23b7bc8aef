"""``fairspine compare`` on a fabric of optical circuits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from controller.circuits.fabric.optical_file import load_optical_fabric
from controller.circuits.planning.circuit_plan import CircuitPlan
from controller.circuits.planning.comparison import FAT_TREE_OF_EQUAL_COST, compared
from controller.circuits.planning.plan_document import ratio
from controller.cli.shared.files import naming_the_fabric
from controller.cli.shared.output import Printer, number, plural, seconds
from controller.workload.job_file import load_job
from emulation.circuits.simulated import simulated_seconds


def compare_circuits(
    fabric_file: Path, job_files: Sequence[Path], names: Sequence[str], seed: int, output: Printer
) -> None:
    """Print a row for the bound, the ideal switch, a fat tree of equal cost, and the plan of each policy.

    Args:
        fabric_file: the fabric.
        job_files: the jobs.
        names: the policies, with ``+split`` for several paths to a destination.
        seed: of the search.
        output: where to print.
    """
    fabric = load_optical_fabric(fabric_file)
    jobs = [(str(path), load_job(path)) for path in job_files]
    with naming_the_fabric(fabric_file):
        plans = dict(compared(fabric, jobs, names, seed=seed, clock=time.perf_counter))
    first = next(iter(plans.values()))
    ideal = max(each.ideal_seconds for each in first.shards)
    rows = [
        _limit("bound of any circuits", max(each.bound_seconds for each in first.shards), ideal),
        _limit("ideal switch", ideal, ideal),
        _limit("fat tree of equal cost", ideal * FAT_TREE_OF_EQUAL_COST, ideal),
        *(_row(name, plan, ideal) for name, plan in plans.items()),
    ]
    if not output.is_table:
        output.document({"servers": sum(each.shard.demand.n for each in first.shards), "policies": rows})
        return
    output.table(
        f"{plural(len(jobs), 'job')} in {plural(len(first.shards), 'shard')}: the slowest shard",
        ("circuits", "time>", "÷ ideal switch>", "simulated>", "tax>", "mean hops>", "rules a server>", "planning>"),
        (
            (
                row["policy"],
                seconds(row["seconds"]),
                number(row["over_ideal"]),
                seconds(row["simulated_seconds"]),
                number(row["tax"]),
                number(row["mean_hops"]),
                "-" if row["rules_per_server"] is None else str(row["rules_per_server"]),
                seconds(row["planning_seconds"]),
            )
            for row in rows
        ),
        give_up=("planning>", "rules a server>", "mean hops>", "tax>"),
    )


def _limit(name: str, value: float, ideal: float) -> dict[str, Any]:
    unknown = ("simulated_seconds", "tax", "mean_hops", "rules_per_server", "planning_seconds")
    return {"policy": name, "seconds": value, "over_ideal": ratio(value, ideal)} | dict.fromkeys(unknown)


def _row(name: str, plan: CircuitPlan, ideal: float) -> dict[str, Any]:
    slowest = max(plan.shards, key=lambda each: each.seconds)
    hops = slowest.hops
    return {
        "policy": name,
        "seconds": slowest.seconds,
        "over_ideal": ratio(slowest.seconds, ideal),
        "simulated_seconds": simulated_seconds(plan),
        "tax": slowest.tax,
        "mean_hops": float(hops[hops > 0].mean()) if (hops > 0).any() else None,
        "rules_per_server": slowest.rules_per_server,
        "planning_seconds": plan.planning_seconds,
    }
