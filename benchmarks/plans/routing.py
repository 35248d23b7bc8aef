"""Routing: every policy on ten instances, re-planning, jobs with computing times, and growth with the number of flows.

    python -m benchmarks.plans.routing [--cases a,b,c,d] [--json out/routing.json] [--paper-data FOLDER]

Each row runs in its own process, so that its memory is measured alone: instance, warm-up, then the best and the first
of several runs. A run goes from the arrays of Traffic and Fabric to the Assignment, without the objective.
Beside our policies run a greedy in plain NumPy, edge colouring by networkx's matchings, and HiGHS (``ilp``).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.plans.instances import (
    all_to_all,
    computing_rings,
    five_jobs,
    five_jobs_of_paper,
    part_of,
    rings,
    with_qps,
)
from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.traffic import Traffic
from controller.routing import POLICIES, Options, PreviousPlan, Result, assign, warm_up
from controller.routing.objective.bounds import bound, gap
from controller.routing.objective.fairness import evaluate
from controller.routing.problem.demand import Demand
from controller.routing.times.flow_estimate import plan_times

PAPER_DATA = Path(os.environ.get("FAIRSPINE_PAPER_DATA", "../shared/data/dcn-simulators"))
SCENARIO = "concurrent_jobs_5/ring_size_4"
CASES = {
    "a": "five jobs of rings of 4 on 64 x 32 x 32, the paper's files",
    "a'": "the same shape from a generator",
    "b": "8 random rings of 256 over 2,048 hosts on 64 x 32",
    "b28": "b with 4 of the 32 spines failed",
    "b=/=": "b with unequal flows and uplinks of 80 Gbit/s",
    "c": "all-to-all in 32 groups of 64 on 64 x 32 x 32",
    "b28x16": "b with 4 of the 32 spines failed, each flow over 16 QPs",
    "bx16": "b, each flow over 16 QPs",
    "dx16": "1,000,000 QPs: 62,500 flows of groups of 17 on 1,024 x 64 x 64, each over 16 QPs",
    "d": "1,000,000 flows: all-to-all in groups of 17 on 1,024 x 64 x 64",
}
ILP_SECONDS = 10.0
QPS = 16
"""QPs of a connection in cases of several: Llama 3's cluster opens as many."""


def instance(case: str, paper_data: Path) -> tuple[Fabric, Traffic]:
    """Return the fabric and traffic of a case."""
    if case == "d":
        fabric = clos(64, 1024, 64)
        return fabric, all_to_all(fabric, 17, flows=1_000_000)
    if case == "dx16":
        fabric = clos(64, 1024, 64)
        return fabric, with_qps(all_to_all(fabric, 17, flows=62_500), QPS)
    if case.endswith("x16"):
        fabric, traffic = instance(case.removesuffix("x16"), paper_data)
        return fabric, with_qps(traffic, QPS)
    if case == "b=/=":
        fabric = clos(32, 64, 32, uplink_gbps=80.0)
        return fabric, rings(fabric, 256, unequal=True)
    fabric = clos(32, 64, 32)
    if case == "b28":
        return fabric.without_links([f"spine{n}" for n in range(29, 33)]), rings(fabric, 256)
    if case == "a":
        return fabric, five_jobs_of_paper(paper_data / SCENARIO)
    return fabric, {"a'": five_jobs, "b": lambda f: rings(f, 256), "c": lambda f: all_to_all(f, 64)}[case](fabric)


def fresh(traffic: Traffic) -> Traffic:
    """Return the same traffic without the cached properties of an earlier run."""
    return Traffic(*(getattr(traffic, name) for name in traffic.__dataclass_fields__))


def numpy_greedy(fabric: Fabric, traffic: Traffic) -> Assignment:
    """Place flows by a simple version of the paper's greedy: a Python loop over flows, NumPy over spines."""
    src, dst = fabric.host_leaf[traffic.src], fabric.host_leaf[traffic.dst]
    up, down = (np.zeros((fabric.n_leaves, fabric.n_paths)) for _ in range(2))
    total = np.concatenate([np.bincount(end, minlength=fabric.n_leaves) for end in (src, dst)])
    path = np.full(traffic.n_flows, -1)
    for leaf_set in np.argsort(-total, kind="stable"):
        end, leaf = (src, leaf_set) if leaf_set < fabric.n_leaves else (dst, leaf_set - fabric.n_leaves)
        for flow in np.flatnonzero((end == leaf) & (path < 0) & (src != dst)):
            a, b = src[flow], dst[flow]
            cost = np.maximum(up[a], down[b])
            cost[~fabric.tiers[0].possible(a, b)] = np.inf
            path[flow] = np.argmin(cost)
            up[a, path[flow]] += 1
            down[b, path[flow]] += 1
    return Assignment.single(path)


def networkx_coloring(fabric: Fabric, traffic: Traffic) -> Assignment:
    """Place flows by textbook edge colouring: repeated maximum matchings of the busiest leaves (Hopcroft-Karp)."""
    src, dst = fabric.host_leaf[traffic.src], fabric.host_leaf[traffic.dst]
    path = np.full(traffic.n_flows, -1)
    waiting: dict[tuple[int, int], list[int]] = {}
    for flow in np.flatnonzero(src != dst).tolist():
        waiting.setdefault((int(src[flow]), int(dst[flow])), []).append(flow)
    spines = np.flatnonzero(fabric.path_type >= 0)
    turn = 0
    while waiting:
        graph = nx.Graph([(f"up{a}", f"down{b}") for a, b in waiting])
        ups = [node for node in graph if node.startswith("up")]
        for up, down in nx.bipartite.hopcroft_karp_matching(graph, ups).items():
            if up.startswith("up"):
                pair = int(up[2:]), int(down[4:])
                path[waiting[pair].pop()] = spines[turn % len(spines)]
                if not waiting[pair]:
                    del waiting[pair]
        turn += 1
    return Assignment.single(path)


def runner(name: str, fabric: Fabric) -> Callable[[Traffic], Assignment]:
    """Return the function that a row of the table measures."""
    if name == "NumPy greedy":
        return lambda traffic: numpy_greedy(fabric, traffic)
    if name == "networkx matchings":
        return lambda traffic: networkx_coloring(fabric, traffic)
    if name == "fair+split":
        return lambda traffic: assign("fair", fabric, traffic, options=Options(max_splits=10**9)).assignment
    options = Options(seconds=ILP_SECONDS) if name == "ilp" else Options()
    return lambda traffic: assign(name, fabric, traffic, options=options).assignment


def timed_run(run: Callable[[Traffic], Assignment], traffic: Traffic) -> Assignment:
    """Run once on traffic without cached properties."""
    return run(fresh(traffic))


def best_of(run: Callable[[], Any], budget: float = 2.0, most: int = 30) -> tuple[Any, float, float]:
    """Return the result, best and first time of as many runs as the budget (seconds) allows."""
    times: list[float] = []
    while not times or (sum(times) < budget and len(times) < most):
        begin = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - begin)
    return result, min(times), times[0]


def measure(case: str, name: str, paper_data: Path) -> dict[str, Any]:
    """Measure one row; called in a separate process."""
    warm_up()
    fabric, traffic = instance(case, paper_data)
    _ = fabric.tiers, fabric.path_type, fabric.host_leaf, fabric.link_gbps, fabric.host_ip
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run = runner(name, fabric)
    assignment, best, first = best_of(partial(timed_run, run, traffic))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    objective, limit = evaluate(fabric, traffic, assignment), bound(fabric, traffic)
    return {
        "case": case,
        "policy": name,
        "flows": traffic.n_flows,
        "ms": best * 1e3,
        "first_ms": first * 1e3,
        "min_speed": objective.min_speed,
        "mean_speed": float(np.nanmean(objective.speed)),
        "gap": gap(objective, limit, assignment),
        "extra_pieces": assignment.n_rows - traffic.n_flows,
        "peak_mb": memory / 1024,
        "grown_mb": (memory - before) / 1024,
    }


def replanning(paper_data: Path) -> list[dict[str, Any]]:
    """Measure case b with a plan in force: a link fails; a large and a small job arrive.

    Times start at the new Fabric or Traffic.
    """
    warm_up()
    fabric, traffic = instance("b", paper_data)
    plan = assign("fair", fabric, traffic).assignment
    previous = PreviousPlan.of(fabric, traffic, plan)
    rows = []

    def row(what: str, before: PreviousPlan, make: Callable[[], tuple[Fabric, Traffic]]) -> None:
        for how, memory in (("near the plan", before), ("afresh", None)):
            times: list[float] = []
            while len(times) < 20:
                there, new = make()
                begin = time.perf_counter()
                last = assign("fair", there, new, previous=memory).assignment
                times.append(time.perf_counter() - begin)
            old = before.single_paths(new)
            a, b = there.host_leaf[new.src], there.host_leaf[new.dst]
            keepable = there.live_ways.joined(a, b, old)
            rows.append(
                {
                    "change": what,
                    "how": how,
                    "ms": min(times) * 1e3,
                    "min_speed": evaluate(there, new, last).min_speed,
                    "moved": int((keepable & (last.path != old)).sum()),
                    "of": int(keepable.sum()),
                }
            )

    row("one link failed", previous, lambda: (fabric.without_links(["leaf1-spine1"]), fresh(traffic)))
    for what, kept in (("a job of 256 flows fills the fabric", traffic.n_flows - 256), ("a job of 16 flows", None)):
        cut = traffic.collective < 7 if kept else np.arange(traffic.n_flows) < traffic.n_flows - 16
        less = part_of(traffic, cut, 7 if kept else len(traffic.collectives))
        known = PreviousPlan.of(fabric, less, assign("fair", fabric, less).assignment)
        row(what, known, lambda: (fabric, fresh(traffic)))
    return rows


def growth() -> list[dict[str, Any]]:
    """Measure time by number of flows: full leaves of 64 hosts under 64 spines, all-to-all in groups of 16."""
    warm_up()
    rows = []
    for leaves in (2, 10, 104, 1042):
        fabric = clos(64, leaves, 64)
        traffic = all_to_all(fabric, 16)
        row: dict[str, Any] = {"flows": traffic.n_flows, "leaves": leaves}
        for name in ("ecmp", "greedy", "coloring", "fair"):
            run = runner(name, fabric)
            row[name] = best_of(partial(timed_run, run, traffic))[1] * 1e3
        rows.append(row)
    return rows


def planned(fabric: Fabric, traffic: Traffic, options: Options) -> Result:
    """Plan traffic that is new to the policy."""
    return assign("fair", fabric, fresh(traffic), options=options)


def computing(spines: int) -> list[dict[str, Any]]:
    """Measure plans for 20 jobs that compute between their collectives, on 64 leaves of 32 hosts."""
    warm_up()
    fabric = clos(spines, 64, 32)
    traffic = computing_rings(fabric, 20)
    rows: list[dict[str, Any]] = []
    wanted = {
        "times ignored": Options(times="ignore"),
        "times": Options(),
        "times and shifts": Options(shifts="advise"),
    }
    for name, options in wanted.items():
        result, best, first = best_of(partial(planned, fabric, traffic, options))
        times = plan_times(Demand.of(fabric, traffic), result.assignment)
        assert times is not None
        rows.append(
            {
                "fair with": name,
                "flows": traffic.n_flows,
                "ms": best * 1e3,
                "first_ms": first * 1e3,
                "times of ignored": best * 1e3 / rows[0]["ms"] if rows else 1.0,
                "expected slowdown": times.slowdown,
                "with shifts": result.schedule.slowdown if result.schedule else None,
                "bound": times.bound,
            }
        )
    return rows


def in_process(task: Callable[..., Any], *args: Any) -> Any:
    """Run the task in a fresh process (spawned, so it shares no memory with this one) and return its result."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(task, args)


def rows_of(case: str) -> list[str]:
    """Return the rows of a case, without those that would not end or not fit in memory."""
    rows = [name for name in POLICIES if name != "ilp"] + ["fair+split", "NumPy greedy"]
    if case.endswith("x16"):
        return ["ecmp", "greedy", "coloring", "fair"]
    if case == "d":
        return [n for n in rows if n not in ("spray", "ethereal", "annealing", "NumPy greedy")]
    return rows if case == "c" else [*rows, "networkx matchings", "ilp"]


def show(console: Console, title: str, rows: list[dict[str, Any]]) -> None:
    """Print a table of rows that all have the same keys."""
    table = Table(title=title, title_justify="left")
    for key in rows[0]:
        table.add_column(key, justify="left" if isinstance(rows[0][key], str) else "right", no_wrap=True)
    for row in rows:
        table.add_row(*("" if v is None else f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()))
    console.print(table)


def main() -> None:
    """Run the chosen cases, print tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES), help="which cases (default: all), or none")
    parser.add_argument("--policies", help="only these rows, separated by commas")
    parser.add_argument("--paper-data", type=Path, default=PAPER_DATA, help="folder with the files of case a")
    parser.add_argument("--json", type=Path, help="write all rows here")
    args = parser.parse_args()
    console = Console(width=None if os.isatty(1) else 160)
    out: dict[str, Any] = {"cases": [], "cpus": os.cpu_count()}
    for case in (case for case in args.cases.split(",") if case != "none"):
        if case not in CASES:
            parser.error(f"there is no case {case!r}; there are {', '.join(CASES)}")
        if case == "a" and not (args.paper_data / SCENARIO).is_dir():
            console.print(f"a: skipped, there is no {args.paper_data / SCENARIO} (a' has its shape)\n")
            continue
        names = args.policies.split(",") if args.policies else rows_of(case)
        rows = [in_process(measure, case, name, args.paper_data) for name in names]
        show(console, f"{case}: {CASES[case]}", [{k: v for k, v in row.items() if k != "case"} for row in rows])
        out["cases"] += rows
    if not args.policies:
        out["replanning"] = in_process(replanning, args.paper_data)
        show(console, "re-planning at b", out["replanning"])
        for spines, ratio in ((16, "2:1"), (8, "4:1")):
            out[f"computing {ratio}"] = in_process(computing, spines)
            show(console, f"20 jobs that compute, 2,048 hosts at {ratio}", out[f"computing {ratio}"])
        out["growth"] = in_process(growth)
        show(console, "growth (ms)", out["growth"])
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
