"""Count how often ``fair`` keeps its contract (docs/explanation/policies.md) on random instances; print worst cases.

    python -m benchmarks.plans.contract [--instances 300] [--seed 0] [--points NAME ...] [--json FILE]

Point 1 compares levels lexicographically, so its worst case is the number of violations; the others are ratios.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.plans import contract_draws as draws
from benchmarks.plans.instances import all_to_all, five_jobs, in_phases, odd, part_of, rings
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Traffic
from controller.routing import Options, PreviousPlan, assign
from controller.routing.objective.bounds import bound
from controller.routing.objective.fairness import compare_levels, evaluate
from controller.routing.objective.incidence import Incidence
from controller.routing.problem.demand import Demand
from controller.routing.validate import validate_assignment


def levels(fabric: Fabric, traffic: Traffic, name: str) -> np.ndarray:
    """Return the levels [K] of a policy's plan."""
    demand = Demand.of(fabric, traffic)
    return Incidence.of(demand, assign(name, fabric, traffic).assignment).levels(demand)[0]


def no_worse(instances: int, seed: int) -> list[dict[str, Any]]:
    """Check point 1: levels at least those of the simple placements, and of annealing on the benchmark's instances."""
    worse = dict.fromkeys(("greedy", "coloring", "first_fit", "annealing"), 0)
    better = dict(worse)
    for i in range(instances):
        fabric, traffic = odd(np.random.default_rng([seed, 1, i]), weights=True)
        ours = levels(fabric, traffic, "fair")
        for name in worse:
            order = compare_levels(ours, levels(fabric, traffic, name))
            worse[name] += order < 0
            better[name] += order > 0
    rows = [
        {"point": f"1 against {name}", "instances": instances, "worst": f"{worse[name]} worse, {better[name]} better"}
        for name in worse
    ]
    fabric = clos(32, 64, 32)
    failed = fabric.without_links([f"spine{n}" for n in range(29, 33)])
    tried, lost = 0, 0
    for there in (fabric, failed):
        for traffic in (rings(there, 256), five_jobs(there), all_to_all(there, 16), rings(there, 64, unequal=True)):
            tried += 1
            lost += compare_levels(levels(there, traffic, "fair"), levels(there, traffic, "annealing")) < 0
    return [*rows, {"point": "1 against annealing, large", "instances": tried, "worst": f"{lost} worse"}]


def equal_loads(instances: int, seed: int) -> list[dict[str, Any]]:
    """Check point 2: gap for one path a flow with equal loads (in each phase) on a healthy symmetric fabric."""
    worst, tried = 0.0, 0
    for i in range(instances):
        rng = np.random.default_rng([seed, 2, i])
        spines, leaves, hosts = (int(n) for n in rng.integers(2, 25, 3))
        fabric = clos(
            spines, leaves, hosts, uplink_gbps=float(rng.choice([50, 100, 400])), parallel=int(rng.integers(1, 3))
        )
        size = int(rng.integers(2, min(64, fabric.n_hosts) + 1))
        phases = int(rng.choice([1, 1, 2, 3]))
        made = [(rings if rng.random() < 0.7 else all_to_all)(fabric, size, seed=3 * i + k) for k in range(phases)]
        traffic = in_phases(made) if phases > 1 else made[0]
        demand = Demand.of(fabric, traffic)
        phase = traffic.phase[traffic.collective]
        if any(np.ptp(demand.gbps[phase == p]) > TOLERANCE * demand.gbps.max() for p in range(phases)):
            continue
        tried += 1
        plan = evaluate(fabric, traffic, assign("fair", fabric, traffic).assignment, demand=demand)
        worst = max(worst, float(bound(fabric, traffic, demand=demand).single or 0) / plan.min_level - 1)
    return [{"point": "2 equal loads: gap", "instances": tried, "worst": f"{worst:.2e}"}]


def near_the_optimum(instances: int, seed: int) -> list[dict[str, Any]]:
    """Check point 3: min_speed against ``ilp`` where that proves its optimum."""
    ratios = []
    for i in range(instances):
        fabric, traffic = odd(np.random.default_rng([seed, 3, i]))
        best = assign("ilp", fabric, traffic, options=Options(seconds=10, nodes=10**6))
        if best.status == "optimal":
            ours = evaluate(fabric, traffic, assign("fair", fabric, traffic).assignment).min_speed
            ratios.append(ours / evaluate(fabric, traffic, best.assignment).min_speed)
    over = sum(r < 0.99 for r in ratios)
    worst = f"{min(ratios):.5f} of the optimum ({over} below 0.99)"
    return [{"point": f"3 proved by ilp, of {instances}", "instances": len(ratios), "worst": worst}]


def every_kind_equal(instances: int, seed: int) -> list[dict[str, Any]]:
    """Check point 2 on every kind of fabric, with jobs whose rings are in one to four phases."""
    gaps = []
    for i in range(instances):
        rng = np.random.default_rng([seed, 6, i])
        kind = draws.KINDS[i % len(draws.KINDS)]
        fabric = draws.fabric_of(kind, int(rng.integers(2, 9)), rng, oversubscribed=False)
        traffic = draws.equal_loads(fabric, rng)
        plan = evaluate(fabric, traffic, assign("fair", fabric, traffic).assignment)
        gaps.append(float(bound(fabric, traffic).single or 0) / plan.min_level - 1)
    worst = f"{max(gaps):.2e} ({sum(each > TOLERANCE for each in gaps)} with a gap)"
    return [{"point": "2 every kind, in phases: gap", "instances": instances, "worst": worst}]


def every_kind_damaged(instances: int, seed: int) -> list[dict[str, Any]]:
    """Check point 3 on every kind of fabric with phases, QPs, weights and failures, and that order does not matter."""
    return _near_the_best(instances, seed, "failures", draws.damaged)


def every_kind_worn(instances: int, seed: int) -> list[dict[str, Any]]:
    """Check the same where cables are slow, and several cables and switches down as well."""
    return _near_the_best(instances, seed, "slow cables", draws.worn)


def _near_the_best(
    instances: int, seed: int, what: str, damage: Callable[[Fabric, np.random.Generator], Fabric]
) -> list[dict[str, Any]]:
    """Compare with the optimum, which a plan that reaches ``bound_single`` proves, or ``ilp`` within ten seconds."""
    ratios, by_order, better = [], [], 0
    for i in range(instances):
        rng = np.random.default_rng([seed, 7, i])
        kind = draws.KINDS[i % len(draws.KINDS)]
        fabric = damage(draws.fabric_of(kind, int(rng.integers(2, 4)), rng, oversubscribed=True), rng)
        traffic = draws.mixed(fabric, rng)
        ours = evaluate(fabric, traffic, assign("fair", fabric, traffic).assignment).min_level
        again = draws.reordered(traffic, rng)
        other = evaluate(fabric, again, assign("fair", fabric, again).assignment).min_level
        by_order.append(min(ours, other) / max(ours, other))
        if ours >= float(bound(fabric, traffic).single or 0) * (1 - TOLERANCE):
            ratios.append(1.0)
            continue
        best = assign("ilp", fabric, traffic, options=Options(seconds=10, nodes=10**6))
        ratio = ours / evaluate(fabric, traffic, best.assignment).min_level
        if best.status == "optimal":
            ratios.append(ratio)
        else:
            better += ratio < 1 - TOLERANCE
    worst = f"{min(ratios):.5f} of the optimum ({sum(r < 0.99 for r in ratios)} below 0.99)"
    unproved = f"{instances - len(ratios)} without proof, ilp better in {better}"
    order = f"{min(by_order):.5f} ({sum(r < 0.99 for r in by_order)} below 0.99)"
    return [
        {"point": f"3 every kind, {what}, of {instances}", "instances": len(ratios), "worst": f"{worst}; {unproved}"},
        {"point": f"jobs and flows in another order, {what}", "instances": instances, "worst": order},
    ]


def splitting(instances: int, seed: int) -> list[dict[str, Any]]:
    """Check point 4: with splitting, level against ``bound_split`` and pieces against leaves x spines."""
    ratio, pieces = np.inf, 0.0
    for i in range(instances):
        fabric, traffic = odd(np.random.default_rng([seed, 4, i]), weights=True)
        plan = assign("fair", fabric, traffic, options=Options(max_splits=10**9)).assignment
        validate_assignment(fabric, traffic, plan)
        ratio = min(ratio, evaluate(fabric, traffic, plan).min_level / (bound(fabric, traffic).split or np.inf))
        pieces = max(pieces, (plan.n_rows - traffic.n_flows) / (fabric.n_leaves * fabric.n_paths))
    worst = f"{ratio:.5f} of bound_split, {pieces:.2f} leaves x spines extra pieces"
    return [{"point": "4 splitting", "instances": instances, "worst": worst}]


def near_a_plan(instances: int, seed: int) -> list[dict[str, Any]]:
    """Check point 5: one failed link or one new job, min_level against a fresh plan, and how many flows moved."""
    ratio, moved, moved_afresh = np.inf, [], []
    for i in range(instances):
        rng = np.random.default_rng([seed, 5, i])
        fabric, traffic = odd(rng)
        up = [name for name, cable in zip(fabric.cable_names, fabric.cables, strict=True) if cable.up]
        there = fabric.without_links([str(rng.choice(up))]) if i % 2 else fabric
        last = len(traffic.collectives) - 1 if i % 2 == 0 and len(traffic.collectives) > 1 else len(traffic.collectives)
        cut = traffic.collective < last
        before = part_of(traffic, cut, last)
        previous = PreviousPlan.of(fabric, before, assign("fair", fabric, before).assignment)
        near = assign("fair", there, traffic, previous=previous).assignment
        afresh = assign("fair", there, traffic).assignment
        ratio = min(ratio, evaluate(there, traffic, near).min_level / evaluate(there, traffic, afresh).min_level)
        old = previous.single_paths(traffic)
        a, b = there.host_leaf[traffic.src], there.host_leaf[traffic.dst]
        keepable = there.live_ways.joined(a, b, old)
        for plan, share in ((near, moved), (afresh, moved_afresh)):
            share.append((keepable & (plan.path != old)).sum() / max(1, keepable.sum()))
    worst = f"{ratio:.5f} of a new plan; {np.mean(moved):.1%} of flows moved, afresh {np.mean(moved_afresh):.1%}"
    return [{"point": "5 near the plan in force", "instances": instances, "worst": worst}]


POINTS = {
    "no-worse": no_worse,
    "equal": equal_loads,
    "near-optimum": near_the_optimum,
    "every-equal": every_kind_equal,
    "every-damaged": every_kind_damaged,
    "every-worn": every_kind_worn,
    "splitting": splitting,
    "near-plan": near_a_plan,
}


def main() -> None:
    """Check every point and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=300, help="for each point (default: 300)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--points", nargs="*", choices=POINTS, default=list(POINTS), help="what to check")
    parser.add_argument("--json", type=Path, help="write the rows here")
    args = parser.parse_args()
    rows = []
    for name in args.points:
        rows += POINTS[name](args.instances, args.seed)
    table = Table(title="the contract of fair", title_justify="left")
    for key in rows[0]:
        table.add_column(key, no_wrap=True)
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console(width=140).print(table)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
