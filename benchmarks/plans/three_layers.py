"""Plans of ``fair`` on fabrics of three layers: time, memory and quality, and a plan near the former after a failure.

    python -m benchmarks.plans.three_layers [--cases NAME ...] [--json FILE]

Each row runs in its own process, so that its memory is measured alone: instance, warm-up, then the best of several
runs, from the arrays of Traffic and Fabric to the Assignment. Dead cores are those of the first planes in turn; whole
pods then send to the next pod, and the flows may be split.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.plans.instances import all_to_all, rings, traffic_of, with_qps
from benchmarks.plans.routing import best_of, fresh, timed_run
from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.model.queue_pairs import QueuePairs
from controller.model.traffic import Collective, Traffic
from controller.routing import Options, PreviousPlan, assign, warm_up
from controller.routing.objective.bounds import bound
from controller.routing.objective.fairness import evaluate

CASES = {
    "k16 rings": "rings of 4 over all 1,024 hosts of a fat tree of 16-port switches",
    "k32 rings": "rings of 4 over all 8,192 hosts of a fat tree of 32-port switches",
    "k32 all-to-all": "all-to-all in groups of 16 over the same",
    "131,072 hosts": "rings of 4 over 131,072 hosts: 64 pods of 32 leaves and 64 aggregation switches, 2,048 cores",
    "1,000,000 flows": "all-to-all in groups of 9 over the same",
    "8 planes": "rings of 4 over 131,072 NICs, a port and a QP in each of 8 planes of 2,048 leaves and 64 spines",
    "7:1": "rings of 16 over 64 x 112 hosts, 7:1 oversubscribed between 16 pods",
}
DEAD = (0, 1, 4, 8)
"""Numbers of dead cores of 64."""


def fat_tree(k: int) -> Fabric:
    """Return the fat tree of switches with k ports (Al-Fares et al., SIGCOMM 2008)."""
    return pod_clos(k, k // 2, k // 2, k // 2, k // 2)


def instance(case: str) -> tuple[Fabric, Traffic]:
    """Return the fabric and traffic of a case."""
    if case == "7:1":
        fabric = pod_clos(16, 28, 4, 4, 4)
        return fabric, rings(fabric, 16)
    if case in ("131,072 hosts", "1,000,000 flows"):
        fabric = pod_clos(64, 32, 64, 32, 64)
        return fabric, rings(fabric, 4) if case == "131,072 hosts" else all_to_all(fabric, 9)
    if case == "8 planes":
        fabric = clos(64, 2048, 64, planes=8)
        return fabric, striped_rings(fabric, 4)
    fabric = fat_tree(int(case[1:3]))
    return fabric, all_to_all(fabric, 16) if case.endswith("all-to-all") else rings(fabric, 4)


def striped_rings(fabric: Fabric, size: int) -> Traffic:
    """Return rings over all NICs in random order, whose connections have a QP in each plane."""
    planes = fabric.planes
    n = len(planes.ports) // size
    nics = np.random.default_rng(0).permutation(len(planes.ports))[: n * size].reshape(n, size)
    flows = planes.count * size
    jobs = [Collective(f"job{k}", "ring", qps=QueuePairs(planes.count)) for k in range(n)]
    return traffic_of(
        planes.ports[nics].ravel(),
        planes.ports[np.roll(nics, -1, axis=1)].ravel(),
        np.full(n * flows, 10**9 // planes.count),
        np.repeat(np.arange(n), flows),
        jobs,
    )


def measure(case: str) -> dict[str, Any]:
    """Measure one case; called in a separate process."""
    warm_up()
    fabric, traffic = instance(case)
    _ = fabric.tiers, fabric.live_ways, fabric.cuts, fabric.host_leaf, fabric.link_gbps, fabric.host_ip

    def run(flows: Traffic) -> Assignment:
        return assign("fair", fabric, flows).assignment

    made, best, first = best_of(partial(timed_run, run, traffic))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    limit = bound(fabric, traffic)
    crossing = fabric.host_leaf[traffic.src] != fabric.host_leaf[traffic.dst]
    return {
        "case": case,
        "flows": int(crossing.sum()),
        "ms": best * 1e3,
        "first_ms": first * 1e3,
        "peak_mb": memory / 1024,
        "min_level": evaluate(fabric, traffic, made).min_level,
        "split": limit.split,
        "single": limit.single,
    }


def after_core_links(n_cables: int = 8, runs: int = 10) -> list[dict[str, Any]]:
    """Measure plans near the former one after a cable to a core has failed, on the fat tree of 32-port switches.

    The time is processor time, the best of ``runs`` for each of the drawn cables. ``full`` tells whether the switch
    below the cable passed on as many flows as it had cables: its plane alone has then no room for all.
    """
    warm_up()
    fabric, traffic = instance("k32 rings")
    plan = assign("fair", fabric, traffic).assignment
    previous = PreviousPlan.of(fabric, traffic, plan)
    links = fabric.ways.links(fabric.host_leaf[traffic.src], fabric.host_leaf[traffic.dst], plan.path)
    rows = []
    for cable in (
        np.random.default_rng(0).choice(np.flatnonzero(fabric.cable_tier == 1), n_cables, replace=False).tolist()
    ):
        times = []
        for _ in range(runs):
            there, flows = fabric.without_links([fabric.cable_names[cable]]), fresh(traffic)
            begin = time.process_time()
            found = assign("fair", there, flows, previous=previous).assignment
            times.append(time.process_time() - begin)
        moved = np.flatnonzero(found.path != plan.path)
        planes = (np.concatenate([plan.path[moved], found.path[moved]]) - fabric.ways.first[1]) // fabric.ways.width[1]
        (beside,) = np.nonzero((fabric.cable_tier == 1) & (fabric.cable_lower == fabric.cable_lower[cable]))
        up, down = (np.isin(links, fabric.first_cable_link + 2 * beside + way).sum() for way in (0, 1))
        level = evaluate(there, traffic, found).min_level
        rows.append(
            {
                "cable": fabric.cable_names[cable],
                "ms": min(times) * 1e3,
                "full": bool(max(up, down) == len(beside)),
                "moved": len(moved),
                "planes": len(np.unique(planes)),
                "min_level": level,
                "single": bound(there, traffic, reached=level).single,
            }
        )
    return rows


def after_cores(cores: Sequence[str] = ("core1", "core100", "core256"), runs: int = 7) -> list[dict[str, Any]]:
    """Measure plans near the former one after a whole core has failed, on the fat tree of 32-port switches.

    The time is processor time, the median of ``runs``, from the new fabric and traffic to the assignment, with kernels
    loaded; a document of the plan is not made.
    """
    warm_up()
    fabric = fat_tree(32)
    rows = []
    for what, traffic in (
        ("rings of 4", rings(fabric, 4)),
        ("one ring", rings(fabric, fabric.n_hosts)),
        ("all-to-all in groups of 16", all_to_all(fabric, 16)),
    ):
        plan = assign("fair", fabric, traffic).assignment
        previous = PreviousPlan.of(fabric, traffic, plan)
        for core in cores:
            times = []
            for _ in range(runs):
                there, flows = fabric.without_links([core]), fresh(traffic)
                begin = time.process_time()
                found = assign("fair", there, flows, previous=previous).assignment
                times.append(time.process_time() - begin)
            level = evaluate(there, traffic, found).min_level
            rows.append(
                {
                    "traffic": what,
                    "core": core,
                    "ms": float(np.median(times)) * 1e3,
                    "moved": int((found.path != plan.path).sum()),
                    "min_level": level,
                    "single": bound(there, traffic, reached=level).single,
                }
            )
    return rows


def between_pods(fabric: Fabric, pods: int) -> Traffic:
    """Return one flow from each host to a host of the next pod, in drawn order."""
    rng, each = np.random.default_rng(0), fabric.n_hosts // pods
    order = np.concatenate([rng.permutation(each) + each * ((pod + 1) % pods) for pod in range(pods)])
    n = len(order)
    return traffic_of(np.arange(n), order, np.full(n, 10**9), np.zeros(n, np.int64), [Collective("a", "shift")])


def with_dead_cores(dead: int) -> list[dict[str, Any]]:
    """Measure whole flows, QPs, and split flows between pods of the fat tree of 16-port switches with dead cores."""
    warm_up()
    healthy = fat_tree(16)
    # Plane p has the cores p + 1, p + 9, ..: the first planes lose their first core.
    fabric = healthy.without_links([f"core{n}" for n in range(1, dead + 1)])
    rows = []
    for what, qps, splits in (("one path", 1, 0), ("4 QPs", 4, 0), ("8 QPs", 8, 0), ("split", 1, 10**6)):
        traffic = with_qps(between_pods(fabric, 16), qps)
        made = assign("fair", fabric, traffic, options=Options(max_splits=splits)).assignment
        ratio = _seconds(fabric, traffic, made) / _seconds(
            healthy, traffic, assign("fair", healthy, traffic).assignment
        )
        rows.append({"dead": dead, "what": what, "time": ratio, "extra": made.n_rows - traffic.n_flows})
    return rows


def _seconds(fabric: Fabric, traffic: Traffic, made: Assignment) -> float:
    """Return how long the slowest collective takes."""
    found = evaluate(fabric, traffic, made)
    return float(np.nanmax(found.ideal_seconds / found.speed))


def _table(title: str, columns: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left")
    for name in columns:
        table.add_column(
            name, justify="left" if name in ("case", "plan", "traffic", "core") else "right", no_wrap=name == "case"
        )
    return table


def main() -> None:
    """Measure and print all rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--json", type=Path, help="write all rows here, too")
    args = parser.parse_args()
    console = Console()
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        rows = pool.map(measure, args.cases, chunksize=1)
        replanned = pool.apply(after_core_links)
        cores = pool.apply(after_cores)
        dead = [row for rows_of in pool.map(with_dead_cores, DEAD, chunksize=1) for row in rows_of]
    table = _table("fair on three layers", ("case", "flows", "ms", "peak MB", "min level", "bound, split", "single"))
    for row in rows:
        table.add_row(
            row["case"],
            f"{row['flows']:,}",
            f"{row['ms']:.1f}",
            f"{row['peak_mb']:.0f}",
            *(f"{row[name]:.4f}" for name in ("min_level", "split", "single")),
        )
    console.print(table)
    for case in args.cases:
        console.print(f"{case}: {CASES[case]}", highlight=False)
    table = _table(
        "k32 rings, a cable of a core down: a plan near the former one",
        ("cable", "ms", "switch below full", "flows moved", "in planes", "min level", "bound"),
    )
    for row in replanned:
        table.add_row(
            row["cable"],
            f"{row['ms']:.1f}",
            "yes" if row["full"] else "no",
            f"{row['moved']:,}",
            str(row["planes"]),
            f"{row['min_level']:.3f}",
            f"{row['single']:.3f}",
        )
    console.print(table)
    table = _table(
        "k32, a whole core down: a plan near the former one",
        ("traffic", "core", "ms", "flows moved", "min level", "bound"),
    )
    for row in cores:
        table.add_row(
            row["traffic"],
            row["core"],
            f"{row['ms']:.1f}",
            f"{row['moved']:,}",
            f"{row['min_level']:.3f}",
            f"{row['single']:.3f}",
        )
    console.print(table)
    table = _table(
        "k16, each host to the next pod: seconds over those of the healthy fabric", ("plan", *map(str, DEAD))
    )
    for what in dict.fromkeys(row["what"] for row in dead):
        table.add_row(what, *(f"{row['time']:.3f}" for row in dead if row["what"] == what))
    console.print(table)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        written = {"plans": rows, "core_links": replanned, "cores": cores, "dead_cores": dead}
        args.json.write_text(json.dumps(written, indent=2) + "\n")


if __name__ == "__main__":
    main()
