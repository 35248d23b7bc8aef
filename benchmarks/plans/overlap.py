"""Compare the plans of ``fair`` for jobs that overlap sending with computing with the best of all plans.

    python -m benchmarks.plans.overlap [--instances 50] [--seed 0]

Two or three jobs on two leaves below two or three spines are drawn. In each, one host sends what the job waits for to
one or two others, and another one what overlaps with computing. The expected slowdown of every plan is computed
(docs/explanation/objective.md, "Overlap"); spines are alike. Prints, for each number of spines, the mean and the
largest ratio of the expected slowdown of ``fair`` to the least, with its seed, and the same for ``fair`` that ignores
times.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.timing import JobTiming
from controller.model.traffic import FIRST_PORT, Collective, Traffic
from controller.model.waits import Waits
from controller.routing import Options, assign
from controller.routing.problem.demand import Demand
from controller.routing.times.flow_estimate import expected_slowdown
from controller.routing.times.stages import Stages

HOSTS = 12
MOST_FLOWS = {2: 8, 3: 7}
"""Most flows of an instance, by the number of spines: every plan is tried."""


def drawn(seed: int, spines: int) -> tuple[Fabric, Traffic]:
    """Return the instance of a seed; draws with too many flows are passed over."""
    rng = np.random.default_rng([seed, spines])
    while True:
        left, right = rng.permutation(HOSTS).tolist(), (HOSTS + rng.permutation(HOSTS)).tolist()
        rows: list[Collective] = []
        flows: list[tuple[int, int, int, int]] = []
        for j in range(int(rng.integers(2, 4))):
            sizes = [rng.choice([2, 3, 4, 6], int(rng.integers(1, 3))).tolist() for _ in range(2)]
            # Up to one and a half times as long as what overlaps takes alone, at 100 Gbit/s.
            timing = JobTiming(((0, float(rng.integers(0, 4)) * 0.5 * sum(sizes[1]) * 0.08),))
            for name, waits, own in zip(("ep", "dp"), (Waits(), Waits(computing=False)), sizes, strict=True):
                src = left.pop()
                flows += [(src, right.pop(), size * 10**9, len(rows)) for size in own]
                rows.append(Collective(f"job{j}", name, timing=timing, waits=waits))
        if len(flows) <= MOST_FLOWS[spines]:
            src_of, dst, size, collective = np.array(flows, dtype=np.int64).T
            number = np.arange(len(flows), dtype=np.int32)
            return clos(spines, 2, HOSTS), Traffic(
                src_of.astype(np.int32),
                dst.astype(np.int32),
                size,
                collective.astype(np.int32),
                number,
                FIRST_PORT + number,
                tuple(rows),
            )


def least(fabric: Fabric, traffic: Traffic) -> float:
    """Return the least expected slowdown of all plans of one path a flow."""
    demand = Demand.of(fabric, traffic)
    stages = Stages.of(demand)
    slowdown = np.inf
    for path in itertools.product(range(fabric.live_ways.n_paths), repeat=demand.n_units):
        if all(path[i] <= max(path[:i], default=-1) + 1 for i in range(len(path))):
            tried = demand.assignment(np.array(path, dtype=np.int32))
            slowdown = min(slowdown, expected_slowdown(stages, tried))
        if slowdown <= 1.0:
            break
    return slowdown


def slowdown_of(fabric: Fabric, traffic: Traffic, options: Options) -> float:
    """Return the expected slowdown of the plan of ``fair``."""
    plan = assign("fair", fabric, traffic, options=options).assignment
    return expected_slowdown(Stages.of(Demand.of(fabric, traffic)), plan)


def main() -> None:
    """Compare on all instances and print a line for each number of spines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=50, help="for each number of spines (default: 50)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    args = parser.parse_args()
    seeds = range(args.seed, args.seed + args.instances)
    for spines in MOST_FLOWS:
        instances = [drawn(seed, spines) for seed in seeds]
        best = np.array([least(*instance) for instance in instances])
        parts = []
        for name, options in (("fair", Options()), ("fair, times ignored", Options(times="ignore"))):
            ratio = np.array([slowdown_of(*instance, options) for instance in instances]) / best
            parts.append(f"{name} {ratio.mean():.4f} (worst {ratio.max():.4f}, seed {seeds[int(ratio.argmax())]})")
        print(f"{spines} spines, {len(instances)} instances, least slowdown {best.mean():.4f}; over it:")
        print(*parts, sep="\n")


if __name__ == "__main__":
    main()
