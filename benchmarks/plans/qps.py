"""Hashed and planned QPs: the time of collectives over the ideal one, by QPs of a connection and failed spines.

    python -m benchmarks.plans.qps [--qps 1,4,16,64] [--seeds 3]

All 2,048 hosts of 64 leaves under 32 spines send in rings over hosts in random order. ``e_ecmp`` hashes each QP,
``random`` draws the path of each independently (which an ideal hash does), ``fair`` plans each. A cell is the mean over
rings (and over seeds for the first two) of the seconds of a ring, divided by those with free splitting and all spines.
*Bound*: an uplink of a full leaf carries at least ``ceil(32 q / live)`` QPs.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys

from benchmarks.plans.instances import rings, with_qps
from controller.model.fabric import Fabric, FloatArray
from controller.model.files.clos import clos
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Traffic
from controller.routing import assign, warm_up
from controller.routing.objective.fairness import evaluate
from controller.routing.problem.demand import Demand

SPINES, LEAVES, HOSTS = 32, 64, 32
MIXES = {"8 rings of 256": 256, "32 rings of 64": 64}
FAILED = (0, 1, 4)

LIKE_DRAWING = 0.2
"""Largest difference between the means over seeds of hashing and of drawing: single draws differ by 8 %."""


def slowdown(policy: str, fabric: Fabric, traffic: Traffic, ideal: FloatArray, seed: int) -> float:
    """Return the mean over collectives of their seconds by a policy, divided by ``ideal`` [K] seconds."""
    made = assign(policy, fabric, traffic, seed=seed).assignment
    objective = evaluate(fabric, traffic, made)
    return float((objective.ideal_seconds / objective.speed / ideal).mean())


def row(mix: int, qps: int, failed: int, seeds: int) -> tuple[float, float, float, float]:
    """Return the slowdown by ``e_ecmp``, by ``random``, by ``fair``, and the least one by whole QPs."""
    whole = clos(SPINES, LEAVES, HOSTS)
    fabric = whole.without_links([spine.name for spine in whole.spines[SPINES - failed :]])
    connections = rings(whole, mix)
    ideal = Demand.of(whole, connections).ideal_seconds
    traffic = with_qps(connections, qps)
    hashed, drawn = (
        statistics.fmean(slowdown(policy, fabric, traffic, ideal, seed) for seed in range(seeds))
        for policy in ("e_ecmp", "random")
    )
    return hashed, drawn, slowdown("fair", fabric, traffic, ideal, 0), math.ceil(HOSTS * qps / (SPINES - failed)) / qps


def main() -> None:
    """Print the table; end with 1 if ``fair`` is above the bound or a hash, or if the hash is not like drawing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qps", default="1,4,16,64")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    warm_up()
    wrong = 0
    print("| rings | QPs | failed spines | e_ecmp | random | fair | bound |")
    print("| --- | --: | --: | --: | --: | --: | --: |")
    for name, mix in MIXES.items():
        for qps in map(int, args.qps.split(",")):
            for failed in FAILED:
                hashed, drawn, planned, bound = row(mix, qps, failed, args.seeds)
                wrong += planned > min(bound, hashed, drawn) * (1 + TOLERANCE) or abs(hashed / drawn - 1) > LIKE_DRAWING
                print(
                    f"| {name} | {qps} | {failed} | {hashed:.2f} | {drawn:.2f} | {planned:.4f} | {bound:.4f} |",
                    flush=True,
                )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
