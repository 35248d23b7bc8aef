"""Measure whether a count of samples can tell which edges of an exchange between hosts were not seen.

An exchange of n hosts has n(n-1) edges; of each, a number of packets is sampled that is Poisson-distributed. A rule
that completes an exchange where the edges that were not seen are about as many as chance explains (the mean by the
zero-truncated Poisson distribution of those that were seen; two-sided, at 5 %) is applied to drawn exchanges: whole
ones, ones that lack some edges, and two that share hosts. Usage: ``python -m benchmarks.learning.unseen_edges``.
"""

from __future__ import annotations

import argparse
from functools import cache
from itertools import permutations
from math import exp, lgamma, log

import numpy as np

from controller.model.fabric import BoolArray, IntArray

LEVEL = 0.05


def mean_of(samples: IntArray) -> float:
    """Return the mean of a Poisson distribution by the samples [E] of the edges of which there are any."""
    seen = samples[samples > 0]
    average = float(seen.mean()) if len(seen) else 0.0
    if average <= 1:
        return 0.0
    # The mean of those that are not 0 is m / (1 - exp(-m)), which exceeds 1 and grows with m.
    low, high = 0.0, average
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if middle / -np.expm1(-middle) < average else (low, middle)
    return high


@cache
def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def tails(k: int, n: int, p: float) -> tuple[float, float]:
    """Return the probabilities that at most, and at least, ``k`` of ``n`` events of probability ``p`` happen."""
    terms = [exp(_log_choose(n, i) + i * log(p) + (n - i) * log(1 - p)) for i in range(n + 1)]
    return sum(terms[: k + 1]), sum(terms[k:])


def may_be_whole(samples: IntArray, edges: int) -> bool:
    """Return whether chance explains that of so many edges only these have samples."""
    unseen, mean = edges - int((samples > 0).sum()), mean_of(samples)
    if mean == 0.0:
        return False
    return min(tails(unseen, edges, float(np.exp(-mean)))) > LEVEL / 2


def drawn(hosts: int, missing: float, mean: float, rng: np.random.Generator) -> tuple[IntArray, BoolArray]:
    """Return the samples of each pair of hosts, and whether it is an edge."""
    real = np.ones(hosts * (hosts - 1), dtype=np.bool_)
    real[rng.permutation(len(real))[: round(missing * len(real))]] = False
    samples: IntArray = (rng.poisson(mean, len(real)) * real).astype(np.int32)
    return samples, real


def overlapping(hosts: int, mean: float, rng: np.random.Generator) -> tuple[IntArray, BoolArray]:
    """Return the same for two exchanges of so many hosts each that share all but one, as one connected group."""
    pairs = list(permutations(range(hosts + 1), 2))
    real = np.array([{a, b} != {0, hosts} for a, b in pairs])
    samples: IntArray = (rng.poisson(mean, len(real)) * real).astype(np.int32)
    return samples, real


def main() -> None:
    """Draw exchanges and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=1000, help="of each row (default: 1000)")
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    print("| samples an edge | hosts | edges that lack | completed | precision | recall before | after |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for mean in (0.68, 2.0):
        for hosts in (8, 32):
            for missing in (0.0, 0.01, 0.05, 0.2, None):
                completed, right, claimed, before, after = 0, 0, 0, 0.0, 0.0
                for _ in range(options.draws):
                    if missing is None:
                        samples, real = overlapping(hosts, mean, rng)
                    else:
                        samples, real = drawn(hosts, missing, mean, rng)
                    recall = float((samples > 0).sum() / real.sum())
                    whole = may_be_whole(samples, len(real))
                    completed += whole
                    right += int(real.sum()) if whole else 0
                    claimed += len(real) if whole else 0
                    before += recall
                    after += 1.0 if whole else recall
                n = options.draws
                lack = "one pair of hosts" if missing is None else f"{missing:.0%}"
                precision = f"{right / claimed:.4f}" if claimed else "-"
                recalls = f"{before / n:.3f} | {after / n:.3f}"
                print(f"| {mean} | {hosts} | {lack} | {completed / n:.1%} | {precision} | {recalls} |", flush=True)


if __name__ == "__main__":
    main()
