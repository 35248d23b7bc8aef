"""``fairspine sightings``: records of NCCL Inspector make a real controller learn the README's two jobs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from controller.model.units import LARGEST_EXACT
from tests.documented import ROOT
from tests.rig.http.client import PATIENCE_SECONDS, Server
from tests.rig.programs import FAIRSPINE, fairspine
from tests.rig.real_controller import controller
from tests.rig.waiting import eventually
from tests.unit.workload.importers.nccl.inspector_records import Done, file_name, files_of, iterations, lines_of
from tests.unit.workload.importers.nccl.nccl_logs import STYLES, Cluster, logs

EXAMPLES = ROOT / "examples"
SIZE, COUNT, PERIOD, SECONDS = 10**9, 5, 0.9, 0.14
"""An all-reduce of the README's jobs takes 140 ms with a plan."""


def hosts_of(job: str) -> list[str]:
    document = json.loads((EXAMPLES / f"{job}.json").read_text())
    return [document["hosts"][rank] for rank in document["collectives"][0]["ranks"]]


def edges_of(ring: list[str]) -> set[tuple[str, str]]:
    return set(pairwise([*ring, ring[0]]))


def sightings(server: Server, folder: Path, hosts: list[str], *options: str) -> subprocess.CompletedProcess[str]:
    where = ["--hosts", ",".join(hosts), "--url", f"http://127.0.0.1:{server.port}"]
    return fairspine("sightings", "--inspector", str(folder), *where, *options)


def learned(server: Server) -> list[dict[str, Any]]:
    """The documents of all learned jobs that have a period."""
    rows = json.loads(server.ask("GET", "/v1/learned").body)["jobs"]
    names = [row["name"] for row in rows if row["period_seconds"]]
    return [json.loads(server.ask("GET", f"/v1/learned/{name}").body) for name in names]


def check(documents: list[dict[str, Any]], jobs: dict[str, set[tuple[str, str]]], period: float) -> None:
    """Recall and precision of edges 1.00, bytes within 1 %, the period within 2 %."""
    sent = 2 * 7 / 8 * SIZE
    found = {}
    for document in documents:
        flows = document["job"]["flows"]
        assert document["job"]["ports"] == "unknown"
        assert all(flow["bytes"] == pytest.approx(sent, rel=0.01) for flow in flows)
        assert document["summary"]["period_seconds"] == pytest.approx(period, rel=0.02)
        assert [group["shape"] for group in document["summary"]["groups"]] == ["ring"]
        edges = [(flow["src"], flow["dst"]) for flow in flows]
        assert len(set(edges)) == len(edges)
        found[frozenset(edges)] = document
    assert found.keys() == {frozenset(edges) for edges in jobs.values()}


def test_two_jobs_are_learned_from_five_iterations_of_records(tmp_path: Path) -> None:
    first, second = hosts_of("gpt3-a"), hosts_of("llama-b")
    # Of the second job NCCL has another ring than the order of ranks, which its log tells.
    order = (0, 3, 6, 1, 4, 7, 2, 5)
    cluster = Cluster(8, 1, 1, (order,), ((-1, 0, 0, 1, 1, 2, 2, 3),))
    for name, form in (("a", "v4.2"), ("b", "v4.3")):
        (tmp_path / name).mkdir()
        for file, text in files_of(8, iterations(SIZE, COUNT, PERIOD, SECONDS), form=form).items():
            (tmp_path / name / file).write_text(text)
    log = tmp_path / "nccl.log"
    log.write_text("".join(logs(cluster, STYLES[3])))
    with controller(tmp_path) as (server, _):
        done = sightings(server, tmp_path / "a", first)
        assert (done.returncode, "every record is older than 50 s" in done.stderr) == (2, True)
        done = sightings(server, tmp_path / "a", first, "--as-if-now")
        assert (done.returncode, "posted; the controller knows 8 QPs" in done.stdout) == (0, True), done.stderr
        done = sightings(server, tmp_path / "b", second, "--as-if-now", "--nccl-log", str(log))
        assert (done.returncode, "16 QPs" in done.stdout) == (0, True), done.stderr
        eventually(lambda: len(learned(server)) == 2, "both jobs are learned")
        rings = {"gpt3-a": edges_of(first), "llama-b": edges_of([second[rank] for rank in order])}
        check(learned(server), rings, PERIOD)
        # Bad input: nothing is posted, and one line tells where.
        broken = tmp_path / "b" / file_name(3)
        broken.write_text(broken.read_text().replace('"coll_sn": 4', '"coll_sn": -1'))
        done = sightings(server, tmp_path / "b", second, "--as-if-now")
        assert done.returncode == 2
        assert done.stderr == (
            f"fairspine: {broken}:10: coll_perf.coll_sn: -1: must be a whole number, 0 to {LARGEST_EXACT}\n"
        )
        done = sightings(server, tmp_path / "a", [*first[:-1], "h99"], "--as-if-now")
        assert (done.returncode, "h99" in done.stderr, done.stderr.count("\n")) == (2, True, 1)


def test_records_are_followed_while_a_job_runs_until_ctrl_c(tmp_path: Path) -> None:
    hosts, folder = hosts_of("gpt3-a"), tmp_path / "inspector"
    folder.mkdir()
    with controller(tmp_path) as (server, _):
        argv = [FAIRSPINE, "sightings", "--inspector", str(folder), "--hosts", ",".join(hosts), "--follow"]
        process = subprocess.Popen(
            [*argv, "--interval", "0.3", "--url", f"http://127.0.0.1:{server.port}"],
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            begun, number = time.time(), 0

            def another_iteration() -> bool:
                nonlocal number
                begin = begun + 1.0 * number
                time.sleep(max(0.0, begin + SECONDS - time.time()))
                for rank in range(8):
                    lines = lines_of(rank, 8, Done("AllReduce", SIZE, begin, SECONDS), number)
                    with (folder / file_name(rank)).open("a") as file:
                        file.write("".join(f"{line}\n" for line in lines))
                number += 1
                # The first period told is that of two iterations and a part of one.
                periods = [document["summary"]["period_seconds"] for document in learned(server)]
                return process.poll() is None and periods == [pytest.approx(1.0, rel=0.02)]

            eventually(another_iteration, "the job is learned while it runs")
            check(learned(server), {"gpt3-a": edges_of(hosts)}, 1.0)
            os.killpg(process.pid, signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
        assert process.returncode == 0, said
        assert "Traceback" not in said
