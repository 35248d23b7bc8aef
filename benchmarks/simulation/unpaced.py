"""How right the fluid model of hosts without paces is on packets, in drawn cases of many kinds.

    python -m benchmarks.simulation.unpaced [--kinds NAME ...] [--seeds 101,103] [--processes 2] [--json FILE]

A row is a policy in the cases of one kind: the part by which the slowest job takes longer on packets (DCTCP) than the
allocation ``hosts`` says, mean, root mean square and worst. Ends with 1 if a job did not end. The packet engine is
compiled by ``make setup-test``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.simulation.packet_draws import Document, drawn
from benchmarks.simulation.packets import seeds_of
from controller.routing import warm_up
from emulation.evaluation.scenario import parse_scenario
from emulation.packets.referee import referee
from emulation.packets.settings import PacketSettings

FIRST_SEED = 101

FOUR_RINGS: Document = {"algorithms": "ring", "groups": 4, "each_a_job": True}
HALVING: Document = {"algorithms": "halving_doubling"}
TREE: Document = {"algorithms": "tree", "pieces": 8}
EXCHANGE: Document = {"op": "all_to_all", "algorithms": "direct", "groups": 4, "each_a_job": True}
PERMUTATION: Document = {"op": "send_recv", "algorithms": "direct"}
DEAD: Document = {"failed_spines": [1]}


def _clos(spines: int, leaves: int = 8, hosts: int = 8) -> Document:
    return {"clos": {"spines": spines, "leaves": leaves, "hosts_per_leaf": hosts}}


@dataclass(frozen=True)
class DrawnKind:
    """Cases that differ in the placement on hosts.

    Attributes:
        fabric: as in a scenario.
        collective: its fields without order and seed.
        size: bytes, as in a scenario.
        splits: whether flows are split, too.
        more: further fields of the scenario.
    """

    fabric: Document
    collective: Document
    size: str
    splits: bool = False
    more: Document | None = None

    def scenario(self, seed: int) -> Document:
        """Return the scenario of a seed."""
        policies: list[Any] = ["fair", *(["fair+split"] if self.splits else [])]
        call = {**self.collective, "bytes": self.size, "order": "random", "seed": seed}
        case = {"name": "drawn", "collective": call}
        return {"name": "drawn", "fabric": self.fabric, "cases": [case], "policies": policies, "epochs": 1} | (
            self.more or {}
        )


def _slow(cables: int, part: float, leaves: int, spines: int) -> Document:
    return {"slow": [{"names": [f"leaf{1 + i % leaves}-spine{1 + i % spines}" for i in range(cables)], "part": part}]}


KINDS: dict[str, DrawnKind] = {
    "rings-2to1": DrawnKind(_clos(4), FOUR_RINGS, "16MB"),
    "rings-4to1": DrawnKind(_clos(2), FOUR_RINGS, "16MB"),
    "short-rings-2to1": DrawnKind(_clos(4), FOUR_RINGS, "4MB"),
    "short-rings-4to1": DrawnKind(_clos(2), FOUR_RINGS, "4MB"),
    "rings-of-12-3to1": DrawnKind(_clos(2, 6, 6), FOUR_RINGS | {"groups": 3}, "12MB"),
    "rings-of-7": DrawnKind(_clos(3, 6, 7), FOUR_RINGS | {"groups": 6}, "7MB", splits=True),
    "rings-of-7-dead-spine": DrawnKind(_clos(3, 6, 7), FOUR_RINGS | {"groups": 6}, "7MB", splits=True, more=DEAD),
    "rings-slow-cables": DrawnKind(
        _clos(4, 6, 5), FOUR_RINGS | {"groups": 3}, "6MB", splits=True, more=_slow(2, 0.4, 6, 4)
    ),
    "rings-three-layers": DrawnKind(
        {"three_tier": {"pods": 4, "leaves": 3, "aggs": 2, "cores_per_agg": 2, "hosts_per_leaf": 4}},
        FOUR_RINGS,
        "4MB",
        splits=True,
    ),
    "rings-dead-spine": DrawnKind(_clos(8), FOUR_RINGS, "16MB", splits=True, more=DEAD),
    "halving-2to1": DrawnKind(_clos(4), FOUR_RINGS | HALVING, "16MB"),
    "halving-dead-spine": DrawnKind(_clos(8), FOUR_RINGS | HALVING, "16MB", more=DEAD),
    "one-halving-dead-spine": DrawnKind(_clos(8), HALVING, "4MB", more=DEAD),
    "trees-2to1": DrawnKind(_clos(4), FOUR_RINGS | TREE, "16MB"),
    "two-trees-dead-spine": DrawnKind(_clos(8), FOUR_RINGS | TREE | {"groups": 2}, "4MB", more=DEAD),
    "all-to-alls-2to1": DrawnKind(_clos(4), EXCHANGE, "16MB"),
    "all-to-alls-1to1": DrawnKind(_clos(8), EXCHANGE, "16MB"),
    "permutation-2to1": DrawnKind(_clos(4), PERMUTATION, "4MB"),
    "permutation-slow-cables": DrawnKind(_clos(8), PERMUTATION, "2MB", splits=True, more=_slow(3, 0.1, 8, 8)),
}
"""Kinds of cases of one collective, by name."""

OF_CLASSES = ("dead-spine-qps", "all-to-alls")
"""Classes of ``packet_draws``."""

HALF_APART = "two-jobs-half-apart"
"""Two jobs that share one link, compute as long as they send, and begin half a sending apart."""

NAMES = (*KINDS, *OF_CLASSES, HALF_APART)


def scenario_of(name: str, seed: int) -> Document:
    """Return the scenario of a kind and a seed."""
    if name in KINDS:
        return KINDS[name].scenario(seed)
    return _half_apart(seed) if name == HALF_APART else drawn(name, seed)


def _half_apart(seed: int) -> Document:
    size = (2, 5, 10, 20)[seed % 4] * 1_000_000
    alone = size * 8e-11
    call = {"name": "c", "op": "send_recv", "ranks": [0, 1], "bytes": size}
    jobs = [
        {
            "job": {"name": f"job{i}", "hosts": [f"h{i + 1}", f"h{i + 3}"], "collectives": [call]},
            "start": 0.5 * i * alone,
            "compute_seconds": alone,
            "epochs": 20,
        }
        for i in range(2)
    ]
    return {
        "name": "drawn",
        "fabric": _clos(1, 2, 2),
        "cases": [{"name": "drawn", "jobs": jobs}],
        "policies": ["fair"],
        "epochs": 1,
        "seeds": list(range(16 * seed, 16 * seed + 16)),
    }


@dataclass(frozen=True)
class HostsDeviation:
    """Part by which the slowest job takes longer on packets than the fluid model says; of several seeds the mean."""

    kind: str
    policy: str
    seed: int
    deviation: float


def deviations_of(task: tuple[str, int]) -> list[HostsDeviation]:
    """Draw and run one case: a kind and a seed."""
    name, seed = task
    scenario = parse_scenario(scenario_of(name, seed), Path())
    times: dict[str, list[tuple[float, float]]] = {}
    for case in referee(scenario, PacketSettings(), sprayings=()):
        for bout in case:
            if not bout.contender.paced:
                times.setdefault(bout.contender.name, []).append((bout.slowest.packets, bout.slowest.expected))
    made = []
    for policy, pairs in times.items():
        packets, expected = np.mean(pairs, axis=0)
        made.append(HostsDeviation(name, policy, seed, float(packets / expected - 1)))
    return made


def table_of_deviations(rows: Sequence[HostsDeviation]) -> Table:
    """Return the table: a row for each kind and policy."""
    table = Table(title="slowest job, packets over the fluid model of hosts", title_justify="left")
    for column in ("kind", "policy", "cases", "mean", "root mean square", "worst"):
        table.add_column(column, justify="left" if column in ("kind", "policy") else "right")
    groups: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        groups.setdefault((row.kind, row.policy), []).append(row.deviation)
    for (kind, policy), values in groups.items():
        part = np.array(values)
        worst = max(values, key=abs)
        table.add_row(
            kind, policy, str(len(values)), f"{part.mean():+.1%}", f"{np.sqrt((part**2).mean()):.1%}", f"{worst:+.1%}"
        )
    return table


def main() -> None:
    """Draw, run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="*", choices=NAMES, default=list(NAMES), metavar="NAME")
    parser.add_argument("--seeds", type=seeds_of, default=[FIRST_SEED], help="such as 101,103 (default: 101)")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write all results here, too")
    args = parser.parse_args()
    warm_up()
    rows: list[HostsDeviation] = []
    with get_context("fork").Pool(args.processes) as pool:
        for made in pool.imap(deviations_of, [(name, seed) for name in args.kinds for seed in args.seeds]):
            rows.extend(made)
    Console(width=200 if not sys.stdout.isatty() else None).print(table_of_deviations(rows))
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    sys.exit(any(np.isnan(row.deviation) for row in rows))


if __name__ == "__main__":
    main()
