"""Hashed and planned QPs in each cell of scenarios: ``fair`` must not be slower, and spraying not much faster.

    python -m benchmarks.plans.qps_cells examples/scenarios/shared.yaml ... [--qps 1,4,16] [--seeds 3] [--epochs 2]
        [--plans]

Each case of a scenario is simulated under each failure with each number of QPs a connection: by ``ecmp`` (a hash of the
ports that the controller chooses), ``e_ecmp`` (of those that hosts derive), ``fair``, and ideal spraying. The value of
a cell is the time of iterations, computing included, divided by the time alone (``iteration`` of ``cell.row_of``).
With ``--plans`` nothing is simulated: the value is the seconds of communication by the objective of a plan for all jobs
at once, divided by the ideal, mean over jobs. That takes large scenarios a fraction of the time.

``fair`` fails in a cell if it is slower than the mean over the draws of one of the hashes (by more than ``TOLERANCE``).
Where a connection can have equally many QPs on all live uplinks of a leaf, it also fails if the mean over the cases of
a scenario is more than 1 % above that of spraying. The program ends with 1 after any failure.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from controller.model.files.fabric_file import read_document
from controller.model.tolerances import TOLERANCE
from controller.routing import assign
from controller.routing.objective.fairness import evaluate
from controller.routing.problem.demand import Demand
from emulation.evaluation.scenario import Cell, Scenario, parse_scenario
from emulation.evaluation.sweep import Finished, sweep
from emulation.experiments.scale import phase_sums
from emulation.fluid.schedule import joined

HASHES = ("ecmp", "e_ecmp")
NEAR_SPRAYING = 0.01

Group = tuple[str, int, str]
"""(scenario, QPs, failure)."""

Values = Mapping[str, float]
"""Mean over draws of the value of each policy in a cell."""


def with_qps(path: Path, qps: Sequence[int], seeds: int, epochs: int | None) -> Scenario:
    """Return a scenario with each case for each number of QPs, under the policies to compare.

    Args:
        path: the scenario.
        qps: QPs of each connection of jobs that do not say.
        seeds: draws of the hashes.
        epochs: of all jobs; ``None``: as in the scenario.
    """
    document = read_document(path)
    for case in document["cases"]:
        case["qps"] = list(qps)
        for job in case.get("jobs", ()) if epochs is not None else ():
            job["epochs"] = epochs
    if epochs is not None:
        document["epochs"] = epochs
    document |= {
        "policies": [*HASHES, "fair", {"policy": "spray", "allocation": "paced"}],
        "allocation": ["flow"],
        "seeds": list(range(1, seeds + 1)),
        "targets": [],
        "references": [],
    }
    return parse_scenario(document, path.parent, source=str(path))


def planned_row(cell: Cell) -> dict[str, float]:
    """Return the value of a cell by the objective of its plan; see the module."""
    fabric, traffic = cell.failure.on(cell.fabric, cell.seed), joined(cell.case.jobs)[0]
    policy = cell.policy
    made = assign(policy.policy, fabric, traffic, seed=cell.seed, options=policy.options).assignment
    objective = evaluate(fabric, traffic, made)
    seconds = phase_sums(traffic, objective.ideal_seconds / objective.speed)
    ideal = phase_sums(traffic, Demand.of(cell.fabric, traffic).ideal_seconds)
    return {"iteration": fmean(seconds[job] / ideal[job] for job in seconds)}


def groups_of(cells: Sequence[Cell], rows: Sequence[Mapping[str, Any]]) -> dict[Group, dict[str, Values]]:
    """Return the values of each case, by (scenario, QPs, failure)."""
    drawn: dict[Group, dict[str, dict[str, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list)),
    )
    for cell, row in zip(cells, rows, strict=True):
        cases = drawn[cell.scenario, cell.case.qps.count, cell.failure.name]
        cases[f"{cell.case.kind}: {cell.case.name}"][cell.policy.name].append(row["iteration"])
    return {
        group: {case: {name: fmean(each) for name, each in by.items()} for case, by in cases.items()}
        for group, cases in drawn.items()
    }


def failures_of(group: Group, cases: Mapping[str, Values], uplinks: int) -> list[str]:
    """Return a sentence for each way in which ``fair`` fails; ``uplinks``: the live ones of a leaf."""
    found = [
        f"{case}, failed: {group[2]}: fair {of['fair']:.4f}, {name} {of[name]:.4f}"
        for case, of in cases.items()
        for name in HASHES
        if of["fair"] > of[name] * (1 + TOLERANCE)
    ]
    over = fmean(of["fair"] / of["spray"] for of in cases.values()) - 1
    if group[1] % uplinks == 0 and over > NEAR_SPRAYING:
        found.append(f"failed: {group[2]}: {over:.1%} slower than spraying")
    return [f"{group[0]}, {group[1]} QPs, {each}" for each in found]


def live_uplinks(cell: Cell) -> int:
    """Return the most live uplinks that a leaf has."""
    fabric = cell.failure.on(cell.fabric, cell.seed)
    return max(Counter(cable.lower for cable in fabric.cables if cable.up).values())


def main() -> None:
    """Print the mean of each scenario, and each cell that fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="+", type=Path)
    parser.add_argument("--qps", default="1,4,16")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--plans", action="store_true")
    args = parser.parse_args()
    qps = [int(each) for each in args.qps.split(",")]
    cells = [cell for path in args.scenarios for cell in with_qps(path, qps, args.seeds, args.epochs).cells()]
    uplinks = {(cell.scenario, cell.case.qps.count, cell.failure.name): live_uplinks(cell) for cell in cells}
    if args.plans:
        rows = [planned_row(cell) for cell in cells]
    else:
        rows = sweep(cells, Finished(Path("out/qps-cells")), workers=args.workers)
    groups = groups_of(cells, rows)
    print("| scenario | QPs | failed | cases | ecmp | e_ecmp | fair | spray | least hash / fair | fair / spray |")
    print("| --- | --: | --- | --: | --: | --: | --: | --: | --: | --: |")
    for group, cases in groups.items():
        means = " | ".join(f"{fmean(of[name] for of in cases.values()):.3f}" for name in (*HASHES, "fair", "spray"))
        least = min(of[name] / of["fair"] for of in cases.values() for name in HASHES)
        over = fmean(of["fair"] / of["spray"] for of in cases.values())
        print(f"| {' | '.join(map(str, group))} | {len(cases)} | {means} | {least:.3f} | {over:.4f} |")
    failures = [each for group, cases in groups.items() for each in failures_of(group, cases, uplinks[group])]
    for failure in failures:
        print(f"FAILED {failure}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
