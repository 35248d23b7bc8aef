"""htsim_uec, the packet simulator of the Ultra Ethernet Consortium, as a further engine of the referee.

The program is the user's own (github.com/ultraethernet/uet-htsim); it is not part of fairspine. It gets a topology, and
a connection for each transfer of one iteration (``htsim_steps``), and spreads packets by its own ways. It cannot take
paths or rates, so there is no plan among them.
"""

from __future__ import annotations

import hashlib
import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from controller.model.errors import InputError
from controller.model.units import MICROSECOND, NANOSECOND
from controller.workload.importers.htsim.topology import write_topology
from emulation.errors import LabError
from emulation.evaluation.cases import Case
from emulation.evaluation.scenario import Scenario
from emulation.fluid.schedule import SimulatedJob
from emulation.packets.htsim_steps import write_steps
from emulation.packets.referee import JobTimes, ideal_times
from emulation.packets.settings import PacketSettings
from emulation.packets.summary import RefereeStanding

HTSIM = ", htsim_uec"
"""What names of its ways to spread packets have in tables."""

PATHS = 128
"""Paths of a connection, as in the validation of the Ultra Ethernet Consortium."""

LONGEST = 100.0
"""Simulated time, in ideal times of the slowest job: what has not ended by then is an error."""

MEGABITS = 1000
"""Mbit/s of one Gbit/s."""

_FINISHED = re.compile(r"^Flow \S+ flowId (\d+) .*\bfinished at ([0-9.eE+]+)", re.MULTILINE)
_SUMMARY = re.compile(r"^New: (\d+) Rtx: (\d+)", re.MULTILINE)


class Balancing(StrEnum):
    """A way of htsim_uec to spread the packets of a connection; ``ECMP``: ``oblivious`` over one drawn path."""

    OBLIVIOUS = "oblivious"
    BITMAP = "bitmap"
    REPS = "reps"
    MIXED = "mixed"
    ECMP = "ecmp"


@dataclass(frozen=True)
class HtsimProgram:
    """The program.

    Attributes:
        path: of the file.
        digest: first digits of its SHA-256.
        commit: of the checkout that it is in; empty where it is in none.
    """

    path: Path
    digest: str
    commit: str

    @property
    def text(self) -> str:
        """One line that says which program it is."""
        return f"htsim_uec: {self.path}, SHA-256 {self.digest}" + (f", commit {self.commit}" if self.commit else "")


@dataclass(frozen=True)
class HtsimBout:
    """One way to spread packets in one case.

    ``jobs``: times of an iteration of each job; ``best_spraying`` is that of htsim's own ways.
    """

    case: Case
    seed: int
    balancing: Balancing
    jobs: Sequence[JobTimes]
    sent: int
    sent_again: int

    @property
    def slowest(self) -> JobTimes:
        """The times of the slowest job."""
        return JobTimes.slowest(self.jobs)

    def document(self) -> dict[str, Any]:
        """Return the bout as plain data."""
        return {
            "kind": self.case.kind,
            "case": self.case.name,
            "failure": "none",
            "seed": self.seed,
            "policy": f"{self.balancing}{HTSIM}",
            "jobs": [job.document() for job in (*self.jobs, self.slowest)],
            "packets": self.sent,
            "sent_again": self.sent_again,
        }


def htsim_program(name: str) -> HtsimProgram:
    """Return the program of this path, or of this name in PATH.

    Raises:
        InputError: there is none that can be executed.
    """
    where = shutil.which(name)
    if where is None:
        raise InputError(
            "there is no such program; build htsim_uec of github.com/ultraethernet/uet-htsim",
            field="--htsim",
            value=name,
        )
    path = Path(where).resolve()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    try:
        asked = ["git", "-C", str(path.parent), "rev-parse", "HEAD"]
        commit = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        commit = ""
    return HtsimProgram(path, digest, commit[:12])


def check_for_htsim(scenario: Scenario) -> None:
    """Refuse what htsim_uec, as it is, does not simulate.

    Raises:
        InputError: names the field.
    """
    if scenario.changes or any(failure.name != "none" for failure in scenario.failures):
        raise InputError("htsim_uec takes no failed links", field="failed_spines, failed_links, failed, changes")
    for case in scenario.cases:
        for job in case.jobs:
            if job.compute_seconds or job.start or job.epochs != 1 or (job.schedule.delay > 0).any():
                raise InputError(
                    f"htsim_uec simulates one iteration, of jobs that do not compute and begin at once; not those of "
                    f"job {job.name} (at_once, epochs: 1)",
                    field="cases",
                    value=case.name,
                )
        list(write_steps(scenario.fabric, case.jobs))
    write_topology(scenario.fabric)


def htsim_bouts(
    program: HtsimProgram,
    scenario: Scenario,
    settings: PacketSettings,
    balancings: Sequence[Balancing],
    keep: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[HtsimBout]:
    """Run all ways to spread packets in all cases of a scenario.

    Args:
        program: htsim_uec.
        scenario: its cases and seeds; ``check_for_htsim`` has accepted it.
        settings: of the packet engine: the delay of cables, and what the ideal times are computed with.
        balancings: ways to spread packets.
        keep: folder for topologies, connection matrices and what the program prints.
        progress: called with the number of finished bouts and of all.

    Raises:
        LabError: the program failed, or connections did not end.
    """
    rounds = [(case, seed) for case in scenario.cases for seed in scenario.seeds]
    for number, (case, seed) in enumerate(rounds):
        ideal = ideal_times(scenario, case, seed, settings)
        own = []
        for at, balancing in enumerate(balancings):
            done = number * len(balancings) + at
            with tempfile.TemporaryDirectory(prefix="fairspine-htsim-") as temporary:
                folder = Path(temporary) if keep is None else keep / f"htsim-{done:04d}"
                own.append(_bout(program, scenario, case, seed, balancing, ideal, settings, folder))
            if progress is not None:
                progress(done + 1, len(rounds) * len(balancings))
        best = min(own, key=lambda bout: bout.slowest.packets)
        for bout in own:
            pairs = zip(bout.jobs, best.jobs, strict=True)
            yield replace(bout, jobs=[replace(job, best_spraying=other.packets) for job, other in pairs])


def _bout(
    program: HtsimProgram,
    scenario: Scenario,
    case: Case,
    seed: int,
    balancing: Balancing,
    ideal: Sequence[JobTimes],
    settings: PacketSettings,
    folder: Path,
) -> HtsimBout:
    folder.mkdir(parents=True, exist_ok=True)
    topology, matrix = folder / "fabric.topo", folder / "jobs.cm"
    topology.write_text(write_topology(scenario.fabric, round(settings.cable_seconds / NANOSECOND)))
    matrix.write_text("\n".join(write_steps(scenario.fabric, case.jobs)) + "\n")
    until = max(1000, math.ceil(LONGEST * max(job.packet_ideal for job in ideal) / MICROSECOND))
    is_ecmp = balancing is Balancing.ECMP
    options: Mapping[str, object] = {
        "-topo": topology.resolve(),
        "-tm": matrix.resolve(),
        # NICs, windows and queues are sized by this option, not by the topology.
        "-linkspeed": f"{scenario.fabric.link_gbps[: scenario.fabric.n_hosts].max() * MEGABITS:.0f}",
        "-end": until,
        "-load_balancing_algo": Balancing.OBLIVIOUS if is_ecmp else balancing,
        "-paths": 1 if is_ecmp else PATHS,
        "-seed": seed + 1,
    }
    command = [str(program.path), "-sender_cc_only", *(str(word) for pair in options.items() for word in pair)]
    (folder / "command.txt").write_text(" ".join(command) + "\n")
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    (folder / "output.txt").write_text(made.stdout)
    if made.returncode:
        last = (made.stderr.strip() or made.stdout.strip()).splitlines()[-1:]
        raise LabError(f"htsim_uec has failed with {made.returncode}: {' '.join(last)[:200]}")
    ended = {int(number): float(at) * MICROSECOND for number, at in _FINISHED.findall(made.stdout)}
    counts = [connections_of(job) for job in case.jobs]
    missing = [number for number in range(1, sum(counts) + 1) if number not in ended]
    if missing:
        raise LabError(
            f"htsim_uec has not ended {len(missing)} of {sum(counts)} connections, the first is {missing[0]}"
        )
    first = np.cumsum([1, *counts]).tolist()
    jobs = [
        replace(job, packets=max((ended[number] for number in range(begin, end)), default=0.0))
        for job, begin, end in zip(ideal, first[:-1], first[1:], strict=True)
    ]
    summary = _SUMMARY.search(made.stdout)
    new, again = (int(summary[1]), int(summary[2])) if summary else (0, 0)
    return HtsimBout(case, seed, balancing, jobs, new + again, again)


def connections_of(job: SimulatedJob) -> int:
    """Return the number of connections of a job in its matrix: one for each transfer of each run."""
    return int(job.schedule.repeat[job.schedule.group].sum())


def htsim_standings(scenario: str, bouts: Sequence[HtsimBout]) -> list[RefereeStanding]:
    """Summarise bouts as those of the packet engine are; how far they are from the fluid model is not limited."""
    grouped: dict[tuple[str, Balancing], list[HtsimBout]] = {}
    for bout in bouts:
        grouped.setdefault((bout.case.kind, bout.balancing), []).append(bout)
    made = []
    for (kind, balancing), own in grouped.items():
        slowest = [bout.slowest for bout in own]
        ideal = [each.packets / each.packet_ideal for each in slowest]
        over_best = [each.packets / each.best_spraying for each in slowest]
        deviation = [each.deviation for each in slowest]
        made.append(
            RefereeStanding(
                scenario,
                kind,
                "none",
                f"{balancing}{HTSIM}",
                len(own),
                float(np.mean(ideal)),
                max(ideal),
                float(np.mean(over_best)),
                max(over_best),
                1.0,
                sum(bout.sent_again for bout in own) / max(sum(bout.sent for bout in own), 1),
                float(np.mean(deviation)),
                max(deviation, key=abs),
                0,
            )
        )
    return made


def htsim_lines(bout: HtsimBout) -> list[tuple[str, ...]]:
    """Return the cells of rows of ``report.JOB_COLUMNS``: each job of a bout."""
    return [
        (
            bout.case.name,
            f"{bout.balancing}{HTSIM}",
            times.job,
            f"{times.packets * 1e6:,.0f}",
            f"{times.packets / times.packet_ideal:.3f}",
            f"{times.packets / times.best_spraying:.3f}",
            f"{times.fluid * 1e6:,.0f}",
            f"{100 * times.deviation:+.1f} %",
        )
        for times in bout.jobs
    ]
