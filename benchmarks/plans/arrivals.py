"""Compare ``fair`` with flows that choose their paths by the present load, where jobs come and go.

    python -m benchmarks.plans.arrivals [--instances 12] [--seed 0] [--oversubscription 8] [--json FILE]

The instances are those of ``shared_links``, but each job begins some iterations after the one before it and ends after
some. The flow simulator gives the time of all iterations, computing included, over their time alone. A plan follows the
one before it; ``least_loaded`` takes, for each transfer, the path with the fewest transfers at that moment, without
delay. Prints, for several options of ``fair``, the mean and the largest ratio to ``least_loaded``, and how many
instances are slower than it by 0.5 %.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.plans.shared_links import drawn
from controller.model.fabric import Fabric
from controller.model.traffic import Traffic
from controller.routing import Options, PreviousPlan, Result, assign
from emulation.evaluation.cell import ideal_seconds
from emulation.fluid.adaptive import Adaptive
from emulation.fluid.schedule import SimulatedJob
from emulation.fluid.simulator import Simulation, simulate

CHOICES: Mapping[str, Options] = {
    "fair": Options(),
    "churn_price=0": Options(churn_price=0.0),
    "classes=4, class_loss=0.05": Options(classes=4, class_loss=0.05),
    "both": Options(churn_price=0.0, classes=4, class_loss=0.05),
    "max_splits=24": Options(max_splits=24),
    "max_splits=24, churn_price=0": Options(max_splits=24, churn_price=0.0),
}
"""Options of ``fair``."""

ITERATIONS = 10
"""Iterations of each job."""

APART = 2
"""Iterations of the longest job alone, between two arrivals."""


def arriving(seed: int, oversubscription: int) -> tuple[Fabric, list[SimulatedJob]]:
    """Return the instance of a seed, whose jobs begin one after the other."""
    fabric, jobs = drawn(seed, oversubscription)
    longest = max(job.compute_seconds + ideal_seconds(fabric, job) for job in jobs)
    return fabric, [
        dataclasses.replace(job, epochs=ITERATIONS, start=number * APART * longest) for number, job in enumerate(jobs)
    ]


def stretched(fabric: Fabric, jobs: Sequence[SimulatedJob], options: Options | None) -> float:
    """Return the time of all iterations over that alone; ``None``: flows choose the path with the least load."""

    def planned(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        return assign("fair", fabric, traffic, previous=previous, options=options or Options())

    adaptive = Adaptive("least_loaded") if options is None else None
    results = simulate(Simulation(fabric, jobs, planned, adaptive=adaptive))
    alone = {job.name: job.compute_seconds + ideal_seconds(fabric, job) for job in jobs}
    took = sum(epoch.before + epoch.seconds for epoch in results.epochs)
    return took / sum(alone[epoch.job] for epoch in results.epochs)


def compared(oversubscription: int, seeds: range) -> list[dict[str, Any]]:
    """Return a row for each choice of options."""
    ratios: dict[str, list[float]] = {name: [] for name in CHOICES}
    for seed in seeds:
        fabric, jobs = arriving(seed, oversubscription)
        reference = stretched(fabric, jobs, None)
        for name, options in CHOICES.items():
            ratios[name].append(stretched(fabric, jobs, options) / reference)
    return [
        {
            "options": name,
            "oversubscription": f"{oversubscription}:1",
            "instances": len(seeds),
            "mean": f"{np.mean(own):.4f}",
            "worst": f"{max(own):.4f}",
            "seed of the worst": seeds[int(np.argmax(own))],
            "slower by 0.5 %": sum(ratio > 1.005 for ratio in own),
        }
        for name, own in ratios.items()
    ]


def main() -> None:
    """Compare on drawn instances and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=12, help="how many (default: 12)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--oversubscription", type=int, default=8, help="of the uplinks (default: 8)")
    parser.add_argument("--json", type=Path, help="write the rows here")
    args = parser.parse_args()
    rows = compared(args.oversubscription, range(args.seed, args.seed + args.instances))
    table = Table(title="iterations under fair over those under least_loaded", title_justify="left")
    for key in rows[0]:
        table.add_column(key, no_wrap=True, justify="left" if key == "options" else "right")
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console(width=120).print(table)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
