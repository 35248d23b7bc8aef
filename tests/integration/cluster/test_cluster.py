"""Three replicas of a controller on the same switches and one PostgreSQL: the leader dies, is stopped, steps down."""

from __future__ import annotations

import os
import re
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from controller.cli.connection.client import Client
from controller.cli.live.events import follow
from controller.cli.shared.command_error import CommandError
from emulation.controller_process import ControllerProcess, controller_command, spawn_to
from emulation.http_client import HttpResponse, NoResponseError
from emulation.lab import Lab
from tests.rig.bench import Bench
from tests.rig.checks.jobs import active
from tests.rig.checks.planned_rules import planned
from tests.rig.checks.restarts import JOB, check_rules, dumps, packets, switches
from tests.rig.cluster import FABRIC, LEASE, Cluster, cluster_of, role, term
from tests.rig.controller import Controller
from tests.rig.real_controller import free_ports
from tests.rig.waiting import eventually, standing, wait_for_pings

pytestmark = pytest.mark.switches


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


def follows(replica: Controller, wanted: int) -> bool:
    """Return whether a replica that no longer leads has started again, and knows the present term."""
    try:
        return role(replica) == "follower" and term(replica) == wanted
    except OSError:
        return False


def actions(lab: Lab) -> dict[str, set[tuple[Any, ...]]]:
    """Of each switch, what its rules match and do."""
    return {name: {rule[:-1] for rule in found} for name, found in dumps(lab, FABRIC).items()}


def change_of(answer: HttpResponse) -> tuple[int, int]:
    """The last change that an answer contains: term and number. A cable that is discovered late is one, too."""
    term_, number = answer.headers["Fairspine-Change"].split("-")
    return int(term_), int(number)


def writes(replica: Controller) -> bool:
    """Whether a replica has changed rules since it was elected last."""
    return "changes for epoch" in replica.log.read_text().rpartition("this replica leads cluster")[2]


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
    eventually(second.is_well, "all is well", shown=lambda: second.get("/healthz").body)
    wait_for_pings(lab)


def test_followers_answer_reads_of_changes_that_they_know_while_the_leader_is_stopped(cluster: Cluster) -> None:
    first = cluster.leader()
    followers = [each for each in cluster.replicas if each is not first]

    def asked(replica: Controller, target: str, change: str) -> HttpResponse:
        return replica.ask("GET", target, headers={"Fairspine-At-Least": change})

    pushed = followers[0].put("/v1/jobs/one", JOB)
    change = pushed.headers["Fairspine-Change"]
    assert (pushed.status, change_of(pushed)[0]) == (201, term(first))
    active(first)

    def epochs() -> list[int]:
        return [each.get("/v1/jobs/one").body["epoch"] for each in (first, *followers)]

    # A cable that was discovered late may have made another plan, of which followers hear from the store.
    eventually(lambda: len(set(epochs())) == 1, "all replicas know the newest plan", shown=epochs)
    led = first.get("/v1/jobs/one").body
    os.kill(first.pid, signal.SIGSTOP)
    try:
        for each in followers:
            told = asked(each, "/v1/jobs/one", change)
            assert change_of(told) >= change_of(pushed)
            assert told.headers["ETag"] == pushed.headers["ETag"]
            assert told.body == {**led, "active": None, "speed": None}
            assert asked(each, "/v1/jobs/two", change).status == 404
            assert [row["name"] for row in asked(each, "/v1/jobs", change).body["jobs"]] == ["one"]
    finally:
        os.kill(first.pid, signal.SIGCONT)
    deleted: list[HttpResponse] = []

    def is_deleted() -> bool:
        # The one that was stopped may lead for a moment more. Without an answer, the job may be gone the next time.
        with suppress(NoResponseError):
            deleted.append(cluster.leader().delete("/v1/jobs/one"))
        return bool(deleted) and deleted[-1].status in (204, 404)

    eventually(is_deleted, "the job is deleted", shown=lambda: [answer.status for answer in deleted])
    gone = deleted[-1]
    for each in cluster.replicas:
        later = asked(each, "/v1/jobs/one", gone.headers["Fairspine-Change"])
        assert later.status == 404
        assert change_of(later) >= change_of(gone)
    # One that nobody has made is not waited for.
    assert asked(first, "/v1/jobs", "999-1").status == 503


def test_a_leader_steps_down_when_it_is_asked_to(cluster: Cluster) -> None:
    first = cluster.leader()
    before = term(first)
    other = next(each for each in cluster.replicas if each is not first)
    assert other.post("/v1/cluster:step-down", {}).status == 204
    second = cluster.leader(after=before)
    assert second is not first
    eventually(lambda: follows(first, term(second)), "it follows")
    assert not writes(second)


def test_a_leader_that_has_stepped_down_goes_on_as_a_new_program_in_the_same_process(
    tmp_path: Path, postgres_url: str
) -> None:
    """Replicas of other tests, which are forked, are replaced by further forks."""
    openflow, port = free_ports(2)
    options = ("--store", postgres_url, "--cluster-name", "lab", "--lease", str(LEASE))
    command = controller_command(*options, openflow_port=openflow, http_port=port)
    process = ControllerProcess(command, spawn_to(tmp_path / "log"), http_port=port)

    def term_led() -> int:
        """The term that it leads; 0 where it leads none, or does not answer."""
        with suppress(NoResponseError):
            shown = process.ask("GET", "/v1/cluster").body
            return int(shown["term"]) if shown["role"] == "leader" else 0
        return 0

    try:
        process.start().wait_until(lambda: term_led() > 0, "it leads")
        before, pid = term_led(), process.pid
        assert process.ask("POST", "/v1/cluster:step-down", {}).status == 204
        process.wait_until(lambda: term_led() > before, "it leads a later term")
        assert process.pid == pid
        arguments = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
        assert arguments[2:] == ["-m", "controller.launcher", *command[1:]]
        assert process.stop() == 0
    finally:
        process.kill()


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
    # The one without switches still passes requests on, as soon as it has heard where to.
    two = {"flows": [{"src": "h1", "dst": "h4", "bytes": 10**6}]}
    eventually(lambda: first.put("/v1/jobs/two", two).status in (200, 201), "it passes a change on")
    active(second)
    wait_for_pings(lab)
