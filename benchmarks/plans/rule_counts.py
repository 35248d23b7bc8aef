"""Count the rules and groups per switch that each enforcement compiles (docs/explanation/enforcement.md).

    python -m benchmarks.plans.rule_counts [--leaves 16,64,1024]

Every host sends 8 flows to as many other leaves, over all spines. 1,024 leaves take half a minute and 2 GB.

The second table has one ring all-reduce over all hosts, with neighbours on different leaves and several QPs a
connection, planned by ``fair`` with all spines and with one failed.
"""

from __future__ import annotations

import argparse
import gc
import time

import numpy as np

from controller.model.assignment import Assignment
from controller.model.choices.enforcement import DEFAULT_ENFORCEMENT
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.traffic import FIRST_PORT, Collective, Traffic
from controller.routing import assign, warm_up
from controller.southbound.enforcement.ingress import with_exact_ports
from controller.southbound.enforcement.registry import compile_rules, encode_flows, rule_enforcements
from controller.southbound.forwarding.base import compile_base
from controller.southbound.rules.rule_set import RuleSet
from controller.workload.expand import combine, expand
from controller.workload.job_file import parse_job

SIZES = {16: (8, 16), 64: (32, 32), 1024: (32, 32)}
"""Number of spines and of hosts on each leaf, by number of leaves."""

FLOWS_PER_HOST = 8

QPS = (1, 4, 16, 64, 128)
MOST_LEAVES_BY_QPS = 64
"""Ring all-reduces on more leaves have millions of QPs, and the same number a leaf."""


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


def ring_of(fabric: Fabric, qps: int) -> Traffic:
    """Return a ring over all hosts, neighbours on different leaves, with ports as the controller chooses them."""
    per_leaf = fabric.n_hosts // fabric.n_leaves
    order = [name for n in range(per_leaf) for name in fabric.host_names[n::per_leaf]]
    ring = {"name": "ring", "op": "all_reduce", "ranks": list(range(len(order))), "bytes": 2**33}
    job = parse_job({"name": "job", "hosts": order, "qps": qps, "collectives": [ring]})
    return combine([expand(fabric, job)])


def by_qps(leaves: int) -> None:
    """Print the rules of a leaf for planned flows by the number of QPs."""
    spines, hosts = SIZES[leaves]
    whole = clos(spines, leaves, hosts)
    base = len(compile_base(whole)[whole.leaves[0].dpid])
    for qps in QPS:
        traffic = ring_of(whole, qps)
        for failed, fabric in ((0, whole), (1, whole.without_links([whole.spines[-1].name]))):
            assignment = assign("fair", fabric, traffic).assignment
            encoding = encode_flows(fabric, traffic, assignment, DEFAULT_ENFORCEMENT)
            rules = compile_rules(DEFAULT_ENFORCEMENT, fabric, traffic, encoding)
            held = [rules[leaf.dpid] for leaf in fabric.leaves]
            exact, masked = (max(len(each) - base for each in those) for those in (map(with_exact_ports, held), held))
            print(f"| {leaves} | {spines} | {failed} | {qps} | {exact:,} | {masked:,} |", flush=True)


def cells(fabric: Fabric, rules: RuleSet) -> str:
    """Return the most rules of a leaf and of a spine, and the most groups of a leaf, as a table cell."""
    leaves, spines = ([rules[switch.dpid] for switch in role] for role in (fabric.leaves, fabric.spines))
    return f"{max(map(len, leaves)):,} | {max(map(len, spines)):,} | {max(len(leaf.groups) for leaf in leaves):,}"


def _sizes(text: str) -> list[int]:
    names = {str(leaves): leaves for leaves in SIZES}
    unknown = [name for name in text.split(",") if name not in names]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(names)}")
    return [names[name] for name in text.split(",")]


def main() -> None:
    """Print the table of rule counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--leaves", type=_sizes, default=list(SIZES), metavar="16,64,1024", help="one or several of these"
    )
    chosen: list[int] = parser.parse_args().leaves
    warm_up()
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
        for enforcement in rule_enforcements():
            encoding = encode_flows(fabric, traffic, assignment, enforcement)
            started = time.perf_counter()
            counted = cells(fabric, compile_rules(enforcement, fabric, traffic, encoding))
            print(f"{sizes} | {enforcement} | {counted} | {time.perf_counter() - started:.2f} |", flush=True)
    print(
        "\n| leaves | spines | failed spines | QPs of a connection | rules per leaf, one a port | with masked ports |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for leaves in chosen:
        if leaves <= MOST_LEAVES_BY_QPS:
            by_qps(leaves)


if __name__ == "__main__":
    main()
