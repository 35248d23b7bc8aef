"""Compare the iteration times that ``fair`` gives jobs which compute by turns with those of the simple placements.

    python -m benchmarks.plans.shared_links [--instances 20] [--seed 0] [--json FILE]

Jobs are drawn: rings, and an all-to-all beside rings, of unequal periods on fabrics of 1:1 to 8:1, in two layers and in
three (oversubscribed above the pods). The flow simulator
gives the mean slowdown of their iterations under each policy's plan (docs/explanation/objective.md), over random phases
that the policies do not know. Prints, for each oversubscription, the mean and the largest ratio of ``fair`` to the best
of the others, with the seed that draws that instance again; in three layers also that of ``fair`` which ignores times.
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
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.model.timing import JobTiming
from controller.model.traffic import FIRST_PORT, Collective, Traffic
from controller.routing import Options, PreviousPlan, Result, assign
from controller.routing.problem.demand import Demand
from controller.routing.times.stages import Stages
from emulation.fluid.schedule import SimulatedJob, joined, one_step_each
from emulation.fluid.simulator import Simulation, simulate

SIMPLE = ("greedy", "coloring", "first_fit")
UNTIMED = "fair, times ignored"
OVERSUBSCRIPTION = (1, 2, 4, 8)
DRAWS = 8
"""Draws of the jobs' phases."""

ITERATIONS = 12
"""Length of each simulation, in iterations of the longest job alone."""


def drawn(seed: int, oversubscription: int, *, hosts: int = 8) -> tuple[Fabric, tuple[SimulatedJob, ...]]:
    """Return a fabric of 4 or 6 leaves and three to six jobs on all of its hosts.

    Jobs have neighbouring hosts, of which some have changed places. Half of the fabrics have uplinks as fast as hosts,
    the others four slower or faster ones.
    """
    rng = np.random.default_rng([seed, oversubscription])
    leaves = int(rng.choice([4, 6]))
    spines = max(2, hosts // oversubscription) if rng.random() < 0.5 else 4
    fabric = clos(spines, leaves, hosts, uplink_gbps=hosts * 100.0 / oversubscription / spines)
    return fabric, _drawn_jobs(rng, fabric)


def drawn_pods(seed: int, oversubscription: int) -> tuple[Fabric, tuple[SimulatedJob, ...]]:
    """Return a fabric of 3 or 4 pods, each of 8 hosts on 2 leaves, and three to six jobs on all of its hosts.

    The cables of leaves together are as fast as the hosts; those above the pods are slower, two or four of each
    aggregation switch.
    """
    rng = np.random.default_rng([seed, oversubscription, 3])
    pods, cores = int(rng.integers(3, 5)), int(rng.choice([2, 4]))
    core_gbps = 400.0 / oversubscription / cores
    fabric = pod_clos(pods, 2, 2, cores, 4, uplink_gbps=200.0, core_gbps=core_gbps)
    return fabric, _drawn_jobs(rng, fabric)


def _drawn_jobs(rng: np.random.Generator, fabric: Fabric) -> tuple[SimulatedJob, ...]:
    order = np.arange(fabric.n_hosts)
    moved = rng.choice(order, int(len(order) * rng.uniform(0.1, 0.5)), replace=False)
    order[np.sort(moved)] = moved
    n_jobs = int(rng.integers(3, 7))
    ends = np.sort(rng.choice(np.arange(1, len(order) // 2), n_jobs - 1, replace=False)) * 2
    jobs, experts = [], int(rng.integers(0, 2 * n_jobs))
    for number, members in enumerate(np.split(order, ends)):
        seconds, duty = float(rng.uniform(0.03, 0.12)), float(rng.uniform(0.2, 0.7))
        compute = seconds * (1.0 / duty - 1.0)
        if number == experts:
            one, other = np.nonzero(~np.eye(len(members), dtype=np.bool_))
        else:
            one, other = np.arange(len(members)), np.roll(np.arange(len(members)), -1)
        n = len(one)
        row = Collective(f"job{number}", "c", timing=JobTiming(((0, compute),)))
        traffic = Traffic(
            members[one].astype(np.int32),
            members[other].astype(np.int32),
            np.full(n, seconds * 12.5e9 * len(members) / n, dtype=np.int64),
            np.zeros(n, dtype=np.int32),
            np.arange(n, dtype=np.int32),
            FIRST_PORT + np.arange(n, dtype=np.int32),
            (row,),
        )
        jobs.append(SimulatedJob(row.job, traffic, one_step_each(traffic), compute))
    return tuple(jobs)


def slowdowns(fabric: Fabric, jobs: Sequence[SimulatedJob], policies: Sequence[str], draws: int = DRAWS) -> list[float]:
    """Return the mean slowdown of iterations under the plan of each policy for all jobs, in the flow simulator.

    The policy ``UNTIMED`` is ``fair`` without times.
    """
    traffic = joined(jobs)[0]
    alone = Stages.of(Demand.of(fabric, traffic)).alone
    horizon = ITERATIONS * float(alone.max())
    phases = np.random.default_rng(1).random((draws, len(jobs))) * alone
    found = []
    for policy in policies:
        options = Options(times="ignore" if policy == UNTIMED else "use")
        path = assign("fair" if policy == UNTIMED else policy, fabric, traffic, options=options).assignment.path
        own = dict(
            zip(traffic.jobs, np.split(path, np.cumsum([job.traffic.n_flows for job in jobs])[:-1]), strict=True)
        )
        found.append(float(np.mean([_simulated(fabric, jobs, own, phase, horizon) / alone for phase in phases])))
    return found


def _simulated(fabric: Fabric, jobs: Sequence[SimulatedJob], path: dict[str, Any], phase: Any, horizon: float) -> Any:
    """Return the mean iteration time [J] of jobs that begin at different times on given paths, without end."""

    def planned(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        present = np.unique(traffic.job_index[traffic.collective])
        return Result(Assignment.single(np.concatenate([path[traffic.jobs[j]] for j in present])))

    endless = [dataclasses.replace(job, epochs=10**6, start=at) for job, at in zip(jobs, phase.tolist(), strict=True)]
    results = simulate(Simulation(fabric, endless, planned, triggers=frozenset({"arrival"}), until=horizon))
    return [
        # A job that completes no iteration has one at least as long as the simulation.
        np.mean([epoch.before + epoch.seconds for epoch in results.epochs if epoch.job == job.name] or [horizon])
        for job in jobs
    ]


def compared(oversubscription: int, seeds: range, *, pods: bool = False) -> dict[str, Any]:
    """Return a row of the table for the instances that these seeds draw."""
    ratios, to_untimed = [], []
    for seed in seeds:
        if pods:
            *simple, untimed, ours = slowdowns(*drawn_pods(seed, oversubscription), (*SIMPLE, UNTIMED, "fair"))
            to_untimed.append(ours / untimed)
        else:
            *simple, ours = slowdowns(*drawn(seed, oversubscription), (*SIMPLE, "fair"))
        ratios.append(ours / min(simple))
    worst = int(np.argmax(ratios))
    return {
        "layers": 2 + pods,
        "oversubscription": f"{oversubscription}:1",
        "instances": len(seeds),
        "mean": f"{np.mean(ratios):.4f}",
        "worst": f"{ratios[worst]:.4f}",
        "seed of the worst": seeds[worst],
        "worse by 0.5 %": sum(ratio > 1.005 for ratio in ratios),
        "to times ignored": f"{np.mean(to_untimed):.4f}" if pods else "-",
    }


def main() -> None:
    """Compare on all kinds of instances and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=20, help="for each oversubscription (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--json", type=Path, help="write the rows here")
    args = parser.parse_args()
    seeds = range(args.seed, args.seed + args.instances)
    rows = [compared(ratio, seeds, pods=pods) for pods in (False, True) for ratio in OVERSUBSCRIPTION]
    table = Table(title="mean slowdown under fair, over the best of greedy, coloring, first_fit", title_justify="left")
    for key in rows[0]:
        table.add_column(key, no_wrap=True, justify="right")
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console(width=120).print(table)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
