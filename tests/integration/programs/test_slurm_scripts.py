"""examples/slurm: a real controller hears of jobs as slurmctld would tell of them, and no job suffers from it."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.rig.http.client import PATIENCE_SECONDS
from tests.rig.slurm import RING, SLURM, Live, Slurm


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    made = Slurm(tmp_path)
    made.stand_in("scontrol", '[ "$*" = "show hostnames node[1-2]" ] && printf "node2\\nnode1\\n"')
    made.stand_in("logger", f'shift 3\necho "$*" >> {tmp_path}/log')
    made.describe("gpt3", collectives=[RING])
    return made


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
