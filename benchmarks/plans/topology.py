"""Circuits of drawn and of public jobs: the search beside TotientPerms, a fat tree of equal cost and the ideal switch.

``make bench-topology`` prints a table. Times are over that of the ideal switch, on which each server has all its NICs.
A fat tree of the same cost has 1 / 3.2 of its bandwidth (the mean of the prices that TopoOpt's authors give), and no
other loss: it is taken at its best. ``FILES`` adds task graphs of FlexFlow (``*.fbuf``). ``--packets`` prints times of
smaller jobs in the packet engine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from controller.circuits.fabric.optical_file import parse_optical_fabric
from controller.circuits.planning.circuit_plan import plan_circuits
from controller.circuits.planning.comparison import FAT_TREE_OF_EQUAL_COST, policy_and_paths
from controller.model.job import Job
from controller.workload.importers.base import ImportRequest
from controller.workload.importers.registry import importer
from controller.workload.importers.streams import open_sources
from controller.workload.job_file import parse_job
from emulation.circuits.demo import demo_job
from emulation.circuits.packets import on_packets

PACKET_BYTES, PACKET_PART = 50_000_000, 0.4
"""Of the all-reduce in the packet engine, and of the all-to-all over it."""
PARTS = (0.028, 0.2, 0.8)
"""Bytes of the all-to-all over those of the all-reduce: those of DLRM at batches of 64 to 2,048."""


def uniform(servers: int, part: float) -> Job:
    """Return a job with an all-reduce of all servers, and an all-to-all of ``part`` of its bytes."""
    ranks = list(range(servers))
    calls = [
        {"name": "dp", "op": "all_reduce", "ranks": ranks, "bytes": 10**9},
        {"name": "mp", "op": "all_to_all", "ranks": ranks, "bytes": round(part * 2 * 10**9)},
    ]
    return parse_job({"name": f"all-to-all-{part:g}", "hosts": [f"h{i + 1}" for i in ranks], "collectives": calls})


def jobs(files: Path | None, large: bool) -> Iterator[tuple[int, int, Job]]:
    """Yield servers, NICs and job of each row."""
    for servers, nics in ((16, 4), (128, 4), (128, 8), *(((432, 4), (432, 8)) if large else ())):
        for part in PARTS:
            yield servers, nics, uniform(servers, part)
    for path in sorted(files.glob("*.fbuf")) if files else ():
        job = importer("taskgraph")(open_sources([path]), ImportRequest()).job
        for nics in (4, 8):
            yield len(job.hosts), nics, job


def packets() -> None:
    """Print the times of an iteration on packets (``make setup-referee`` compiles their engine)."""
    print("| servers, NICs | policy | on packets ÷ planned | ÷ planned with headers | sent again |")
    print("|---|---|--:|--:|--:|")
    for servers, nics in ((12, 2), (16, 4)):
        fabric = parse_optical_fabric({"optical": {"servers": servers, "nics": nics}})
        job = demo_job(servers, PACKET_PART, PACKET_BYTES)
        for name in ("ring", "totient", "search", "search+split"):
            policy, paths = policy_and_paths(name)
            plan = plan_circuits(fabric, [(job.name, job)], policy=policy, paths=paths, clock=time.process_time)
            (shard,) = plan.shards
            run = on_packets(shard, fabric.gbps)
            print(
                f"| {servers}, {nics} | `{name}` | {run.seconds / run.planned_seconds:.3f} "
                f"| {run.seconds / run.expected_seconds:.3f} | {run.sent_again} |",
                flush=True,
            )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=Path, help="folder with task graphs of FlexFlow")
    parser.add_argument("--large", action="store_true", help="also 432 servers")
    parser.add_argument("--effort", type=float, default=1.0)
    parser.add_argument("--packets", action="store_true", help="only the table of the packet engine")
    options = parser.parse_args()
    if options.packets:
        packets()
        return
    print("| job | servers, NICs | TotientPerms | search | search ÷ bound | tax | mean hops | fat tree | planned in |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for servers, nics, job in jobs(options.files, options.large):
        fabric = parse_optical_fabric({"optical": {"servers": servers, "nics": nics}})
        named = [(job.name, job)]
        (totient,) = plan_circuits(fabric, named, policy="totient", clock=time.process_time).shards
        plan = plan_circuits(fabric, named, effort=options.effort, clock=time.process_time)
        (searched,) = plan.shards
        hops = searched.hops
        ideal = searched.ideal_seconds
        print(
            f"| {job.name} | {servers}, {nics} | {totient.seconds / ideal:.3f} | {searched.seconds / ideal:.3f} "
            f"| {searched.seconds / searched.bound_seconds:.3f} | {searched.tax:.3f} | {hops[hops > 0].mean():.2f} "
            f"| {FAT_TREE_OF_EQUAL_COST:.1f} | {plan.planning_seconds:.1f} s |",
            flush=True,
        )


if __name__ == "__main__":
    main()
