"""What learning costs for many QPs: processor time of each window, and memory.

    python -m benchmarks.learning.learning_cost [--qps 100000] [--hosts 64] [--windows 6]     (or: make bench-learning)

Jobs of so many hosts each, all-to-all, of a period of two seconds; the counters of their QPs are read twice a second.
A window is two seconds, as in the controller: its sightings are added, then jobs are inferred from all that is kept.
Times are processor times of this process, so work beside it hardly counts; memory is the rise of its largest resident
size while it learns, which holds what is kept, what inference uses, and one window of sightings.
"""

from __future__ import annotations

import argparse
import resource
import time
from itertools import pairwise

import numpy as np

from controller.learning.infer import infer
from controller.learning.odometer import Odometers
from controller.learning.sightings import QpKey, SightingBatch
from tests.unit.learning.drawn_sightings import Draw, Transfers, exchange, polled_counters

WINDOW_SECONDS = 2.0
PERIOD_SECONDS = 2.0
READ_SECONDS = 0.5
BYTES = 100_000_000


def rename(keys: tuple[QpKey, ...], by: int) -> tuple[QpKey, ...]:
    """Return the QPs of another job, whose hosts have numbers that are higher by this."""
    return tuple(key._replace(src=key.src + by, dst=key.dst + by) for key in keys)


def window(transfers: Transfers, jobs: int, number: int) -> list[SightingBatch]:
    """Return the sightings of all jobs in one window; the counters go on from window to window."""
    found = []
    hosts = max(key.src for key in transfers.keys) + 1
    for job in range(jobs):
        draw = Draw(PERIOD_SECONDS, number + 1)
        batch = polled_counters(transfers, draw, READ_SECONDS, np.random.default_rng(job))
        now = (batch.at >= number * WINDOW_SECONDS) & (batch.at < (number + 1) * WINDOW_SECONDS)
        found.append(
            batch._replace(
                keys=rename(batch.keys, job * hosts), qp=batch.qp[now], at=batch.at[now], sent=batch.sent[now]
            )
        )
    return found


def learn(transfers: Transfers, jobs: int, windows: int) -> None:
    """Print the cost of each window, and of all."""
    odometers = Odometers()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(windows):
        batches = window(transfers, jobs, number)
        sightings = sum(len(batch.at) for batch in batches)
        times = [time.process_time()]
        for batch in batches:
            odometers.add(batch)
        times.append(time.process_time())
        del batches, batch
        found = infer(odometers, -1.0, np.random.default_rng(0))
        times.append(time.process_time())
        adding, inferring = (end - begin for begin, end in pairwise(times))
        memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        row = (number + 1, len(odometers), sightings, f"{sightings / adding:,.0f}", f"{inferring:.2f}", len(found))
        print("|", " | ".join(map(str, row)), f"| {memory:.0f} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qps", type=int, default=100_000)
    parser.add_argument("--hosts", type=int, default=64, help="of each job")
    parser.add_argument("--windows", type=int, default=6)
    args = parser.parse_args()
    transfers = exchange(range(args.hosts), BYTES, 0.8, 1.8)
    print("| window | QPs | sightings | added a second | inference, s | jobs | memory, MB |")
    print("| --: | --: | --: | --: | --: | --: | --: |")
    # Kernels compile, and pages that any use takes are touched, before anything counts.
    odometers = Odometers()
    for batch in window(transfers, 1, 2):
        odometers.add(batch)
    infer(odometers, -1.0, np.random.default_rng(0))
    learn(transfers, max(1, args.qps // len(transfers.keys)), args.windows)


if __name__ == "__main__":
    main()
