"""SimGrid as a reference: the same jobs over the same paths, by Debian's own Python and ``simgrid_flows.py``."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.model.fabric import Fabric
from emulation.fluid.records import Results
from emulation.fluid.schedule import SimulatedJob, joined

PYTHON = "/usr/bin/python3"
SCRIPT = Path(__file__).with_name("simgrid_flows.py")


@dataclass(frozen=True, eq=False)
class Opinion:
    """The result of SimGrid.

    Attributes:
        ended: for each transfer of the joined schedule, seconds at which each of its runs ended, in order.
        seconds: the time that SimGrid took, without reading the case and setting it up.
    """

    ended: list[NDArray[np.float64]]
    seconds: float


def is_installed() -> bool:
    """Return whether Debian's python3-simgrid is installed (``make setup-test``)."""
    try:
        return subprocess.run([PYTHON, "-c", "import simgrid"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def ask(fabric: Fabric, jobs: Sequence[SimulatedJob], path: NDArray[np.int32], *, timeout: float) -> Opinion:
    """Run jobs whose groups do not wait for each other (one phase, no trees) over fixed paths.

    Args:
        fabric: the fabric.
        jobs: the jobs to run.
        path: [F] path class of each flow of all jobs, one after the other.
        timeout: the most seconds that SimGrid may take.

    Raises:
        subprocess.TimeoutExpired: it took longer than ``timeout`` seconds.
        subprocess.CalledProcessError: it failed.
    """
    done = subprocess.run(
        [PYTHON, str(SCRIPT)],
        input=json.dumps(_case(fabric, jobs, path)),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=True,
    )
    answer = json.loads(done.stdout)
    return Opinion([np.array(each) for each in answer["ended"]], answer["seconds"])


def largest_deviation(results: Results, opinion: Opinion) -> float:
    """Return the largest relative deviation of the end of any run; ``results`` has one piece a flow at a time."""
    own = results.flows
    turn = np.lexsort((own.run, own.epoch, own.owner))
    ours = np.split(own.ended[turn], np.flatnonzero(np.diff(own.owner[turn])) + 1)
    if [len(each) for each in ours] != [len(each) for each in opinion.ended]:
        raise ValueError("the two did not run the same transfers")
    return max(float(np.max(np.abs(a - b) / b)) for a, b in zip(ours, opinion.ended, strict=True))


def _case(fabric: Fabric, jobs: Sequence[SimulatedJob], path: NDArray[np.int32]) -> dict[str, Any]:
    traffic, schedule, first_group = joined(jobs)
    if len(schedule.before):
        raise ValueError("simgrid_flows.py does not support groups that wait for others")
    flows = []
    for flow, size in zip(schedule.flow.tolist(), schedule.bytes.tolist(), strict=True):
        links = fabric.flow_links(int(traffic.src[flow]), int(traffic.dst[flow]), int(path[flow]))
        flows.append({"bytes": round(size), "links": list(links)})
    bounds = np.searchsorted(schedule.group, np.arange(schedule.n_groups + 1)).tolist()
    delay, repeat = schedule.delay.tolist(), schedule.repeat.tolist()
    described = []
    for job, begin, end in zip(jobs, first_group[:-1].tolist(), first_group[1:].tolist(), strict=True):
        groups = [
            {"delay": delay[g], "repeat": repeat[g], "flows": list(range(bounds[g], bounds[g + 1]))}
            for g in range(begin, end)
        ]
        times = {"start": job.start, "compute": job.compute_seconds, "epochs": job.epochs}
        described.append({**times, "groups": groups})
    return {"gbps": fabric.link_gbps.tolist(), "flows": flows, "jobs": described}
