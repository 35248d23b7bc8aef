"""Measure the simulator on the paper's five jobs and on a large fabric, and SimGrid on the same instances.

    python -m benchmarks.simulation.simulator [--epochs 10] [--json out/simulator.json] [--paper-data FOLDER]
        [--without-simgrid]

Each row runs in its own process, after warm-up: processor and wall-clock time of the best of several runs, plans
included, and the peak memory of the process. SimGrid gets one plan for the whole time (it calls no policy), and as many
epochs as it runs in a minute; the simulator runs the same instance, too, and the end of every flow is compared.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.plans.routing import PAPER_DATA, SCENARIO, in_process, show
from benchmarks.simulation.against_simgrid import ask, is_installed, largest_deviation
from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.traffic import Traffic
from controller.routing import PreviousPlan, Result, assign
from emulation.evaluation.data_files import jobs_of_folder
from emulation.evaluation.generator import Mix, generate
from emulation.evaluation.timed_job import simulated_jobs
from emulation.evaluation.warm_up import warm
from emulation.fluid.records import Results
from emulation.fluid.schedule import SimulatedJob, joined
from emulation.fluid.simulator import Planner, Simulation, simulate

INSTANCES = {
    "five": "five jobs, rings of 4, on 64 x 32 x 32: the paper's files",
    "five'": "the same shape from our generator",
    "large": "20 jobs, rings of 8, on 16,384 hosts below 512 leaves and 32 spines",
}
RUNS = {"five": 3, "five'": 3, "large": 1}
SEED = 1
PATIENCE = 60.0
"""Most seconds that SimGrid may take."""


def instance(name: str, epochs: int, paper_data: Path) -> tuple[Fabric, tuple[SimulatedJob, ...]]:
    """Return the fabric and the jobs of an instance."""
    fabric = clos(32, 512, 32) if name == "large" else clos(32, 64, 32)
    if name == "five":
        jobs = jobs_of_folder(fabric, paper_data / SCENARIO, epochs)
    else:
        jobs = generate(fabric, Mix(20, 8) if name == "large" else Mix(5, 4), epochs, SEED)
    return fabric, simulated_jobs(fabric, jobs)


def measure(name: str, policy: str, epochs: int, paper_data: Path) -> dict[str, Any]:
    """Measure one row; called in a separate process."""

    def planner(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        return assign(policy, fabric, traffic, seed=SEED, previous=previous)

    warm()
    fabric, jobs = instance(name, epochs, paper_data)
    results, cpu, wall = timed(fabric, jobs, planner, RUNS[name])
    return {
        "policy": policy,
        "flows": results.traffic.n_flows,
        "transfers": len(results.flows.owner),
        "plans": len(results.plannings),
        "planning_s": sum(each.seconds for each in results.plannings),
        "cpu_s": cpu,
        "wall_s": wall,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "simulated_s": results.ended,
    }


def timed(
    fabric: Fabric, jobs: Sequence[SimulatedJob], planner: Planner, runs: int = 1
) -> tuple[Results, float, float]:
    """Return the results of the last run, the least processor time and the least wall-clock time (seconds)."""
    cpu, wall = [], []
    for _ in range(runs):
        began = time.process_time(), time.perf_counter()
        results = simulate(Simulation(fabric, jobs, planner))
        cpu.append(time.process_time() - began[0])
        wall.append(time.perf_counter() - began[1])
    return results, min(cpu), min(wall)


def compare(name: str, epochs: int, paper_data: Path) -> dict[str, Any]:
    """Compare SimGrid and the simulator over the same paths: first one epoch of each job, then as many as fit."""
    warm()
    fabric, jobs = instance(name, epochs, paper_data)
    traffic, _, _ = joined(jobs)
    plan = assign("fair", fabric, traffic).assignment
    fixed = PreviousPlan.of(fabric, traffic, plan)

    def planner(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        return Result(Assignment.single(fixed.single_paths(traffic)))

    once = [dataclasses.replace(job, epochs=1) for job in jobs]
    began = time.perf_counter()
    opinion = ask(fabric, once, plan.path, timeout=10 * PATIENCE)
    fit = min(epochs, int(PATIENCE / (time.perf_counter() - began)))
    if fit > 1:
        once = [dataclasses.replace(job, epochs=fit) for job in jobs]
        opinion = ask(fabric, once, plan.path, timeout=10 * PATIENCE)
    results, cpu, wall = timed(fabric, once, planner)
    return {
        "instance": name,
        "epochs": max(fit, 1),
        "transfers": len(results.flows.owner),
        "simgrid_s": opinion.seconds,
        "wall_s": wall,
        "cpu_s": cpu,
        "times": opinion.seconds / wall,
        "deviation": largest_deviation(results, opinion),
    }


def main() -> None:
    """Run everything, print tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10, help="of each job (default: 10)")
    parser.add_argument("--paper-data", type=Path, default=PAPER_DATA, help="folder with the files of the five jobs")
    parser.add_argument("--without-simgrid", action="store_true")
    parser.add_argument("--json", type=Path, help="write all rows here")
    args = parser.parse_args()
    console = Console(width=None if os.isatty(1) else 160)
    five = "five"
    if not (args.paper_data / SCENARIO).is_dir():
        console.print(f"five: skipped, there is no {args.paper_data / SCENARIO}; five' has its shape\n")
        five = "five'"
    out: dict[str, Any] = {"cpus": os.cpu_count()}
    for name, policies in ((five, ("fair", "ecmp")), ("large", ("fair",))):
        out[name] = [in_process(measure, name, policy, args.epochs, args.paper_data) for policy in policies]
        show(console, f"{name}: {INSTANCES[name]}, {args.epochs} epochs", out[name])
    if not args.without_simgrid and is_installed():
        out["simgrid"] = [in_process(compare, name, args.epochs, args.paper_data) for name in (five, "large")]
        show(console, "SimGrid on the same instances under fair, epochs that fit in a minute", out["simgrid"])
    elif not args.without_simgrid:
        console.print("SimGrid: skipped, Debian's python3-simgrid is missing (make setup-test)")
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
