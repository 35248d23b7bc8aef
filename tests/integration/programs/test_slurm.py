"""examples/slurm under a real slurmctld: jobs that end, are cancelled or are requeued are on the controller while they
run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.private_slurm import PROGRAMS, PrivateSlurm, private_slurm
from tests.rig.slurm import RING, SLURM, Live, Slurm
from tests.rig.waiting import eventually

pytestmark = pytest.mark.skipif(
    any(shutil.which(program) is None for program in PROGRAMS), reason="Slurm is not installed (make setup-test)"
)

FAIRSPINE = Path(shutil.which("fairspine") or SLURM.parents[1] / ".venv" / "bin" / "fairspine")


def script(folder: Path, name: str) -> Path:
    """slurmctld gives scripts no environment: a wrapper names the settings of the test."""
    wrapper = folder / name
    wrapper.write_text(f"#!/bin/sh\nFAIRSPINE_SLURM_SETTINGS={folder}/slurm.env exec {SLURM / name}\n")
    wrapper.chmod(0o755)
    return wrapper


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory, live: Live) -> Iterator[PrivateSlurm]:
    folder = tmp_path_factory.mktemp("slurm")
    scripts = Slurm(folder)
    scripts.stand_in("logger", f'shift 3\necho "$*" >> {folder}/log')
    scripts.describe("gpt3", collectives=[{**RING, "ranks": [0, 1]}])
    pairs = [{**RING, "name": f"dp{first}", "ranks": [first, first + 1]} for first in (0, 2)]
    scripts.describe("pairs", collectives=pairs)
    scripts.set_up(
        **live.settings(folder),
        PATH=f"{folder / 'bin'}:{FAIRSPINE.parent}:/usr/bin:/bin",
        SLURM_CONF=str(folder / "slurm.conf"),
        FAIRSPINE_FABRIC=str(live.fabric),
        FAIRSPINE_SECONDS="60",
    )
    with private_slurm(folder, script(folder, "prolog.sh"), script(folder, "epilog.sh")) as running:
        yield running


def log(slurm: PrivateSlurm, job: str) -> list[str]:
    """What the scripts have logged of a job."""
    file = slurm.folder / "log"
    lines = file.read_text().splitlines() if file.exists() else []
    return [line for line in lines if line.startswith(f"job {job}: ")]


def pushed(slurm: PrivateSlurm, job: str) -> str:
    return f"job {job}: {slurm.folder}/jobs/gpt3.json pushed as slurm-{job}"


def removed(job: str) -> str:
    return f"job {job}: slurm-{job} removed"


def waits(slurm: PrivateSlurm, name: str = "gpt3") -> tuple[str, Path]:
    """Submit a job that runs until a file exists."""
    file = slurm.folder / f"end-{len(list(slurm.folder.glob('*.sh')))}-{name}"
    file.unlink(missing_ok=True)
    return slurm.submit(name, f"while [ ! -e {file} ]; do sleep 0.1; done"), file


def running(slurm: PrivateSlurm, live: Live, job: str) -> None:
    eventually(lambda: slurm.state(job) == "RUNNING", f"job {job} runs{slurm.logs()}")
    assert f"slurm-{job}" in live.jobs(), log(slurm, job)


def gone(slurm: PrivateSlurm, live: Live, job: str) -> None:
    eventually(lambda: f"slurm-{job}" not in live.jobs(), f"job {job} is off the controller")


def test_a_job_is_on_the_controller_while_it_runs(slurm: PrivateSlurm, live: Live) -> None:
    job, end = waits(slurm)
    running(slurm, live, job)
    assert live.jobs()[f"slurm-{job}"]["by"] == "slurm"
    end.touch()
    gone(slurm, live, job)
    eventually(lambda: log(slurm, job) == [pushed(slurm, job), removed(job)], "both scripts have logged it")


def test_a_cancelled_job_is_removed(slurm: PrivateSlurm, live: Live) -> None:
    job, _ = waits(slurm)
    running(slurm, live, job)
    slurm.run("scancel", job)
    gone(slurm, live, job)


def test_a_requeued_job_is_removed_and_pushed_again(slurm: PrivateSlurm, live: Live) -> None:
    job, end = waits(slurm)
    running(slurm, live, job)
    slurm.run("scontrol", "requeue", job)
    # Slurm would wait until the credentials of the first run have expired, two minutes.
    eventually(lambda: slurm.state(job) == "PENDING", "the job waits")
    slurm.run("scontrol", "update", f"JobId={job}", "StartTime=now")
    again = [pushed(slurm, job), removed(job), pushed(slurm, job)]
    eventually(lambda: log(slurm, job) == again, "it is removed and pushed again")
    running(slurm, live, job)
    end.touch()
    gone(slurm, live, job)


def test_a_job_without_a_description_runs_and_is_not_pushed(slurm: PrivateSlurm, live: Live) -> None:
    job, end = waits(slurm, "other")
    eventually(lambda: slurm.state(job) == "RUNNING", "the job runs")
    assert live.jobs() == {}
    end.touch()
    eventually(lambda: slurm.state(job) == "COMPLETED", "the job has ended")
    assert log(slurm, job) == []


def test_the_tasks_of_a_job_take_the_order_of_ranks_that_was_planned(slurm: PrivateSlurm, live: Live) -> None:
    taken, end = slurm.folder / "taken", slurm.folder / "end-pairs"
    place = f"job place {slurm.folder}/jobs/pairs.json --fabric {live.fabric} --out /dev/null --host-file hosts"
    lines = [
        f'{FAIRSPINE} {place} --servers "$SLURM_JOB_NODELIST"',
        f"SLURM_HOSTFILE=hosts srun --distribution=arbitrary sh -c 'echo $SLURM_PROCID $SLURMD_NODENAME' > {taken}.new",
        f"mv {taken}.new {taken}",
        f"while [ ! -e {end} ]; do sleep 0.1; done",
    ]
    options = ("--partition=many", "--nodes=4", "--ntasks=4", "--nodelist=node[3-6]", f"--chdir={slurm.folder}")
    job = slurm.submit("pairs", "\n".join(lines), *options)
    running(slurm, live, job)
    eventually(taken.exists, "the tasks have told their nodes")
    by_rank = [line.split()[1].replace("node", "n") + "-0" for line in sorted(taken.read_text().splitlines())]
    # Slurm's order would send both rings between the leaves.
    assert by_rank == ["n3-0", "n5-0", "n4-0", "n6-0"]
    first, second = by_rank[:2], by_rank[2:]
    wanted = {(a, b) for pair in (first, second) for a, b in (pair, reversed(pair))}
    assert set(live.flows(f"slurm-{job}")) == wanted
    end.touch()
    gone(slurm, live, job)
