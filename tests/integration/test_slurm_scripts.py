"""examples/slurm: a real controller hears of jobs as slurmctld would tell of them, and no job suffers from it."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller.core.caller import Role
from controller.rest.security.tokens import new_token
from tests.integration.http_client import PATIENCE_SECONDS, ROOT, Server
from tests.integration.real_controller import controller

SLURM = ROOT / "examples" / "slurm"
FABRIC = """
switches: [{name: leaf1, role: leaf, dpid: 1}, {name: leaf2, role: leaf, dpid: 2}, {name: spine1, role: spine, dpid: 9}]
hosts:
- {name: n1-1, leaf: leaf2, gbps: 100, ip: 10.0.0.1, mac: "00:00:00:00:00:01", server: node1, rail: 1}
- {name: n1-0, leaf: leaf1, gbps: 100, ip: 10.0.0.2, mac: "00:00:00:00:00:02", server: node1, rail: 0}
- {name: n2-0, leaf: leaf1, gbps: 100, ip: 10.0.0.3, mac: "00:00:00:00:00:03", server: node2, rail: 0}
- {name: n2-1, leaf: leaf2, gbps: 100, ip: 10.0.0.4, mac: "00:00:00:00:00:04", server: node2, rail: 1}
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
            "FAIRSPINE_SECONDS": "40",
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


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    made = Slurm(tmp_path)
    made.stand_in("scontrol", '[ "$*" = "show hostnames node[1-2]" ] && printf "node2\\nnode1\\n"')
    made.stand_in("logger", f'shift 3\necho "$*" >> {tmp_path}/log')
    made.describe("gpt3", collectives=[RING])
    return made


@dataclass(frozen=True)
class Live:
    """A controller that asks for tokens."""

    server: Server
    secret: str
    reader: str

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
        yield Live(server, secret, reads)
        assert secret not in server.log


def test_a_job_is_there_from_its_beginning_to_its_end_on_its_nodes_by_rail(live: Live, slurm: Slurm) -> None:
    slurm.set_up(**live.settings(slurm.folder))
    slurm.run("prolog.sh")
    assert live.jobs()["slurm-4711"]["by"] == "slurm"
    assert {host[:2] for flow in live.flows("slurm-4711") for host in flow} == {"n1", "n2"}
    slurm.run("epilog.sh")
    assert live.jobs() == {}
    assert slurm.log == [
        f"job 4711: {slurm.folder}/jobs/gpt3.json pushed as slurm-4711",
        "job 4711: slurm-4711 removed",
    ]


def test_a_description_that_names_hosts_has_them_replaced_by_node_and_rail(live: Live, slurm: Slurm) -> None:
    hosts = ["w", "x", "y", "z"]
    flows = [{"src": "w", "dst": "y", "bytes": 8}, {"src": "x", "dst": "z", "bytes": 8}]
    slurm.describe("gpt3", name="template", hosts=hosts, flows=flows)
    slurm.set_up(**live.settings(slurm.folder))
    slurm.run("prolog.sh")
    assert live.flows("slurm-4711") == [("n2-0", "n1-0"), ("n2-1", "n1-1")]
    slurm.run("epilog.sh")
    assert live.jobs() == {}


@pytest.mark.parametrize("name", ["other", "", "..", "../jobs/gpt3", "a b", "$(touch pwned)", ".gpt3"])
def test_a_job_without_a_description_is_left_alone(live: Live, slurm: Slurm, name: str) -> None:
    slurm.set_up(**live.settings(slurm.folder))
    slurm.run("prolog.sh", SLURM_JOB_NAME=name)
    slurm.run("epilog.sh", SLURM_JOB_NAME=name)
    assert slurm.log == []
    assert live.jobs() == {}


def test_what_the_controller_refuses_is_in_the_log_without_the_secret(live: Live, slurm: Slurm) -> None:
    slurm.set_up(**live.settings(slurm.folder, live.reader))
    slurm.run("prolog.sh")
    slurm.run("epilog.sh")
    slurm.set_up(**live.settings(slurm.folder))
    slurm.describe("gpt3", collectives=[{**RING, "ranks": [0, 9]}])
    slurm.run("prolog.sh")
    slurm.describe("gpt3", collectives=[RING])
    slurm.stand_in("scontrol", "echo node7")
    slurm.run("prolog.sh")
    slurm.stand_in("scontrol", "exit 1")
    slurm.run("prolog.sh")
    assert len(slurm.log) == 5
    assert "slurm-4711 is not removed" in slurm.log[1]
    assert "ranks[1]" in slurm.log[2]
    assert "'node7': the fabric has no server of this name" in slurm.log[3]
    assert slurm.log[4] == "job 4711: scontrol does not say which nodes node[1-2] are"
    assert live.secret not in "".join(slurm.log)
    assert live.reader not in "".join(slurm.log)
    assert live.jobs() == {}


@contextmanager
def silent_server() -> Iterator[str]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_controller_that_is_away_or_says_nothing_holds_up_no_job(slurm: Slurm) -> None:
    settings = {"FAIRSPINE_TOKEN": "hush", "FAIRSPINE_JOBS": str(slurm.folder / "jobs")}
    with silent_server() as url:
        slurm.set_up(FAIRSPINE_URL=url, FAIRSPINE_SECONDS="3", **settings)
        slurm.run("prolog.sh")
    slurm.set_up(FAIRSPINE_URL=url, **settings)
    slurm.run("epilog.sh")
    assert slurm.log == [
        f"job 4711: {slurm.folder}/jobs/gpt3.json is not pushed: no answer within 3 s",
        f"job 4711: slurm-4711 is not removed: fairspine: {url}: connection refused; is the controller running?",
    ]


def test_a_command_that_ignores_sigterm_is_killed_without_output_to_slurmctld(slurm: Slurm) -> None:
    slurm.stand_in("fairspine", 'trap "" TERM\nwhile :; do sleep 0.1; done')
    slurm.set_up(FAIRSPINE_URL="http://127.0.0.1:9", FAIRSPINE_SECONDS="0.2")
    slurm.run("epilog.sh")
    assert slurm.log == ["job 4711: slurm-4711 is not removed: no answer within 0.2 s"]


def test_settings_that_are_missing_wrong_or_that_others_may_read_are_not_used(slurm: Slurm) -> None:
    slurm.run("prolog.sh")
    slurm.set_up(FAIRSPINE_URL="http://127.0.0.1:1")
    slurm.settings.chmod(0o640)
    slurm.run("epilog.sh")
    slurm.settings.chmod(0o600)
    slurm.settings.write_text("FAIRSPINE_URL=(\n")
    slurm.run("prolog.sh")
    assert slurm.log[0] == f"job 4711: {slurm.settings} cannot be read"
    assert slurm.log[1].endswith("which contains a token: chmod 600")
    assert slurm.log[2:] == [f"job 4711: {slurm.settings} is not a list of shell variables"]


@pytest.mark.parametrize("script", ["prolog.sh", "epilog.sh"])
def test_a_machine_that_lacks_everything_runs_jobs_all_the_same(tmp_path: Path, script: str) -> None:
    shutil.copy(SLURM / script, tmp_path)
    done = subprocess.run([tmp_path / script], env={}, cwd="/", capture_output=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0


def test_the_scripts_have_no_mistake_that_shellcheck_knows() -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    scripts = [str(SLURM / script) for script in ("prolog.sh", "epilog.sh")]
    done = subprocess.run(
        ["shellcheck", "-a", "-x", "-s", "sh", "-P", str(SLURM), *scripts], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
