"""Plans where cables are slow or have failed: times of the ideal time, of the plan of ``fair``, and of its bounds.

    python -m benchmarks.plans.uneven [--sizes K ...] [--json FILE]

The fabric is a fat tree of switches with K ports, the same with dual-ToR, planes that together have as many ports of
hosts, or leaves and spines. Each NIC sends to another one, drawn, by all of its ports, in one collective. Times are
processor time, the best of several runs; the time of a plain loop is printed with them, since machines differ.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.plans.instances import traffic_of
from benchmarks.plans.routing import fresh
from benchmarks.plans.three_layers import fat_tree
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.model.traffic import Collective, Traffic
from controller.planning.make_plan import make_plan
from controller.routing import warm_up
from controller.routing.problem.demand import Demand

RUNS = 3
TENTH = (0.1,)
TEN_SPEEDS = (0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def slowed(fabric: Fabric, count: int, parts: tuple[float, ...], rng: np.random.Generator) -> Fabric:
    """Return the fabric with some drawn cables at these parts of their speed."""
    cables = list(fabric.cables)
    for n, c in enumerate(rng.choice(len(cables), count, replace=False).tolist()):
        cables[c] = dataclasses.replace(cables[c], gbps=cables[c].gbps * parts[n % len(parts)])
    return dataclasses.replace(fabric, cables=tuple(cables))


def slowed_on_top(fabric: Fabric, count: int, rng: np.random.Generator) -> Fabric:
    """Return the fabric with some drawn cables of the highest switches at a tenth of their speed."""
    top = np.flatnonzero(fabric.cable_tier == fabric.cable_tier.max())
    chosen = set(rng.choice(top, count, replace=False).tolist())
    return dataclasses.replace(
        fabric,
        cables=tuple(
            dataclasses.replace(cable, gbps=cable.gbps / 10) if c in chosen else cable
            for c, cable in enumerate(fabric.cables)
        ),
    )


def failed(fabric: Fabric, count: int, rng: np.random.Generator) -> Fabric:
    """Return the fabric without some drawn cables."""
    return fabric.without_links(np.array(fabric.cable_names)[rng.choice(len(fabric.cables), count, replace=False)])


def drained(fabric: Fabric, count: int, rng: np.random.Generator) -> Fabric:
    """Return the fabric without some drawn switches above the leaves."""
    names = [switch.name for layer in fabric.layers[1:] for switch in layer]
    return fabric.without_links(rng.choice(names, count, replace=False).tolist())


CASES: dict[str, Callable[[Fabric, np.random.Generator], Fabric]] = {
    "healthy": lambda fabric, _: fabric,
    "8 slow at the top": lambda fabric, rng: slowed_on_top(fabric, 8, rng),
    "64 slow at the top": lambda fabric, rng: slowed_on_top(fabric, 64, rng),
    "64 slow": lambda fabric, rng: slowed(fabric, 64, TENTH, rng),
    "64 failed": lambda fabric, rng: failed(fabric, 64, rng),
    "64 slow, 64 failed": lambda fabric, rng: failed(slowed(fabric, 64, TENTH, rng), 64, rng),
    "2 drained, 64 slow": lambda fabric, rng: drained(slowed(fabric, 64, TENTH, rng), 2, rng),
    "ten speeds": lambda fabric, rng: slowed(fabric, 64, TEN_SPEEDS, rng),
}


def fabrics(k: int) -> dict[str, Fabric]:
    """Return the fabrics with as many ports of hosts as the fat tree of switches with ``k`` ports (a multiple of 4)."""
    half, quarter = k // 2, k // 4
    return {
        f"fat tree, k={k}": fat_tree(k),
        f"8 planes, k={half}": pod_clos(half, quarter, quarter, quarter, quarter, planes=8),
        f"dual-ToR, k={k}": pod_clos(k, half, half, half, half, dual_tor=True),
    }


def permutation(fabric: Fabric, rng: np.random.Generator) -> Traffic:
    """Return one flow from each NIC to another one by each of its ports, in one collective."""
    ports = fabric.planes.ports
    order = rng.permutation(len(ports))
    src, dst = ports[order].reshape(-1), ports[np.roll(order, -1)].reshape(-1)
    n = len(src)
    return traffic_of(src, dst, np.full(n, 10**9), np.zeros(n, np.int64), [Collective("a", "shift")])


def loop_seconds() -> float:
    """Return the processor time of twenty million additions, by which machines can be compared."""
    begin = time.process_time()
    total = 0
    for n in range(20_000_000):
        total += n
    return time.process_time() - begin


def measure(name: str, healthy: Fabric, case: str) -> dict[str, Any]:
    """Measure one case."""
    rng = np.random.default_rng(0)
    fabric = CASES[case](healthy, rng)
    traffic = permutation(fabric, rng)
    demands, plans, whole = [], [], []
    for _ in range(RUNS):
        flows = fresh(traffic)
        begin = time.process_time()
        Demand.of(fabric, flows)
        demands.append(time.process_time() - begin)
        begin = time.process_time()
        plan = make_plan(fabric, flows, policy="fair", clock=time.process_time)
        whole.append(time.process_time() - begin)
        plans.append(plan.seconds)
    return {
        "fabric": name,
        "case": case,
        "ideal_ms": min(demands) * 1e3,
        "fair_ms": min(plans) * 1e3,
        "whole_ms": min(whole) * 1e3,
        "ideal_within": plan.objective.ideal_within,
        "min_level": plan.objective.min_level,
        "bound_split": plan.bound.split,
        "bound_split_exact": plan.bound.split_exact,
    }


def main() -> None:
    """Measure and print all rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", type=int, default=[16, 32], help="ports of the fat trees' switches")
    parser.add_argument("--json", type=Path, help="write all rows here, too")
    args = parser.parse_args()
    warm_up()
    chosen = {name: fabric for k in args.sizes for name, fabric in fabrics(k).items()}
    chosen["32 spines, 64 leaves"] = clos(32, 64, 32)
    rows = [measure(name, fabric, case) for name, fabric in chosen.items() for case in CASES]
    table = Table(title="fair where cables differ", title_justify="left")
    for column in ("fabric", "cables", "ideal, ms", "fair, ms", "with bounds", "ideal within", "min level", "split"):
        table.add_column(column, justify="left" if column in ("fabric", "cables") else "right")
    for row in rows:
        table.add_row(
            row["fabric"],
            row["case"],
            *(f"{row[key]:.1f}" for key in ("ideal_ms", "fair_ms", "whole_ms")),
            f"{row['ideal_within']:.0e}" if row["ideal_within"] else "exact",
            f"{row['min_level']:.4f}",
            ("" if row["bound_split_exact"] else "at most ") + f"{row['bound_split']:.4f}",
        )
    console = Console()
    console.print(table)
    console.print(f"twenty million additions in Python: {loop_seconds():.2f} s")
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
