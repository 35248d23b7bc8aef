"""Count the rules and groups per switch that each enforcement compiles (docs/explanation/enforcement.md).

    python benchmarks/rule_counts.py [--leaves 16,64,1024]

Every host sends 8 flows to as many other leaves, over all spines. 1,024 leaves take half a minute and 2 GB.
"""

from __future__ import annotations

import argparse
import gc
import time

import numpy as np

from controller.model.assignment import Assignment
from controller.model.clos import clos
from controller.model.enforcement import ENFORCEMENTS
from controller.model.fabric import Fabric
from controller.model.traffic import FIRST_PORT, Collective, Traffic
from controller.southbound.base import compile_base
from controller.southbound.compilers import compile_rules
from controller.southbound.flow_encoding import encode_flows
from controller.southbound.rules import RuleSet

SIZES = {16: (8, 16), 64: (32, 32), 1024: (32, 32)}
"""Number of spines and of hosts on each leaf, by number of leaves."""

FLOWS_PER_HOST = 8


def traffic_of(fabric: Fabric) -> tuple[Traffic, Assignment]:
    """Send each host's i-th flow to the host at the same place i leaves on, over paths in turn."""
    per_leaf = fabric.n_hosts // fabric.n_leaves
    number = np.arange(fabric.n_hosts * FLOWS_PER_HOST, dtype=np.int32)
    src, turn = number // FLOWS_PER_HOST, number % FLOWS_PER_HOST
    traffic = Traffic(
        src=src,
        dst=(src + per_leaf * (turn + 1)) % fabric.n_hosts,
        bytes=np.ones(len(number), dtype=np.int64),
        collective=np.zeros_like(number),
        number=number,
        udp_src=np.full_like(number, FIRST_PORT),
        collectives=(Collective("job", "all"),),
    )
    return traffic, Assignment.single((src + turn) % fabric.n_paths)


def cells(fabric: Fabric, rules: RuleSet) -> str:
    """Return the most rules of a leaf and of a spine, and the most groups of a leaf, as a table cell."""
    leaves, spines = ([rules[switch.dpid] for switch in role] for role in (fabric.leaves, fabric.spines))
    return f"{max(map(len, leaves)):,} | {max(map(len, spines)):,} | {max(len(leaf.groups) for leaf in leaves):,}"


def main() -> None:
    """Print the table of rule counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leaves", default=",".join(map(str, SIZES)))
    chosen = [int(leaves) for leaves in parser.parse_args().leaves.split(",")]
    # Millions of rules that all stay alive: garbage collection among them would take most of the time.
    gc.disable()
    print("| leaves | spines | hosts | flows | enforcement | rules a leaf | rules a spine | groups a leaf | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for leaves in chosen:
        spines, hosts = SIZES[leaves]
        fabric = clos(spines, leaves, hosts)
        traffic, assignment = traffic_of(fabric)
        sizes = f"| {leaves:,} | {spines} | {fabric.n_hosts:,} | {traffic.n_flows:,}"
        started = time.perf_counter()
        counted = cells(fabric, compile_base(fabric))
        print(f"{sizes} | none (ECMP) | {counted} | {time.perf_counter() - started:.2f} |", flush=True)
        for enforcement in ENFORCEMENTS:
            encoding = encode_flows(fabric, traffic, assignment, enforcement)
            started = time.perf_counter()
            counted = cells(fabric, compile_rules(enforcement, fabric, traffic, encoding))
            print(f"{sizes} | {enforcement} | {counted} | {time.perf_counter() - started:.2f} |", flush=True)


if __name__ == "__main__":
    main()
