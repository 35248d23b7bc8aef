"""Plans from learned traffic against plans from pushed jobs, on 2,048 hosts whose packets are sampled.

    python -m benchmarks.learning.learned [--sampling 100000] [--loss 0.1] [--iterations 5] [--failed 0,1,4,8]
        [--files FOLDER] [--only TEXT]

All 2,048 hosts of 64 leaves under 32 spines may send: in jobs of the paper's traffic files (``--files``), and in
generated ones. Jobs compute, then send at half the speed that they would have alone. Sightings come in windows of two
seconds, as in the controller. ``fair`` plans for what was learned; flows that were missed are hashed. Both plans are
valued on the true traffic: a cell is the learned plan's speed over that of the plan from pushed jobs (least and
mean over collectives).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path

import numpy as np

from controller.learning.infer import infer
from controller.learning.learned_job import LearnedJob
from controller.learning.odometer import Odometers
from controller.learning.sightings import QpKey, SightingBatch
from controller.model.assignment import Assignment
from controller.model.fabric import Fabric, IntArray
from controller.model.files.clos import clos
from controller.model.traffic import Traffic
from controller.routing import assign, warm_up
from controller.routing.objective.fairness import evaluate
from controller.routing.problem.demand import Demand
from controller.views.learned import host_finder
from controller.workload.expand import combine, expand
from controller.workload.job_file import parse_job
from emulation.evaluation.data_files import folder_of, jobs_of_folder
from emulation.evaluation.generator import Mix, generate
from emulation.evaluation.timed_job import TimedJob
from tests.unit.learning.drawn_sightings import Draw, Transfers, sampled_packets

SPINES, LEAVES, HOSTS = 32, 64, 32
WINDOW_SECONDS = 2.0
SLOWER = 2.0
"""Time of communication over that of a job alone, while it is hashed."""
MIXES = {
    "4 jobs, rings of 8": Mix(4, 8),
    "5 jobs, unequal rings, scattered": Mix(5, 8, placement="scattered", unequal=True),
    "3 jobs, rings of 8, experts": Mix(3, 8, all_to_all=500_000_000),
}
FILES = ((1, 4), (3, 4), (5, 4), (3, 8))
"""(jobs, hosts of a ring) of the paper's files."""


def transfers_of(fabric: Fabric, traffic: Traffic) -> tuple[Transfers, float]:
    """Return the transfers of one job's traffic after its computing time of 0, and the seconds until the last ends."""
    address = [int(IPv4Address(host.ip)) for host in fabric.hosts]
    src, dst, port = (column.tolist() for column in (traffic.src, traffic.dst, traffic.udp_src))
    keys = tuple(QpKey(address[src[i]], address[dst[i]], port[i], i) for i in range(traffic.n_flows))
    alone = np.nan_to_num(Demand.of(fabric, traffic).ideal_seconds) * SLOWER
    phase = traffic.phase
    lasts = np.array([alone[phase == p].max(initial=0.0) for p in range(int(phase.max()) + 1)])
    begins = np.concatenate(([0.0], np.cumsum(lasts)))
    begin = begins[phase[traffic.collective]]
    end = begin + np.maximum(alone[traffic.collective], 1e-6)
    return Transfers(keys, np.arange(len(keys), dtype=np.int32), traffic.bytes, begin, end), float(begins[-1])


def sampled(fabric: Fabric, jobs: Sequence[TimedJob], traffic: Sequence[Traffic], draw: Draw) -> list[SightingBatch]:
    """Return what is sampled of all jobs, each for the same number of its iterations."""
    found = []
    for i, (job, own) in enumerate(zip(jobs, traffic, strict=True)):
        transfers, sending = transfers_of(fabric, own)
        computing = job.compute_seconds or 1.0
        shifted = Transfers(
            transfers.keys, transfers.qp, transfers.bytes, transfers.begin + computing, transfers.end + computing
        )
        one = Draw(
            computing + sending,
            draw.iterations,
            start=0.3 * i,
            period_jitter=0.02,
            bytes_jitter=0.01,
            sampling=draw.sampling,
            loss=draw.loss,
        )
        found.append(sampled_packets(shifted, one, np.random.default_rng([1, i])))
    return found


def learn(batches: Sequence[SightingBatch]) -> list[LearnedJob]:
    """Return the jobs that are learned once all was seen, in windows."""
    odometers = Odometers()
    last = max(float(batch.at.max()) for batch in batches)
    for begin in np.arange(0.0, last + WINDOW_SECONDS, WINDOW_SECONDS):
        for batch in batches:
            now = (batch.at >= begin) & (batch.at < begin + WINDOW_SECONDS)
            odometers.add(batch._replace(qp=batch.qp[now], at=batch.at[now], sent=batch.sent[now]))
    return infer(odometers, -1.0, np.random.default_rng(0))


def traffic_of(fabric: Fabric, jobs: Sequence[LearnedJob]) -> Traffic:
    """Return the traffic of learned jobs, as it is when they are adopted, without computing times.

    The pushed jobs state none, and a plan for jobs with computing times has another objective.
    """
    host = host_finder(fabric)
    bare = [replace(job, compute_seconds=()) for job in jobs]
    found = [parse_job(job.document(host), name=job.name) for job in bare]
    return combine([expand(fabric, job) for job in found])


def paths_of(fabric: Fabric, true: Traffic, learned: Traffic) -> tuple[IntArray, float]:
    """Return the path of each true flow by the plan for learned traffic, and the part of the flows that was learned."""

    def keys(traffic: Traffic) -> list[tuple[int, int, int]]:
        return list(zip(traffic.src.tolist(), traffic.dst.tolist(), traffic.udp_src.tolist(), strict=True))

    planned = dict(zip(keys(learned), assign("fair", fabric, learned).assignment.path.tolist(), strict=True))
    hashed = assign("ecmp", fabric, true).assignment.path.tolist()
    wanted = keys(true)
    path = [planned.get(key, by_hash) for key, by_hash in zip(wanted, hashed, strict=True)]
    return np.array(path, dtype=np.int32), sum(key in planned for key in wanted) / len(wanted)


def cases(fabric: Fabric, files: Path | None) -> Iterator[tuple[str, Sequence[TimedJob]]]:
    """Yield the jobs of each case."""
    for jobs, ring in FILES if files else ():
        assert files is not None
        yield f"paper's files, {jobs} jobs, rings of {ring}", jobs_of_folder(fabric, folder_of(files, jobs, ring), 1)
    for name, mix in MIXES.items():
        yield name, generate(fabric, mix, 1, 0)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sampling", type=int, default=100_000)
    parser.add_argument("--loss", type=float, default=0.1)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--failed", default="0,1,4,8")
    parser.add_argument("--files", type=Path)
    parser.add_argument("--only", default="", help="cases whose names contain this")
    args = parser.parse_args()
    warm_up()
    whole = clos(SPINES, LEAVES, HOSTS)
    print("| jobs | flows | recall | failed spines | min_speed | mean speed |")
    print("| --- | --: | --: | --: | --: | --: |")
    for name, jobs in cases(whole, args.files):
        if args.only not in name:
            continue
        parts = [expand(whole, job.job) for job in jobs]
        true = combine(parts)
        draw = Draw(1.0, args.iterations, sampling=args.sampling, loss=args.loss)
        learned = traffic_of(whole, learn(sampled(whole, jobs, [combine([part]) for part in parts], draw)))
        for failed in map(int, args.failed.split(",")):
            fabric = whole.without_links([spine.name for spine in whole.spines[SPINES - failed :]])
            path, recall = paths_of(fabric, true, learned)
            ours = evaluate(fabric, true, Assignment.single(path))
            pushed = evaluate(fabric, true, assign("fair", fabric, true).assignment)
            print(
                f"| {name} | {true.n_flows} | {recall:.4f} | {failed} | {ours.min_speed / pushed.min_speed:.3f} "
                f"| {np.nanmean(ours.speed) / np.nanmean(pushed.speed):.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
