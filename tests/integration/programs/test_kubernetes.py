"""``fairspine kubernetes`` between an API server and a real controller: what runs in the cluster is what is planned."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.rig.http.client import PATIENCE_SECONDS
from tests.rig.kubernetes.api_server import ApiServer, api_server
from tests.rig.kubernetes.objects import MAKERS, Object, Template, bound, ended, indexed_job, job_set, node
from tests.rig.slurm import Live
from tests.rig.waiting import eventually

FAIRSPINE = Path(sys.executable).parent / "fairspine"
FLOWS = [("n2-0", "n1-0"), ("n2-1", "n1-1")]
"""Of the description, where rank 0 is on node2 and the other pod on node1."""


@dataclass
class Watcher:
    """What a watcher is started with, and how it is run.

    Attributes:
        folder: with the descriptions, and its log.
    """

    folder: Path
    api: ApiServer
    live: Live
    options: list[str] = field(default_factory=list)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def command(self, *options: str) -> list[str]:
        places = ["--descriptions", str(self.folder / "jobs"), "--kubeconfig", str(self.api.kubeconfig(self.folder))]
        return [str(FAIRSPINE), "kubernetes", *places, *self.options, *options]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, **self.live.settings(self.folder), "HOME": str(self.folder)}

    def once(self, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command("--once", *options),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )

    @contextmanager
    def running(self, *options: str, by: signal.Signals = signal.SIGTERM) -> Iterator[None]:
        """Run it, and end it by a signal: with SIGTERM, it must end well."""
        with (self.folder / "log").open("w") as log:
            process = subprocess.Popen(self.command(*options), env=self.environment, stderr=log)
        try:
            yield
            assert process.poll() is None, self.log
            process.send_signal(by)
            assert process.wait(PATIENCE_SECONDS) == (0 if by == signal.SIGTERM else -by)
        finally:
            process.kill()
            process.wait()
        assert "Traceback" not in self.log, self.log

    def until(self, *jobs: str) -> None:
        """Wait until the controller has these jobs of the cluster, and no other ones."""
        eventually(lambda: set(self.live.jobs()) == set(jobs), f"jobs {jobs}", shown=lambda: (self.jobs, self.log))

    def until_logged(self, text: str) -> None:
        eventually(lambda: text in self.log, f"{text!r} in the log", shown=lambda: self.log)

    @property
    def jobs(self) -> list[str]:
        return sorted(self.live.jobs())


@pytest.fixture
def watcher(live: Live, tmp_path: Path) -> Iterator[Watcher]:
    hosts = ["w", "x", "y", "z"]
    flows = [{"src": "w", "dst": "y", "bytes": 8}, {"src": "x", "dst": "z", "bytes": 8}]
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "gpt3.json").write_text(json.dumps({"name": "template", "hosts": hosts, "flows": flows}))
    with api_server() as api:
        for name in ("node1", "node2"):
            api.put_node(node(name, gpus=2))
        yield Watcher(tmp_path, api, live)
    for name in live.jobs():
        live.server.ask("DELETE", f"/v1/jobs/{name}", headers={"Authorization": f"Bearer {live.secret}"})


def on_nodes(pods: list[Object]) -> list[Object]:
    return [bound(pod, to) for pod, to in zip(pods, ("node2", "node1"), strict=True)]


def two_pods(attempt: int = 0, name: str = "llm") -> tuple[Object, list[Object]]:
    return job_set("team-a", name, "gpt3", [Template("worker", 1, 2)], 2, attempt)


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_a_job_of_each_kind_is_planned_on_its_nodes_while_it_runs(watcher: Watcher, kind: str) -> None:
    owner, pods = MAKERS[kind]("team-a", "llm", "gpt3", [Template("worker", 1, 2)], 2)
    job = f"k8s.{kind}.team-a.llm"
    api = watcher.api
    with watcher.running("--resync", "600"):
        watcher.until()
        api.put_owner(kind, owner)
        api.put(*pods)
        watcher.until_logged(f"{job}: waits: 0 of 2 pods have a node")
        first, second = on_nodes(pods)
        api.put(second)
        watcher.until_logged(f"{job}: waits: 1 of 2 pods have a node")
        assert watcher.jobs == []
        api.put(first)
        watcher.until(job)
        assert watcher.live.flows(job) == FLOWS
        api.put(ended(first, "Succeeded"))
        watcher.until()
        api.remove(first, second)
    assert watcher.jobs == []


def test_a_watcher_that_is_killed_and_started_again_changes_nothing_that_is_right(watcher: Watcher) -> None:
    gone, stays = two_pods(name="gone"), two_pods(name="stays")
    for owner, pods in (gone, stays):
        watcher.api.put_owner("jobset", owner)
        watcher.api.put(*on_nodes(pods))
    names = ["k8s.jobset.team-a.gone", "k8s.jobset.team-a.stays"]
    with watcher.running(by=signal.SIGKILL):
        watcher.until(*names)
    before = watcher.live.jobs()
    watcher.api.remove(*gone[1])
    with watcher.running():
        watcher.until(names[1])
        watcher.until_logged(f"{names[1]}: kept")
    assert watcher.live.jobs()[names[1]]["revision"] == before[names[1]]["revision"]


def test_a_restart_of_the_gang_on_other_nodes_is_planned_anew(watcher: Watcher) -> None:
    owner, pods = two_pods()
    job = "k8s.jobset.team-a.llm"
    watcher.api.put_owner("jobset", owner)
    running = on_nodes(pods)
    watcher.api.put(*running)
    with watcher.running():
        watcher.until(job)
        _, fresh = two_pods(attempt=1)
        watcher.api.put(*(bound(pod, to) for pod, to in zip(fresh, ("node1", "node2"), strict=True)))
        eventually(lambda: watcher.live.flows(job) == [("n1-0", "n2-0"), ("n1-1", "n2-1")], "planned on other nodes")
        watcher.api.remove(*running)
        watcher.api.put_node(node("node9", gpus=2))
        # Off the fabric: what was planned is wrong now.
        watcher.api.put(bound(fresh[0], "node9"))
        watcher.until_logged("node: 'node9': the fabric has no server of this name")
        watcher.until()


@pytest.mark.parametrize("forget", [False, True])
def test_a_broken_watch_loses_no_change(watcher: Watcher, forget: bool) -> None:
    owner, pods = two_pods()
    with watcher.running("--resync", "600"):
        watcher.until()
        watcher.api.put_owner("jobset", owner)
        eventually(lambda: any("watch" in path for path in watcher.api.asked), "the watch begins")
        watcher.api.refuse = 503
        watcher.api.drop()
        watcher.until_logged("status 503")
        watcher.api.put(*on_nodes(pods))
        watcher.api.drop(forget=forget)
        watcher.api.refuse = 0
        watcher.until("k8s.jobset.team-a.llm")
        watcher.api.drop(forget=forget)
        watcher.api.remove(*on_nodes(pods))
        watcher.until()


def test_jobs_of_others_are_left_alone(watcher: Watcher) -> None:
    document = json.loads((watcher.folder / "jobs" / "gpt3.json").read_text())
    hosts = {"w": "n1-0", "x": "n1-1", "y": "n2-0", "z": "n2-1"}
    flows = [{**flow, "src": hosts[flow["src"]], "dst": hosts[flow["dst"]]} for flow in document["flows"]]
    others = ["k8s", "k8s-2.job.a.b", "gpt3"]
    for name in others:
        body = json.dumps({"name": name, "hosts": list(hosts.values()), "flows": flows}).encode()
        headers = {"Authorization": f"Bearer {watcher.live.secret}", "Content-Type": "application/json"}
        assert watcher.live.server.ask("PUT", f"/v1/jobs/{name}", body, headers=headers).status == 201
    assert watcher.once().returncode == 0
    assert watcher.jobs == sorted(others)


def test_what_cannot_be_pushed_is_told_by_job_and_reason_and_the_rest_is_pushed(watcher: Watcher) -> None:
    for name, description in (("good", "gpt3"), ("none", "absent"), ("path", "..gpt3")):
        owner, pods = indexed_job("team-b", name, description, [Template("w", 1, 2)], 2)
        watcher.api.put_owner("job", owner)
        watcher.api.put(*on_nodes(pods))
    half_owner, half = indexed_job("team-b", "half", "gpt3", [Template("w", 1, 2)], 1)
    watcher.api.put_owner("job", half_owner)
    watcher.api.put(*on_nodes(half))
    stray = half[0]
    watcher.api.put(
        {**stray, "metadata": {"namespace": "team-b", "name": "stray", "labels": {"fairspine-job": "gpt3"}}}
    )
    done = watcher.once("--format", "json")
    assert done.returncode == 1
    rows = {row["job"]: row for row in json.loads(done.stdout)["jobs"]}
    assert {name: row["state"] for name, row in rows.items()} == {
        "k8s.job.team-b.good": "created",
        "k8s.job.team-b.none": "refused",
        "k8s.job.team-b.path": "refused",
        "k8s.job.team-b.half": "refused",
        "team-b/stray": "refused",
    }
    assert "description: 'absent': there is no such file" in rows["k8s.job.team-b.none"]["why"]
    assert "is not the name of a description" in rows["k8s.job.team-b.path"]["why"]
    assert "the job has 1 of its 2 accelerators" in rows["k8s.job.team-b.half"]["why"]
    assert "belongs to no job" in rows["team-b/stray"]["why"]
    assert done.stderr.strip() == "fairspine: 4 jobs could not be pushed"
    assert watcher.jobs == ["k8s.job.team-b.good"]
