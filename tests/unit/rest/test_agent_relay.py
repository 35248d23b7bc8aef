"""A replica that holds the requests of agents: they get every plan of the leader, and no older one than they have."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.ports.host_agents import AgentHas, HostRequest, PlanId
from controller.model.packets.port_numbers import ROCE_PORT
from controller.rest import agent_relay, schemas
from controller.rest.agent_relay import LONGEST_REPORT, MOST_TOGETHER, RELAY, AgentRelay, NotRelayedError
from controller.rest.forwarding import no_leader
from controller.rest.problems import ProblemError
from controller.rest.serving.budget import Quotas, Share, WorkKind
from controller.rest.serving.limits import ClientLimits

LEADER = f"http://a:{ROCE_PORT}"
OTHER = f"http://b:{ROCE_PORT}"
PATIENCE_SECONDS = 120.0
SHARE = Share(Quotas(ClientLimits()).rooms[WorkKind.AGENT], "h1")


class Leader:
    """Answers as a leader does. A plan is a number; its digest is that of the run of the leader."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.url: str | None = LEADER
        self.run, self.epoch = "a", 1
        self.sizes: list[int] = []
        self.reports: list[tuple[str, bytes]] = []
        self.authorizations: set[str | None] = set()
        self.status = 200
        self.body: bytes | None = None

    @property
    def version(self) -> str:
        return f"{self.run}-{self.epoch}"

    def plan(self, epoch: int) -> None:
        with self.changed:
            self.epoch = epoch
            self.changed.notify_all()

    def ask(self, url: str, method: str, target: str, authorization: str | None, body: bytes) -> tuple[int, bytes]:
        if url != self.url:
            raise no_leader("it does not lead")
        self.authorizations.add(authorization)
        if self.status != 200 or self.body is not None:
            return self.status, self.body or b"{}"
        if target == RELAY:
            form = schemas.RelayForm.model_validate_json(body)
            self.sizes.append(len(form.requests))
            version, epoch = self.version, self.epoch
            return 200, orjson.dumps({"version": version, "answers": [self._answer(r, epoch) for r in form.requests]})
        known = target.partition("known=")[2].partition("&")[0]
        with self.changed:
            # What the real one does within its limit of waiting.
            self.changed.wait_for(lambda: self.version != known or self.url != url, 0.5)
        if url != self.url:
            raise no_leader("it does not lead")
        return 200, orjson.dumps({"version": self.version})

    def _answer(self, request: schemas.RelayedRequest, epoch: int) -> dict[str, Any]:
        if request.host == "refused":
            return {"status": "refused", "plan": None}
        if request.report is not None:
            self.reports.append((request.host, request.report.encode()))
        if not request.asks or (request.after, request.digest) == (epoch, self.run):
            return {"status": "none", "plan": None}
        return {"status": "plan", "plan": {"host": request.host, "epoch": epoch, "digest": self.run}}


def relay_of(leader: Leader) -> AgentRelay:
    return AgentRelay(lambda: leader.url, leader.ask, no_leader)


class Agent:
    """Follows plans, and confirms each with the request for the next one, until it has one of a number."""

    def __init__(self, host: str, relay: AgentRelay, leader: Leader) -> None:
        self.host, self.relay, self.leader = host, relay, leader
        self.has: PlanId | None = None
        self.plans: list[int] = []
        self.reported: list[bytes] = []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        report: bytes | None = None
        while not self.ended.is_set():
            asked = HostRequest(self.host, AgentHas(self.has), report)
            try:
                body = self.relay.plan(asked, f"Bearer {self.host}", 60.0, self.ended.is_set, SHARE)
            except ProblemError:
                time.sleep(0.01)
                continue
            report = None
            if body is not None:
                plan = orjson.loads(body)
                assert plan["host"] == self.host
                self.plans.append(plan["epoch"])
                self.has = PlanId(plan["epoch"], plan["digest"])
                report = orjson.dumps([plan["epoch"], plan["digest"]])
                self.reported.append(report)


def until(state: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not state():
        assert time.monotonic() < end
        time.sleep(0.002)


@given(st.integers(1, 40), st.lists(st.integers(1, 3), max_size=4))
def test_agents_get_the_newest_plan_and_never_an_older_one_and_each_report_arrives_once(
    agents: int, steps: list[int]
) -> None:
    leader = Leader()
    relay = relay_of(leader)
    hosts = [Agent(f"h{number}", relay, leader) for number in range(agents)]
    for host in hosts:
        host.thread.start()
    for step in steps:
        leader.plan(leader.epoch + step)
    until(lambda: all(host.plans and host.plans[-1] == leader.epoch for host in hosts))
    until(lambda: len(leader.reports) == sum(len(host.reported) for host in hosts))
    for host in hosts:
        host.ended.set()
    leader.plan(leader.epoch + 1)
    for host in hosts:
        host.thread.join(PATIENCE_SECONDS)
        assert host.plans == sorted(set(host.plans))
        mine = [report for name, report in leader.reports if name == host.host]
        assert mine[: len(host.reported)] == host.reported[: len(mine)]
    assert max(leader.sizes) <= MOST_TOGETHER
    assert leader.authorizations <= {f"Bearer {host.host}" for host in hosts}


def test_agents_that_wait_cost_the_leader_few_requests_for_a_new_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_relay, "ASK_SECONDS", PATIENCE_SECONDS)
    leader = Leader()
    relay = relay_of(leader)
    hosts = [Agent(f"h{number}", relay, leader) for number in range(300)]
    release, came = threading.Event(), threading.Event()
    ask = leader.ask

    def slow(*how: Any) -> tuple[int, bytes]:
        # Whatever comes meanwhile goes together.
        if how[2] == RELAY:
            came.set()
            release.wait()
        return ask(*how)

    relay._ask = slow
    hosts[0].thread.start()
    assert came.wait(PATIENCE_SECONDS)
    for host in hosts[1:]:
        host.thread.start()
    until(lambda: len(relay._queue) == len(hosts) - 1)
    release.set()
    until(lambda: len(leader.reports) == len(hosts))
    # Each has asked twice: for its plan, and to confirm it.
    asked = Counter(leader.sizes)
    assert sum(size * times for size, times in asked.items()) >= 2 * len(hosts)
    assert leader.sizes[:2] == [1, MOST_TOGETHER]
    # Agents that have their plan already may confirm it together with the rest.
    assert len(hosts) - 1 - MOST_TOGETHER <= leader.sizes[2] <= MOST_TOGETHER
    for host in hosts:
        host.ended.set()
    leader.plan(2)
    for host in hosts:
        host.thread.join(PATIENCE_SECONDS)


@pytest.mark.parametrize("url", [OTHER, "", None])
def test_who_waits_is_told_that_the_leader_has_changed(monkeypatch: pytest.MonkeyPatch, url: str | None) -> None:
    monkeypatch.setattr(agent_relay, "LOOK_SECONDS", 0.05)
    leader = Leader()
    relay = relay_of(leader)
    told: list[ProblemError] = []

    def wait() -> None:
        try:
            relay.plan(HostRequest("h1", AgentHas(PlanId(1, "a"))), None, PATIENCE_SECONDS, bool, SHARE)
        except ProblemError as error:
            told.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    until(lambda: bool(leader.sizes) and bool(relay._waiting))
    leader.url = url
    thread.join(PATIENCE_SECONDS)
    assert [error.status_code for error in told] == [503]


def test_a_wait_ends_with_its_time_and_with_its_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_relay, "LOOK_SECONDS", 0.01)
    relay = relay_of(Leader())
    has = AgentHas(PlanId(1, "a"))
    assert relay.plan(HostRequest("h1", has), None, 0.0, bool, SHARE) is None
    assert relay.plan(HostRequest("h1", has), None, 0.05, bool, SHARE) is None
    assert relay.plan(HostRequest("h1", has), None, PATIENCE_SECONDS, lambda: True, SHARE) is None


def test_an_agent_that_only_reports_gets_no_plan() -> None:
    leader = Leader()
    relay = relay_of(leader)
    asked = HostRequest("h1", AgentHas(), b"[1]", asks=False)
    assert relay.plan(asked, None, PATIENCE_SECONDS, bool, SHARE) is None
    assert leader.reports == [("h1", b"[1]")]


def test_an_agent_that_waits_is_asked_about_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader takes an agent that it does not hear for silent."""
    monkeypatch.setattr(agent_relay, "ASK_SECONDS", 0.02)
    leader = Leader()
    relay = relay_of(leader)
    relay.plan(
        HostRequest("h1", AgentHas(PlanId(1, "a"))), None, PATIENCE_SECONDS, lambda: len(leader.sizes) > 3, SHARE
    )
    assert len(leader.sizes) > 3


@pytest.mark.parametrize(
    ("status", "body"),
    [(404, b"{}"), (401, b"{}"), (200, b"no json"), (200, b"{}"), (200, b'{"version":"1","answers":[]}')],
)
def test_what_the_leader_does_not_answer_together_is_passed_on_by_itself(status: int, body: bytes) -> None:
    leader = Leader()
    leader.status, leader.body = status, body
    with pytest.raises(NotRelayedError):
        relay_of(leader).plan(HostRequest("h1", AgentHas()), None, 0.0, bool, SHARE)


@pytest.mark.parametrize(
    "request_",
    [
        HostRequest("refused", AgentHas()),
        HostRequest("h1", AgentHas(), b"\xff"),
        HostRequest("h1", AgentHas(), b" " * (LONGEST_REPORT + 1)),
    ],
)
def test_a_request_that_cannot_go_with_others_is_passed_on_by_itself(request_: HostRequest) -> None:
    leader = Leader()
    with pytest.raises(NotRelayedError):
        relay_of(leader).plan(request_, None, 0.0, bool, SHARE)
    assert not leader.reports
