"""Slurm's hooks of examples/slurm with a real controller."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller.core.caller import Role
from controller.rest.security.tokens import new_token
from tests.documented import ROOT
from tests.rig.http.client import PATIENCE_SECONDS, Server
from tests.rig.real_controller import controller

SLURM = ROOT / "examples" / "slurm"


FABRIC = """
switches: [{name: leaf1, role: leaf, dpid: 1}, {name: leaf2, role: leaf, dpid: 2}, {name: spine1, role: spine, dpid: 9}]
hosts:
- {name: n1-1, leaf: leaf2, gbps: 100, ip: 10.0.0.1, mac: "00:00:00:00:00:01", server: node1, rail: 1}
- {name: n1-0, leaf: leaf1, gbps: 100, ip: 10.0.0.2, mac: "00:00:00:00:00:02", server: node1, rail: 0}
- {name: n2-0, leaf: leaf1, gbps: 100, ip: 10.0.0.3, mac: "00:00:00:00:00:03", server: node2, rail: 0}
- {name: n2-1, leaf: leaf2, gbps: 100, ip: 10.0.0.4, mac: "00:00:00:00:00:04", server: node2, rail: 1}
- {name: n3-0, leaf: leaf1, gbps: 100, ip: 10.0.0.5, mac: "00:00:00:00:00:05", server: node3}
- {name: n4-0, leaf: leaf2, gbps: 100, ip: 10.0.0.6, mac: "00:00:00:00:00:06", server: node4}
- {name: n5-0, leaf: leaf1, gbps: 100, ip: 10.0.0.7, mac: "00:00:00:00:00:07", server: node5}
- {name: n6-0, leaf: leaf2, gbps: 100, ip: 10.0.0.8, mac: "00:00:00:00:00:08", server: node6}
links: [{a: leaf1, b: spine1, gbps: 100}, {a: leaf2, b: spine1, gbps: 100}]
"""


RING = {"name": "dp", "op": "all_reduce", "algorithm": "ring", "ranks": [0, 1, 2, 3], "bytes": 1000}


@dataclass(frozen=True)
class Slurm:
    """A machine with slurmctld on it: its settings, its descriptions, and programs that tests stand in for."""

    folder: Path

    @property
    def settings(self) -> Path:
        return self.folder / "slurm.env"

    @property
    def log(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []

    def set_up(self, **settings: str) -> None:
        self.settings.write_text("".join(f"{name}='{value}'\n" for name, value in settings.items()))
        self.settings.chmod(0o600)

    def describe(self, file: str, **document: object) -> None:
        (self.folder / "jobs").mkdir(exist_ok=True)
        (self.folder / "jobs" / f"{file}.json").write_text(json.dumps(document))

    def stand_in(self, program: str, script: str) -> None:
        path = self.folder / "bin" / program
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run(self, script: str, **environment: str) -> None:
        """As slurmctld runs it; its exit status decides whether the job may run."""
        job = {"SLURM_JOB_ID": "4711", "SLURM_JOB_NAME": "gpt3", "SLURM_JOB_NODELIST": "node[1-2]"}
        path = f"{self.folder / 'bin'}:{Path(sys.executable).parent}:/usr/bin:/bin"
        own: Mapping[str, str] = {
            "PATH": path,
            "FAIRSPINE_SLURM_SETTINGS": str(self.settings),
            "FAIRSPINE_SECONDS": f"{PATIENCE_SECONDS / 2:g}",
        }
        done = subprocess.run(
            [SLURM / script],
            env={**own, "HOME": str(self.folder), **job, **environment},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            stdin=subprocess.DEVNULL,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@dataclass(frozen=True)
class Live:
    """A controller that asks for tokens."""

    server: Server
    secret: str
    reader: str
    fabric: Path

    def settings(self, folder: Path, secret: str | None = None) -> dict[str, str]:
        url = f"http://127.0.0.1:{self.server.port}"
        return {
            "FAIRSPINE_URL": url,
            "FAIRSPINE_TOKEN": self.secret if secret is None else secret,
            "FAIRSPINE_JOBS": str(folder / "jobs"),
        }

    def jobs(self) -> dict[str, dict[str, object]]:
        answer = self.server.ask("GET", "/v1/jobs", headers={"Authorization": f"Bearer {self.secret}"})
        return {job["name"]: job for job in json.loads(answer.body)["jobs"]}

    def flows(self, job: str) -> list[tuple[str, str]]:
        answer = self.server.ask("GET", f"/v1/jobs/{job}", headers={"Authorization": f"Bearer {self.secret}"})
        return [(flow["src"], flow["dst"]) for flow in json.loads(answer.body)["flows"]]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("controller")
    (folder / "fabric.yaml").write_text(FABRIC)
    (token, secret), (reader, reads) = new_token("slurm", Role.WRITE), new_token("reader", Role.READ)
    tokens = folder / "tokens"
    tokens.write_text(f"{token.line()}\n{reader.line()}\n")
    tokens.chmod(0o600)
    options = ["--tokens", str(tokens), "--fabric", str(folder / "fabric.yaml")]
    with controller(folder, *options, secret=secret) as (server, _):
        yield Live(server, secret, reads, folder / "fabric.yaml")
        assert secret not in server.log
