"""Three replicas of a controller on the same switches and one PostgreSQL: the leader dies, is stopped, steps down."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from controller.cli.connection.client import Client
from controller.cli.live.events import follow
from controller.cli.shared.command_error import CommandError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from emulation.lab import Lab
from tests.integration.harness import Bench, Controller, eventually, standing, wait_for_pings
from tests.integration.test_drift_on_switches import planned
from tests.integration.test_jobs import active
from tests.integration.test_restart import JOB, check_rules, dumps, packets, switches

pytestmark = pytest.mark.switches

FABRIC = clos(2, 2, 2)
REPLICAS = 3
LEASE = 5.0
"""Seconds. On a busy machine, a leader may not get to beat for a second or more."""


@pytest.fixture
def fabric_file(tmp_path: Path) -> Path:
    path = tmp_path / "fabric.yaml"
    path.write_text(yaml.safe_dump(fabric_document(FABRIC)))
    return path


class Cluster:
    """Replicas with ports of their own, and a lab whose switches connect to all of them."""

    def __init__(self, bench: Bench, fabric: Fabric, file: Path, store: str, *options: str) -> None:
        self.lab: Lab = bench.lab(fabric)
        for n in range(1, REPLICAS):
            self._connect(6653 + n)
        self.replicas = [
            bench.controller(
                "--fabric",
                str(file),
                "--store",
                store,
                "--cluster-name",
                "lab",
                "--lease",
                str(LEASE),
                "--ofp-tcp-listen-port",
                str(6653 + n),
                "--wsapi-port",
                str(8080 + n),
                *options,
                "controller.app",
                http_port=8080 + n,
                wait=False,
                name=f"replica{n}",
            )
            for n in range(REPLICAS)
        ]
        for replica in self.replicas:
            replica.wait_for("it answers", replica._answers)

    def _connect(self, port: int) -> None:
        """Have every switch connect to one more controller."""
        arguments: list[str] = []
        for switch in self.lab.wiring.switches:
            row = f"@{switch.bridge}"
            arguments += ["--", f"--id={row}", "create", "controller", f'target="tcp:127.0.0.1:{port}"']
            arguments += ["max_backoff=1000", "--", "add", "bridge", switch.bridge, "controller", row]
        self.lab.ovs.vsctl(*arguments)

    def disconnect(self, replica: Controller) -> None:
        """Have every switch connect to this replica no longer."""
        port = 6653 + self.replicas.index(replica)
        for switch in self.lab.wiring.switches:
            rows = self.lab.ovs.vsctl("get", "bridge", switch.bridge, "controller").strip("[]\n ").split(", ")
            assert len(rows) == REPLICAS
            for row in rows:
                if self.lab.ovs.vsctl("get", "controller", row, "target").strip().endswith(f':{port}"'):
                    self.lab.ovs.vsctl("remove", "bridge", switch.bridge, "controller", row)

    def leaders(self, replicas: Sequence[Controller]) -> list[Controller]:
        return [each for each in replicas if role(each) == "leader"]

    def leader(self, *, after: int = 0) -> Controller:
        """The leader of a term after this one, once its plan is active and the other replicas know it."""
        found: list[Controller] = []

        def leads() -> bool:
            found[:] = self.leaders(self.replicas)
            return len(found) == 1 and term(found[0]) > after

        eventually(leads, "one replica leads", shown=lambda: [role(each) for each in self.replicas])
        eventually(found[0].is_well, "all is well", shown=lambda: found[0].get("/healthz").body)
        eventually(lambda: all(knows(each, found[0]) for each in self.replicas), "all replicas know the leader")
        return found[0]


class Happened:
    """The events that a client is told, whichever replica leads; read in a thread until the test's process ends."""

    def __init__(self, client: Client) -> None:
        self.jobs: set[str] = set()
        self.count = 0
        threading.Thread(target=self._read, args=(client,), daemon=True).start()

    def _read(self, client: Client) -> None:
        with suppress(CommandError):
            for event in follow(client, "none"):
                self.count += 1
                if event.kind == "job":
                    self.jobs.add(str(event.document["data"]["job"]))


def role(replica: Controller) -> str:
    try:
        return str(replica.get("/v1/cluster").body["role"])
    except OSError:
        return "none"


def knows(replica: Controller, leader: Controller) -> bool:
    """Return whether a replica, if it works, has heard who leads: with its next beat, which a busy machine delays."""
    try:
        return bool(replica.get("/healthz").body["cluster"]["leader"] == f"http://127.0.0.1:{leader.http_port}")
    except OSError:
        return True


def term(replica: Controller) -> int:
    return int(replica.get("/v1/cluster").body["term"])


def follows(replica: Controller, wanted: int) -> bool:
    """Return whether a replica that no longer leads has started again, and knows the present term."""
    try:
        return role(replica) == "follower" and term(replica) == wanted
    except OSError:
        return False


def actions(lab: Lab) -> dict[str, set[tuple[Any, ...]]]:
    """Of each switch, what its rules match and do."""
    return {name: {rule[:-1] for rule in found} for name, found in dumps(lab, FABRIC).items()}


def writes(replica: Controller) -> bool:
    """Whether a replica has changed rules since it was elected last."""
    return "changes for epoch" in replica.log.read_text().rpartition("this replica leads cluster")[2]


def cluster_of(bench: Bench, file: Path, store: str, *options: str) -> Cluster:
    """Replicas with these options, and what they may say."""
    stale = "a follower asks for its role with the term that it has read, while the leader becomes master"
    bench.harmless.append(("OFPRRFC_STALE", stale))
    bench.harmless.append(("OFPBRC_IS_S", "a leader that was stopped goes on with what it was about to send"))
    bench.harmless.append(("no response to inactivity probe", "switches notice a leader that was stopped for long"))
    return Cluster(bench, FABRIC, file, store, *options)


@pytest.fixture
def cluster(bench: Bench, fabric_file: Path, postgres_url: str) -> Cluster:
    return cluster_of(bench, fabric_file, postgres_url)


def test_the_next_leader_of_a_killed_one_has_its_jobs_and_its_plan_and_writes_no_rule(cluster: Cluster) -> None:
    lab, first = cluster.lab, cluster.leader()
    wait_for_pings(lab)
    followers = [each for each in cluster.replicas if each is not first]
    client = Client(",".join(f"http://127.0.0.1:{each.http_port}" for each in [*followers, first]))
    happened = Happened(client)
    eventually(lambda: happened.count > 0, "the stream of events is open")
    # What one replica has acknowledged, each one knows.
    assert followers[0].put("/v1/jobs/one", JOB).status == 201
    for other in cluster.replicas:
        assert other.get("/v1/jobs/one").status == 200
        # The page of any replica shows the leader's state.
        assert other.get("/").status == 200
        told = other.get("/v1/health").body
        assert (told["jobs"], told["cluster"]["role"], told["cluster"]["term"]) == (1, "leader", term(first))
    assert followers[1].put("/v1/jobs/one", {"flows": [{"src": "h1"}]}).status == 422
    plan, jobs, epoch = active(first), first.get("/v1/jobs").body, term(first)
    rules, counted = standing(lambda: dumps(lab, FABRIC)), packets(lab, FABRIC)
    with lab.pinging() as pings:
        first.kill()
        second = cluster.leader(after=epoch)
        sent = min(pings.sent.values())
        eventually(lambda: min(pings.sent.values()) > sent + 10, "hosts ping each other with the next leader")
    assert pings.unanswered == []
    assert second is not first
    assert active(second)["flows"] == plan["flows"]
    assert second.get("/v1/jobs").body == jobs
    # Any replica says so, and a client that began with one that is gone finds another.
    urls = ",".join(f"http://127.0.0.1:{each.http_port}" for each in [first, *followers])
    assert Client(urls).request("GET", "jobs").document == jobs
    assert Client(urls).request("GET", "cluster").document["term"] == term(second)
    check_rules(lab, FABRIC, rules)
    # A rule that is written again counts from zero.
    eventually(
        lambda: all(packets(lab, FABRIC)[name] > counted[name] for name in switches(FABRIC)),
        "every switch has counted more",
    )
    assert not writes(second)
    # The next leader changes switches, and the one that was killed comes back as a follower.
    assert second.put("/v1/jobs/two", {"flows": [{"src": "h1", "dst": "h4", "bytes": 10**6}]}).status == 201
    active(second)
    eventually(lambda: {"one", "two"} <= happened.jobs, "events of both leaders were relayed")
    first.start()
    eventually(lambda: role(first) == "follower", "it follows")
    assert cluster.leaders(cluster.replicas) == [second]
    wait_for_pings(lab)


def test_a_rule_changed_by_hand_is_put_right_by_the_next_leader(
    bench: Bench, fabric_file: Path, postgres_url: str
) -> None:
    # The leader does not look again, so only the reading at a take-over can find the change.
    cluster = cluster_of(bench, fabric_file, postgres_url, "--readback-seconds", "0")
    lab, first = cluster.lab, cluster.leader()
    assert first.put("/v1/jobs/one", JOB).status == 201
    active(first)
    rules = standing(lambda: actions(lab))
    flow = planned(lab, "leaf1")[0]
    lab.ofctl("mod-flows", "leaf1", "--strict", f"priority={flow.priority},{flow.match},actions=drop")
    eventually(lambda: actions(lab) != rules, "the rule is changed")
    changed = actions(lab)
    epoch = term(first)
    first.kill()
    second = cluster.leader(after=epoch)
    eventually(lambda: actions(lab) == rules, "the rule is put right", shown=lambda: changed["leaf1"] ^ rules["leaf1"])
    written = second.log.read_text().rpartition("this replica leads cluster")[2]
    assert re.findall(r"(\S+): (\d+) changes for epoch", written) == [("leaf1", "1")]
    wait_for_pings(lab)


def test_a_leader_that_was_stopped_finds_another_one_and_follows(cluster: Cluster) -> None:
    lab, first = cluster.lab, cluster.leader()
    assert first.put("/v1/jobs/one", JOB).status == 201
    active(first)
    before, rules = term(first), standing(lambda: dumps(lab, FABRIC))
    others = [each for each in cluster.replicas if each is not first]
    os.kill(first.pid, signal.SIGSTOP)
    try:
        # A follower says what it knows of each try, and does not wait for the leader that is stopped.
        problems = []

        def accepted() -> bool:
            answer = others[0].put("/v1/jobs/two", {"flows": [{"src": "h1", "dst": "h4", "bytes": 10**6}]})
            if answer.status >= 300:
                problems.append(answer.body["type"].rpartition(":")[2])
            return answer.status < 300

        eventually(accepted, "a follower takes a change", shown=lambda: problems)
        assert set(problems) <= {"outcome-unknown", "no-leader", "unavailable"}
        leading: list[Controller] = []

        def one_leads() -> bool:
            leading[:] = cluster.leaders(others)
            return len(leading) == 1

        eventually(one_leads, "another replica leads")
        second = leading[0]
        eventually(second.is_well, "all is well", shown=lambda: second.get("/healthz").body)
    finally:
        os.kill(first.pid, signal.SIGCONT)
    active(second)
    eventually(lambda: follows(first, term(second)), "it follows")
    assert term(second) > before
    changed = standing(lambda: dumps(lab, FABRIC))
    assert changed != rules
    assert second.is_well()
    wait_for_pings(lab)


def test_followers_answer_reads_of_changes_that_they_know_while_the_leader_is_stopped(cluster: Cluster) -> None:
    first = cluster.leader()
    followers = [each for each in cluster.replicas if each is not first]

    def asked(replica: Controller, method: str, target: str, change: str = "", **more: Any) -> httpx.Response:
        headers = {"Fairspine-At-Least": change} if change else {}
        with httpx.Client(trust_env=False, timeout=60) as http:
            url = f"http://127.0.0.1:{replica.http_port}{target}"
            return http.request(method, url, headers=headers, **more)

    pushed = asked(followers[0], "PUT", "/v1/jobs/one", json=JOB)
    change = pushed.headers["Fairspine-Change"]
    assert (pushed.status_code, change.split("-")[0]) == (201, str(term(first)))
    active(first)
    led = asked(first, "GET", "/v1/jobs/one").json()
    os.kill(first.pid, signal.SIGSTOP)
    try:
        for each in followers:
            told = asked(each, "GET", "/v1/jobs/one", change)
            assert told.headers["Fairspine-Change"] == change
            assert told.headers["ETag"] == pushed.headers["ETag"]
            assert told.json() == {**led, "active": None, "speed": None}
            assert asked(each, "GET", "/v1/jobs/two", change).status_code == 404
            assert [row["name"] for row in asked(each, "GET", "/v1/jobs", change).json()["jobs"]] == ["one"]
    finally:
        os.kill(first.pid, signal.SIGCONT)
    second = cluster.leader()
    gone = asked(second, "DELETE", "/v1/jobs/one")
    for each in cluster.replicas:
        later = asked(each, "GET", "/v1/jobs/one", gone.headers["Fairspine-Change"])
        assert (later.status_code, later.headers["Fairspine-Change"]) == (404, gone.headers["Fairspine-Change"])
    # One that nobody has made is not waited for.
    assert asked(first, "GET", "/v1/jobs", "999-1").status_code == 503


def test_a_leader_steps_down_when_it_is_asked_to(cluster: Cluster) -> None:
    first = cluster.leader()
    before = term(first)
    other = next(each for each in cluster.replicas if each is not first)
    assert other.post("/v1/cluster:step-down", {}).status == 204
    second = cluster.leader(after=before)
    assert second is not first
    eventually(lambda: follows(first, term(second)), "it follows")
    assert not writes(second)


def test_a_leader_that_is_cut_off_from_all_switches_lets_another_replica_lead_that_is_not(cluster: Cluster) -> None:
    lab, first = cluster.lab, cluster.leader()
    assert first.put("/v1/jobs/one", JOB).status == 201
    active(first)
    before, rules = term(first), standing(lambda: dumps(lab, FABRIC))
    others = [each for each in cluster.replicas if each is not first]
    cluster.disconnect(first)
    leading: list[Controller] = []

    def another_leads() -> bool:
        leading[:] = cluster.leaders(others)
        return len(leading) == 1 and term(leading[0]) > before and leading[0].is_well()

    eventually(another_leads, "a replica with switches leads", shown=lambda: [role(each) for each in cluster.replicas])
    (second,) = leading
    eventually(lambda: follows(first, term(second)), "the former leader follows")
    assert "no switch can be reached from this replica" in first.log.read_text()
    active(second)
    check_rules(lab, FABRIC, rules)
    # The one without switches still passes requests on.
    assert first.put("/v1/jobs/two", {"flows": [{"src": "h1", "dst": "h4", "bytes": 10**6}]}).status == 201
    active(second)
    wait_for_pings(lab)
