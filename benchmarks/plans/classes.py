"""Measure what chosen classes of priority gain on the six shared cases, alone and beside a schedule of shifts.

    python -m benchmarks.plans.classes [--loss 0] [--seeds 1] [--qps 1] [--json FILE]

The jobs of ``examples/scenarios/shared.yaml`` (2:1) and ``shared-4to1.yaml`` are planned with and without
``classes=4``, and the flow simulator gives the iterations of each. Without shifts: the mean slowdown over draws of
random phases. With shifts: the mean over jobs of the iteration time over that under ideal spraying, where all begin
with the grid. Prints for each case both values, and the largest part by which a job is slower with classes. Of several
``--seeds``, the plan with the lowest slowdown that the planner itself expects is taken.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric, FloatArray
from controller.model.files.fabric_file import read_document
from controller.model.traffic import Traffic
from controller.routing import Options, PreviousPlan, Result, assign
from controller.routing.problem.demand import Demand
from controller.routing.times.expected import mean_slowdown
from controller.routing.times.flow_estimate import lasting_seconds
from controller.routing.times.stages import Stages
from emulation.evaluation.scenario import Scenario, load_scenario, parse_scenario
from emulation.fluid.schedule import SimulatedJob, joined
from emulation.fluid.simulator import Simulation, simulate

SCENARIOS = {"2:1": "examples/scenarios/shared.yaml", "4:1": "examples/scenarios/shared-4to1.yaml"}
DRAWS, ITERATIONS, ON_THE_GRID = 8, 24, 40
"""Draws of random phases; iterations of the longest job in each, and with shifts."""

PHASES_SEED = 1


def planned(fabric: Fabric, traffic: Traffic, options: Options, seeds: int) -> Result:
    """Return the best plan of some seeds, by the slowdown that the planner expects."""
    made = [assign("fair", fabric, traffic, options=options, seed=seed) for seed in range(seeds)]
    return min(made, key=lambda result: expected(fabric, traffic, result)) if seeds > 1 else made[0]


def expected(fabric: Fabric, traffic: Traffic, result: Result) -> float:
    """Return the mean slowdown that the planner expects of a plan."""
    if result.schedule is not None:
        return result.schedule.slowdown
    stages = Stages.of(Demand.of(fabric, traffic.with_classes(result.classes)))
    return mean_slowdown(stages, lasting_seconds(stages, result.assignment))


def seconds(
    fabric: Fabric, jobs: Sequence[SimulatedJob], begins: FloatArray, result: Result | None, horizon: float
) -> FloatArray:
    """Return the mean iteration time [J] of jobs that begin at these times; ``None``: by ideal spraying."""
    sizes = np.cumsum([job.traffic.n_flows for job in jobs])[:-1]
    path = None if result is None else np.split(result.assignment.path, sizes)
    of_job = {} if path is None else dict(zip([job.name for job in jobs], path, strict=True))

    def plan(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        if result is None:
            return assign("spray", fabric, traffic, previous=previous)
        present = np.unique(traffic.job_index[traffic.collective])
        paths = np.concatenate([of_job[traffic.jobs[j]] for j in present])
        return dataclasses.replace(result, assignment=Assignment.single(paths), demand=None)

    endless = [dataclasses.replace(job, epochs=10**6, start=at) for job, at in zip(jobs, begins.tolist(), strict=True)]
    results = simulate(Simulation(fabric, endless, plan, triggers=frozenset({"arrival"}), until=horizon))
    took: dict[str, list[float]] = {job.name: [] for job in jobs}
    for epoch in results.epochs:
        took[epoch.job].append(epoch.before + epoch.seconds)
    return np.array([np.mean(took[job.name] or [horizon]) for job in jobs])


def of_case(fabric: Fabric, jobs: Sequence[SimulatedJob], options: Options, seeds: int) -> tuple[FloatArray, ...]:
    """Return what each job takes without and with chosen classes, over what it takes alone, or under spraying."""
    traffic = joined(jobs)[0]
    alone = Stages.of(Demand.of(fabric, traffic)).alone
    plans = [planned(fabric, traffic, each, seeds) for each in (dataclasses.replace(options, classes=1), options)]
    if options.shifts == "off":
        phases = np.random.default_rng(PHASES_SEED).random((DRAWS, len(jobs))) * alone
        horizon = ITERATIONS * float(alone.max())
        return tuple(
            np.mean([seconds(fabric, jobs, begins, plan, horizon) / alone for begins in phases], axis=0)
            for plan in plans
        )
    begins, horizon = np.zeros(len(jobs)), ON_THE_GRID * float(alone.max())
    sprayed = seconds(fabric, jobs, begins, None, horizon)
    return tuple(seconds(fabric, jobs, begins, plan, horizon) / sprayed for plan in plans)


def with_qps(path: str, qps: int) -> Scenario:
    """Return a scenario with so many QPs for each connection of jobs that do not say."""
    document = read_document(path)
    for case in document["cases"]:
        case["qps"] = [qps]
    return parse_scenario(document, Path(path).parent, source=path)


def rows(loss: float, seeds: int, *, shifts: bool, only: Sequence[str] = (), qps: int = 1) -> list[dict[str, Any]]:
    """Return a row for each case, and one for the mean of each oversubscription."""
    made = []
    options = Options(classes=4, class_loss=loss, shifts="advise" if shifts else "off")
    for ratio, path in SCENARIOS.items():
        if only and ratio not in only:
            continue
        scenario = load_scenario(path) if qps == 1 else with_qps(path, qps)
        own = []
        for number, case in enumerate(scenario.cases):
            without, classified = of_case(scenario.fabric, case.jobs, options, seeds)
            own.append((without.mean(), classified.mean()))
            made.append(row(f"{ratio} {'abc'[number]}", shifts, *own[-1], float((classified / without).max())))
        made.append(row(f"{ratio} mean", shifts, *np.mean(own, axis=0).tolist()))
    return made


def row(case: str, shifts: bool, without: float, classified: float, slower: float | None = None) -> dict[str, Any]:
    """Return a row of the table."""
    return {
        "case": case,
        "shifts": "yes" if shifts else "no",
        "without": f"{without:.4f}",
        "with classes": f"{classified:.4f}",
        "slowest job to without": "-" if slower is None else f"{slower:.4f}",
    }


def main() -> None:
    """Measure all cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loss", type=float, default=0.0, help="class_loss (default: 0)")
    parser.add_argument("--seeds", type=int, default=1, help="plans of so many seeds are compared (default: 1)")
    parser.add_argument("--qps", type=int, default=1, help="QPs of each connection (default: 1)")
    parser.add_argument("--json", type=Path, help="write the rows here")
    args = parser.parse_args()
    made = [each for shifts in (False, True) for each in rows(args.loss, args.seeds, shifts=shifts, qps=args.qps)]
    table = Table(title="mean slowdown; with shifts, iterations over those of spraying", title_justify="left")
    for key in made[0]:
        table.add_column(key, no_wrap=True, justify="left" if key == "case" else "right")
    for each in made:
        table.add_row(*each.values())
    Console(width=120).print(table)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(made, indent=1))


if __name__ == "__main__":
    main()
