"""Measure jobs on packets at an oversubscription, with hosts that keep paces or windows and without. Needs root.

Usage: ``python -m benchmarks.running.paced_hosts [--placements 4] [--iterations 2] [--seconds 5] [--link-mbps 4]
[--spines 2] [--out FOLDER] [--json FILE]``. The two jobs of README (``examples/gpt3-a.json`` and ``llama-b.json``) run
on 4 leaves of 4 hosts with so many spines (2: 2:1), under ``fair``, ``fair+paced`` and ``fair+windows``, in one lab for
each placement: that of the files, and random ones. The table has the mean iteration of each job, and its time over the
one that the plan predicts. Exits 1 if an experiment fails.

At 4 Mbit/s two cores have processor time to spare. A host that waits for a processor falls behind its pace: at 8 Mbit/s
beside other work, paced jobs were slower.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

from emulation.policy_names import PACED, WINDOWS
from emulation.readable_table import table_of

JOBS = ("gpt3-a", "llama-b")
LEAVES, HOSTS = 4, 4
AS_THEY_ARE = "fair"
POLICIES = (AS_THEY_ARE, AS_THEY_ARE + PACED, AS_THEY_ARE + WINDOWS)
EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class PacedRow:
    """A job in one placement under one policy.

    Attributes:
        placement: 0: that of the files.
        seconds: mean iteration.
        predicted: of the plan.
        retransmissions: packets that were sent again, of all ranks in all iterations.
        paced: flows that kept a pace.
    """

    placement: int
    job: str
    policy: str
    seconds: float
    predicted: float
    retransmissions: int
    paced: int


def write_files(folder: Path, spines: int, placement: int) -> list[str]:
    """Write fabric and jobs of a placement, and return the options that name them."""
    folder.mkdir(parents=True, exist_ok=True)
    fabric = folder / "fabric.yaml"
    fabric.write_text(f"clos: {{spines: {spines}, leaves: {LEAVES}, hosts_per_leaf: {HOSTS}}}\n")
    options = ["--fabric", str(fabric)]
    documents = [json.loads((EXAMPLES / f"{job}.json").read_text()) for job in JOBS]
    if placement:
        hosts = [host for document in documents for host in document["hosts"]]
        random.Random(placement).shuffle(hosts)
        for document in documents:
            document["hosts"], hosts = hosts[: len(document["hosts"])], hosts[len(document["hosts"]) :]
    for document in documents:
        path = folder / f"{document['name']}.json"
        path.write_text(json.dumps(document))
        options += ["--job", str(path)]
    return options


def measure(folder: Path, given: argparse.Namespace, placement: int) -> list[PacedRow]:
    """Run one experiment.

    Raises:
        SystemExit: it has failed.
    """
    command = [str(Path(sys.executable).with_name("fairspine")), "emulate", "--format", "json"]
    command += write_files(folder, given.spines, placement)
    command += ["--policies", ",".join(POLICIES), "--iterations", str(given.iterations), "--out", str(folder)]
    command += ["--seconds", str(given.seconds), "--link-mbps", str(given.link_mbps), "--name", "paced"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"placement {placement}: exit code {done.returncode}")
    return [row for run in json.loads(done.stdout)["runs"] for row in rows_of(run, placement)]


def rows_of(run: dict[str, Any], placement: int) -> list[PacedRow]:
    """Return a row for each job of a run."""
    return [
        PacedRow(
            placement,
            job["job"],
            run["policy"],
            fmean(job["iterations"]),
            job["predicted"],
            sum(row["retransmissions"] for row in run["collectives"] if row["job"] == job["job"]),
            sum(row["job"] == job["job"] for row in run["paces"]),
        )
        for job in run["jobs"]
    ]


def show(rows: list[PacedRow]) -> None:
    """Print a row for each placement and job, and the means."""
    of_jobs = ("predicted", *POLICIES, "÷ as they are", "÷ predicted", "paced flows", "sent again")
    table = table_of(("placement", "job", *of_jobs), 2)
    of = {(row.placement, row.job, row.policy): row for row in rows}
    for placement, job in dict.fromkeys((row.placement, row.job) for row in rows):
        plain, *kept = own = [of[placement, job, policy] for policy in POLICIES]
        table.add_row(
            "as in the files" if placement == 0 else str(placement),
            job,
            f"{plain.predicted:.2f} s",
            *(f"{row.seconds:.2f} s" for row in own),
            ", ".join(f"{row.seconds / plain.seconds:.3f}" for row in kept),
            ", ".join(f"{row.seconds / row.predicted:.3f}" for row in own),
            str(kept[0].paced),
            ", ".join(str(row.retransmissions) for row in own),
        )
    console = Console(highlight=False, width=140)
    console.print(table)
    slowest = {
        policy: [
            max(row.seconds / row.predicted for row in rows if (row.placement, row.policy) == (placement, policy))
            for placement in dict.fromkeys(row.placement for row in rows)
        ]
        for policy in POLICIES
    }
    for policy, values in slowest.items():
        console.print(f"{policy}: the slowest job takes {fmean(values):.3f} of its predicted time (mean of placements)")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--placements", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--link-mbps", type=float, default=4.0)
    parser.add_argument("--spines", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("out/paced-hosts"))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows: list[PacedRow] = []
    for placement in range(given.placements):
        rows += measure(given.out / str(placement), given, placement)
        if given.json:
            given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    show(rows)


if __name__ == "__main__":
    main()
