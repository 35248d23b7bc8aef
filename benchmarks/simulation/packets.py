"""Plans against sprayings on packets, in drawn cases of many classes (``packet_draws``), ten or more seeds each.

    python -m benchmarks.simulation.packets [--classes NAME ...] [--seeds 101-110] [--processes 2] [--json FILE]

A row is a contender in the cases of one class: the time of the slowest job over that under the best of four ways to
spray packets in the same case, mean and worst; in how many cases it is above 1, and their seeds; over the ideal; and
the deviation of packets from the fluid model, mean and worst. One case again, with each job:
``--classes NAME --seeds SEED --jobs``; its scenario as a file for ``fairspine referee``: ``--write FOLDER``. Results do
not depend on the machine. The packet engine is compiled by ``make setup-test``.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.simulation.packet_draws import CLASSES, drawn
from controller.routing import warm_up
from emulation.evaluation.scenario import parse_scenario
from emulation.packets.input_file import PacketSpread
from emulation.packets.referee import SPRAYINGS, Bout, JobTimes, referee
from emulation.packets.settings import CongestionControl, PacketSettings

FIRST_SEED = 101
"""Seeds below are those of scenarios in ``examples``, by which paces were chosen."""

ABOVE = 1.0005
"""From here a ratio is above 1 in a table of three places."""


@dataclass(frozen=True)
class DrawnResult:
    """A contender in one case; times of the slowest job, or of one job.

    Attributes:
        drawn_class: of the case.
        kind: of the case within its class: QPs.
        contender: with its failure.
        over_spraying, over_ideal: on packets.
        deviation: part by which packets take longer than the fluid model says.
        again: part of the packets that were sent again.
        sprays: whether it is a way to spray.
    """

    drawn_class: str
    kind: str
    seed: int
    contender: str
    job: str
    over_spraying: float
    over_ideal: float
    deviation: float
    again: float
    sprays: bool


def results_of(
    task: tuple[str, int],
    settings: PacketSettings,
    each_job: bool = False,
    sprayings: Sequence[PacketSpread] = SPRAYINGS,
) -> list[DrawnResult]:
    """Draw and run one case.

    Args:
        task: class and seed.
        settings: of the packet engine.
        each_job: whether each job has a result, beside the slowest one.
        sprayings: ways to spray.
    """
    name, seed = task
    scenario = parse_scenario(drawn(name, seed), Path())
    bouts = [bout for case in referee(scenario, settings, sprayings=sprayings) for bout in case]
    return [
        _result(name, seed, bout, times) for bout in bouts for times in (*(bout.jobs if each_job else ()), bout.slowest)
    ]


def _result(name: str, seed: int, bout: Bout, times: JobTimes) -> DrawnResult:
    return DrawnResult(
        name,
        bout.case.kind.removeprefix("drawn").removeprefix(", "),
        seed,
        bout.contender.name,
        times.job,
        times.packets / times.best_spraying,
        times.packets / times.packet_ideal,
        times.deviation,
        float(bout.results.sent_again.sum() / max(1, bout.results.sent.sum())),
        bout.contender.sprays,
    )


def table_of(results: Iterable[DrawnResult]) -> Table:
    """Return the table: a row for each class, kind and contender, of the slowest jobs."""
    table = Table(title="slowest job, plans against the best spraying on packets", title_justify="left")
    for column in ("class", "contender", "cases", "÷ best spraying", "worst", "above", "÷ ideal", "again"):
        table.add_column(column, justify="left" if column in ("class", "contender") else "right")
    for column in ("deviation", "worst", "seeds above"):
        table.add_column(column, justify="left" if column.startswith("seeds") else "right")
    groups: dict[tuple[str, str, str, str], list[DrawnResult]] = {}
    for each in results:
        groups.setdefault((each.drawn_class, each.kind, each.contender, each.job), []).append(each)
    for (name, kind, contender, job), own in groups.items():
        spraying = np.array([each.over_spraying for each in own])
        deviation = np.array([each.deviation for each in own])
        # A job that did not end has no time: it counts as above.
        above = [each.seed for each in own if not each.over_spraying < ABOVE]
        table.add_row(
            f"{name} {kind}".strip(),
            contender if job == "slowest" else f"{contender}: {job}",
            str(len(own)),
            f"{spraying.mean():.3f}",
            f"{spraying.max():.3f}",
            "" if own[0].sprays else str(len(above)),
            f"{np.mean([each.over_ideal for each in own]):.3f}",
            f"{np.mean([each.again for each in own]):.2%}",
            f"{deviation.mean():+.1%}",
            f"{max(deviation, key=abs):+.1%}",
            "" if own[0].sprays else " ".join(map(str, above)),
        )
    return table


def seeds_of(text: str) -> list[int]:
    """Return the seeds of a text such as ``101-110`` or ``3,101-102``."""
    made: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        made.extend(range(int(first), int(last or first) + 1))
    return made


def write_scenarios(folder: Path, tasks: Sequence[tuple[str, int]]) -> None:
    """Write the scenario of each class and seed as a file for ``fairspine referee``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, seed in tasks:
        # JSON is YAML.
        (folder / f"{name}-{seed}.yaml").write_text(json.dumps(drawn(name, seed)) + "\n")


def main() -> None:
    """Draw, run and print; end with 1 if a job did not end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", nargs="*", choices=CLASSES, default=list(CLASSES), metavar="NAME")
    parser.add_argument("--seeds", type=seeds_of, default=[FIRST_SEED], help="such as 101-110 (default: 101)")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--control", type=CongestionControl, default=CongestionControl.DCTCP)
    parser.add_argument("--jobs", action="store_true", help="a row for each job, too")
    parser.add_argument("--json", type=Path, help="write all results here, too")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the scenarios, and run nothing")
    args = parser.parse_args()
    tasks = [(name, seed) for name in args.classes for seed in args.seeds]
    if args.write:
        write_scenarios(args.write, tasks)
        return
    warm_up()
    run = functools.partial(results_of, settings=PacketSettings(control=args.control), each_job=args.jobs)
    results: list[DrawnResult] = []
    with get_context("fork").Pool(args.processes) as pool:
        for (name, seed), made in zip(tasks, pool.imap(run, tasks), strict=True):
            print(f"{name} {seed}", file=sys.stderr, flush=True)
            results.extend(made)
    Console(width=200 if not sys.stdout.isatty() else None).print(table_of(results))
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        rows: list[dict[str, Any]] = [asdict(each) for each in results]
        args.json.write_text(json.dumps(rows, indent=2) + "\n")
    sys.exit(any(np.isnan(each.over_ideal) for each in results))


if __name__ == "__main__":
    main()
