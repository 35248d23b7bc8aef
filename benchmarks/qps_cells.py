"""Hashed and planned QPs in each cell of scenarios: ``fair`` must not be slower, and spraying not much faster.

    python benchmarks/qps_cells.py examples/scenarios/shared.yaml ... [--qps 1,4,16] [--seeds 3] [--epochs 2]

Each case of a scenario is simulated under each failure with each number of QPs a connection: by ``ecmp`` (a hash of the
ports that the controller chooses), ``e_ecmp`` (of those that hosts derive), ``fair``, and ideal spraying. The value of
a cell is the time of iterations, computing included, divided by the time alone (``iteration`` of ``cell.row_of``).
``fair`` fails in a cell if it is slower than the mean over the draws of one of the hashes. Where a connection can have
equally many QPs on all live uplinks of a leaf, it also fails if the mean over the cases of a scenario is more than 1 %
above that of spraying. The program ends with 1 after any failure.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from controller.model.fabric_file import read_document
from controller.model.tolerances import ROUNDING
from emulation.evaluation.scenario import Cell, Scenario, parse_scenario
from emulation.evaluation.sweep import Finished, sweep

HASHES = ("ecmp", "e_ecmp")
NEAR_SPRAYING = 0.01

Key = tuple[str, int, str, str]
"""(scenario, QPs, case, failure)."""


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


def live_uplinks(cell: Cell) -> int:
    """Return the most live uplinks that a leaf has."""
    fabric = cell.failure.on(cell.fabric, cell.seed)
    up = [cable.leaf for cable in fabric.cables if cable.up]
    return max(up.count(leaf.name) for leaf in fabric.leaves)


def values(cells: Sequence[Cell], rows: Sequence[Mapping[str, Any]]) -> dict[Key, dict[str, float]]:
    """Return the mean over draws of the value of each policy, by cell."""
    drawn: dict[Key, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cell, row in zip(cells, rows, strict=True):
        key = cell.scenario, cell.case.qps.count, cell.case.name, cell.failure.name
        drawn[key][cell.policy.name].append(row["iteration"])
    return {key: {name: statistics.fmean(each) for name, each in by.items()} for key, by in drawn.items()}


def main() -> None:
    """Print the mean of each scenario, and each cell that fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="+", type=Path)
    parser.add_argument("--qps", default="1,4,16")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    qps = [int(each) for each in args.qps.split(",")]
    cells = [c for path in args.scenarios for c in with_qps(path, qps, args.seeds, args.epochs).cells()]
    found = values(cells, sweep(cells, Finished(Path("out/qps-cells")), workers=args.workers))
    uplinks = {(cell.scenario, cell.failure.name): live_uplinks(cell) for cell in cells}
    failures = []
    groups: dict[tuple[str, int, str], list[dict[str, float]]] = defaultdict(list)
    for key, of in found.items():
        groups[key[0], key[1], key[3]].append(of)
        failures += [
            f"{', '.join(map(str, key))}: fair {of['fair']:.4f}, {name} {of[name]:.4f}"
            for name in HASHES
            if of["fair"] > of[name] * (1 + ROUNDING)
        ]
    print("| scenario | QPs | failed | cells | ecmp | e_ecmp | fair | spray | least hash / fair | fair / spray |")
    print("| --- | --: | --- | --: | --: | --: | --: | --: | --: | --: |")
    for (scenario, count, failure), group in groups.items():
        means = {name: statistics.fmean(of[name] for of in group) for name in group[0]}
        least = min(min(of[name] for name in HASHES) / of["fair"] for of in group)
        over = statistics.fmean(of["fair"] / of["spray"] for of in group)
        cols = " | ".join(f"{means[name]:.3f}" for name in (*HASHES, "fair", "spray"))
        print(f"| {scenario} | {count} | {failure} | {len(group)} | {cols} | {least:.3f} | {over:.4f} |")
        if count % uplinks[scenario, failure] == 0 and over > 1 + NEAR_SPRAYING:
            failures.append(f"{scenario}, {count} QPs, {failure}: fair is {over - 1:.1%} slower than spraying")
    for failure in failures:
        print(f"FAILED {failure}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
