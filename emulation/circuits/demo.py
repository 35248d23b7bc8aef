"""Measure an iteration of a job on packets: planned circuits beside the ideal switch and a fat tree of equal cost.

``make demo-topology`` runs it in a network namespace of its own. Servers are Linux network namespaces that forward for
each other, patch panels are Open vSwitch bridges, and bytes are real: a ring all-reduce of integers, whose sums are
checked, beside an all-to-all.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from controller.circuits.fabric.optical_fabric import OpticalFabric
from controller.circuits.fabric.optical_file import parse_optical_fabric
from controller.circuits.planning.circuit_plan import CircuitPlan, plan_circuits
from controller.circuits.planning.comparison import FAT_TREE_OF_EQUAL_COST, policy_and_paths
from controller.circuits.planning.stages import staged_plan
from controller.model.job import Job
from controller.workload.job_file import parse_job
from emulation.circuits.lab import CircuitLab
from emulation.circuits.losses import Losses, losses_during
from emulation.circuits.measure import MeasuredIteration, fullest_bytes, ideal_tasks, measure, planned_tasks

MBPS_PER_GBPS = 1.0
WITH_HEADERS = 1.03
"""Links carry this times the planned bytes: 66 bytes of headers in each frame of 4,514, and the acknowledgements of two
packets, of 66 bytes, over two hops. Where they cross more circuits, these carry more than planned; panels count it."""
PACED = 0.98
"""Part of the planned time after which messages would end that always send at their pace: the rest is for waits."""
DARK_SECONDS = 1.0
"""How long circuits are dark in a stage; a patch panel takes minutes."""
LEAST_IDLE = 0.1
"""Part of the processors' time that is idle while there is enough of it."""
POLICIES = ("ring", "totient", "search", "search+split")


def demo_job(servers: int, part: float, size: int) -> Job:
    """Return a job with an all-reduce of all servers, and an all-to-all of ``part`` of its bytes."""
    ranks = list(range(servers))
    calls = [
        {"name": "dp", "op": "all_reduce", "ranks": ranks, "bytes": size},
        {"name": "mp", "op": "all_to_all", "ranks": ranks, "bytes": round(2 * part * size)},
    ]
    return parse_job({"name": "demo", "hosts": [f"h{i + 1}" for i in ranks], "collectives": calls})


def optical(servers: int, nics: int, gbps: float) -> OpticalFabric:
    """Return the fabric of the demo."""
    return parse_optical_fabric({"optical": {"servers": servers, "nics": nics, "gbps": gbps}})


Run = tuple[MeasuredIteration, float | None]
"""An iteration, and what the fullest circuit carried over what was planned with headers, where there are circuits."""


def on_ideal_switch(fabric: OpticalFabric, plan: CircuitPlan, seconds: float, out: Path) -> Run:
    """Measure a job, which should take so many seconds, where the panels are packet switches."""
    with CircuitLab(fabric, out=out, mbps_per_gbps=MBPS_PER_GBPS * WITH_HEADERS) as lab:
        lab.set_ideal()
        lab.prepare_for_load()
        return measure(lab, ideal_tasks(plan.shards[0], fabric.nics, PACED * seconds)), None


def on_circuits(plan: CircuitPlan, seconds: float, out: Path) -> Run:
    """Measure a job, which should take so many seconds, on its planned circuits."""
    with CircuitLab(plan.fabric, out=out, mbps_per_gbps=MBPS_PER_GBPS * WITH_HEADERS) as lab:
        lab.set_circuits(plan)
        lab.set_hosts(plan)
        lab.prepare_for_load()
        measured = measure(lab, planned_tasks(plan.shards[0], PACED * seconds))
        return measured, fullest_bytes(lab) / (WITH_HEADERS * float(plan.shards[0].loads.max()))


def over_a_change(before: CircuitPlan, job: Job, out: Path) -> tuple[int, Losses]:
    """Return the number of stages from the circuits of one plan to searched ones, and what was lost on the way."""
    fabric = replace(before.fabric, circuits=before.shards[0].circuits)
    plan, stages = staged_plan(fabric, [(job.name, job)], clock=time.perf_counter)
    with CircuitLab(fabric, out=out) as lab:
        lab.set_circuits(before)
        lab.set_hosts(before)
        lab.prepare_for_load()
        return len(stages), losses_during(lab, 1, lambda: lab.change(plan, stages, DARK_SECONDS))


def main() -> None:
    """Print the table; fail if a sum was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", type=int, default=12)
    parser.add_argument("--nics", type=int, default=2)
    parser.add_argument("--mbps", type=float, default=4.0, help="rate of a NIC (default: %(default)s)")
    parser.add_argument("--bytes", type=int, default=4_000_000, help="of the all-reduce (default: %(default)s)")
    parser.add_argument("--part", type=float, default=0.4, help="all-to-all over all-reduce (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out/demo-topology"))
    options = parser.parse_args()
    job = demo_job(options.servers, options.part, options.bytes)
    fabric = optical(options.servers, options.nics, options.mbps)

    def planned(name: str) -> CircuitPlan:
        policy, paths = policy_and_paths(name)
        return plan_circuits(fabric, [(job.name, job)], policy=policy, paths=paths, clock=time.perf_counter)

    plans = {name: planned(name) for name in POLICIES}
    first = plans[POLICIES[0]]
    ideal = first.shards[0].ideal_seconds * 1e3 / MBPS_PER_GBPS
    tree = ideal * FAT_TREE_OF_EQUAL_COST
    slower = optical(options.servers, options.nics, options.mbps / FAT_TREE_OF_EQUAL_COST)
    rows: list[tuple[str, float, Callable[[], Run]]] = [
        ("ideal switch", ideal, lambda: on_ideal_switch(fabric, first, ideal, options.out)),
        ("fat tree of equal cost", tree, lambda: on_ideal_switch(slower, first, tree, options.out)),
    ]
    for name, plan in plans.items():
        seconds = plan.shards[0].seconds * 1e3 / MBPS_PER_GBPS
        rows.append((name, seconds, partial(on_circuits, plan, seconds, options.out)))
    print(
        f"{options.servers} servers with {options.nics} NICs of {options.mbps:g} Mbit/s: all-reduce of "
        f"{options.bytes} bytes, all-to-all of {options.part:g} times what that sends\n"
    )
    print("| network | planned | measured | measured ÷ planned | bytes ÷ planned | measured ÷ ideal | idle | sums |")
    print("|---|--:|--:|--:|--:|--:|--:|---|", flush=True)
    wrong: list[str] = []
    slow: list[str] = []
    of_ideal = 0.0
    for name, seconds, run in rows:
        measured, carried = run()
        of_ideal = of_ideal or measured.seconds
        if measured.idle < LEAST_IDLE:
            slow.append(name)
        wrong += [f"{name}: {each}" for each in measured.wrong]
        print(
            f"| {name} | {seconds:.2f} s | {measured.seconds:.2f} s | {measured.seconds / seconds:.3f} "
            f"| {'-' if carried is None else f'{carried:.3f}'} "
            f"| {measured.seconds / of_ideal:.3f} | {measured.idle:.0%} | {'WRONG' if measured.wrong else 'right'} |",
            flush=True,
        )
    if slow:
        print(
            f"\nThere was not enough processor time for {', '.join(slow)}: less than {LEAST_IDLE:.0%} was idle. "
            "Such times are not those of the network; try a smaller --mbps."
        )
    count, losses = over_a_change(plans["ring"], job, options.out)
    print(
        f"\nOver a change from ring to search in {count} stages, {losses.sent - losses.arrived} of {losses.sent} "
        "packets between all servers were lost."
    )
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
