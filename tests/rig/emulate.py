"""``fairspine emulate`` with short runs: as a command, and in the process of the tests.

The command starts Python, the numerical code and a controller anew, which takes longer than many of these runs. So
tests of it are few; the others call what it calls after its checks, with controllers of the fork server.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from emulation.experiments.command import serve
from emulation.experiments.request import ExperimentRequest, load
from emulation.experiments.scenario_command import run_scenario
from tests.rig.forks import forks
from tests.rig.programs import FAIRSPINE
from tests.unit.emulation.experiments.made import ring
from tests.unit.strategies import with_routers

EMULATION_SECONDS = 800


def command(folder: Path, *options: str, routers: bool = False) -> list[str]:
    """Return the command that runs two jobs on two leaves; ``routers``: of Linux routers."""
    made = request(folder, routers=routers)
    jobs = [part for job in made.jobs for part in ("--job", str(job))]
    given = ["--fabric", str(made.fabric), *jobs, "--out", str(made.out), "--enforcement", made.enforcement]
    return [FAIRSPINE, "emulate", *given, *options]


def request(folder: Path, *, routers: bool = False, **fields: Any) -> ExperimentRequest:
    """Return a request for two jobs on two leaves, with one draw of each policy; ``routers``: of Linux routers."""
    fabric = clos(2, 2, 2)
    (folder / "fabric.yaml").write_text(yaml.safe_dump(fabric_document(with_routers(fabric) if routers else fabric)))
    jobs = [write_job(folder, "a", ["h1", "h3"]), write_job(folder, "b", ["h2", "h4"])]
    given = {"fabric": folder / "fabric.yaml", "jobs": tuple(jobs), "out": folder / "out", "seeds": (1,)}
    if routers:
        given["enforcement"] = "srv6"
    return ExperimentRequest(**{**given, **fields})


def write_job(folder: Path, name: str, hosts: list[str]) -> Path:
    """Write a job of one ring, and return its file."""
    file = folder / f"{name}.json"
    file.write_text(json.dumps(ring(name, hosts)))
    return file


def scenario_emulated(path: Path, out: Path, **fields: Any) -> int:
    """Run the experiments of a scenario here; return the exit status."""
    wanted = ExperimentRequest(fabric=path, jobs=(), out=out, **fields)
    return run_scenario(path, wanted, None, "json", lambda one, output: serve(load(one), output, forks().popen))


def emulated(wanted: ExperimentRequest) -> tuple[int, dict[str, Any]]:
    """Run an experiment here; return its exit status and its document."""
    status = serve(load(wanted), "none", forks().popen)
    values: dict[str, Any] = json.loads((wanted.out / f"{wanted.name}.json").read_text())
    return status, values
