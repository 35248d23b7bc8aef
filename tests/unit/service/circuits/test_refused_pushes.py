"""Jobs that the controller of an optical fabric refuses: one line with field and value, and nothing changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from controller.circuits.fabric.optical_file import parse_optical_fabric
from controller.config import Settings
from controller.core.ports.panels import Panels
from controller.core.ports.store import Persistence
from controller.model.network_state import NetworkState
from controller.service.circuits.circuit_service import CircuitService
from controller.service.reconciling.event_log import EventLog
from controller.southbound.rules.rule_set import RuleSet
from tests.unit.rest.asking import Reply, send
from tests.unit.service.world import FakeSouthbound, FakeStore, Threads


class NoPanels:
    """Panels of which none is connected."""

    def __init__(self, runtime: Threads) -> None:
        self.observer = self.enforcer = FakeSouthbound(runtime, NetworkState())
        self.observer.reports = []

    def held(self) -> RuleSet:
        return RuleSet({})

    def send(self, *_: object) -> None:
        raise AssertionError("no panel is connected")

    def counted(self) -> dict[int, Any]:
        return {}


class Controlled:
    """The controller of an optical fabric with a job `a` on its first two servers, which sends to h3, too."""

    def __init__(self, optical: dict[str, Any], **settings: Any) -> None:
        self.runtime, self.store = Threads(), FakeStore()
        panels: Panels = NoPanels(self.runtime)  # type: ignore[assignment]
        persistence = Persistence(self.store, self.store.load(), None, self.store)
        fabric = parse_optical_fabric({"optical": {"servers": 6, "nics": 2} | optical})
        self.events = EventLog(self.runtime)
        chosen = Settings(**{"max_jobs": 2, **settings})
        self.service = CircuitService(chosen, fabric, self.runtime, persistence, panels, self.events)
        self.service.start()
        flows = [{"src": "h1", "dst": "h3", "bytes": 10}]
        assert self.put("a", {"hosts": ["h1", "h2"], "flows": flows}).status == 201

    def put(self, name: str, job: object, **headers: str) -> Reply:
        body = job if isinstance(job, bytes) else json.dumps(job).encode()
        sent = {"Content-Type": "application/json", **{key.replace("_", "-"): text for key, text in headers.items()}}
        return send(self.service, "PUT", f"/v1/jobs/{name}", headers=sent, body=body)  # type: ignore[arg-type]

    def jobs(self) -> Any:
        return json.loads(send(self.service, "GET", "/v1/jobs").body)  # type: ignore[arg-type]


@pytest.fixture
def opened() -> Iterator[list[Controlled]]:
    controllers: list[Controlled] = []
    yield controllers
    for each in controllers:
        each.runtime.close()


RING = {"name": "dp", "op": "all_reduce", "ranks": [0, 1], "bytes": 10}
ALL_TO_ALL = {"name": "mp", "op": "all_to_all", "ranks": [0, 1, 2], "bytes": 10}


@pytest.mark.parametrize(
    ("optical", "job", "status", "field", "value", "reason"),
    [
        ({}, b"{", 400, None, None, "is not JSON"),
        ({}, b"[]", 400, None, None, "a job is a mapping"),
        ({}, {"hosts": ["h4", "h9"]}, 422, "hosts[1]", "h9", "no server of the fabric has this name"),
        (
            {},
            {"hosts": ["h4"], "flows": [{"src": "h4", "dst": "h8", "bytes": 1}]},
            422,
            "flows[0].dst",
            "h8",
            "no server of the fabric has this name",
        ),
        ({}, {}, 400, None, None, "has no hosts and no flows"),
        (
            {},
            {"hosts": ["h4", "h5"], "flows": [{"src": "h4", "dst": "h2", "bytes": 1}]},
            422,
            "flows[0].dst",
            "h2",
            "is a server of the job a; circuits do not join jobs",
        ),
        ({}, {"hosts": ["h3", "h4"]}, 422, "hosts", "h3", "the job a does not fit beside this one"),
        (
            {},
            {"hosts": ["h4", "h5"], "collectives": [{**RING, "ranks": [0, 7]}]},
            422,
            "collectives[0].ranks",
            None,
            "",
        ),
        ({}, {"hosts": ["h4", "h5"], "collectives": [{**RING, "bytes": -1}]}, 422, "collectives[0].bytes", -1, ""),
        (
            {"forwarding": False, "nics": 1},
            {"hosts": ["h4", "h5", "h6"], "collectives": [ALL_TO_ALL]},
            422,
            "optical.forwarding",
            False,
            "has no circuit: 1 NICs do not suffice where servers do not forward",
        ),
    ],
)
def test_a_job_that_does_not_fit_is_refused_and_nothing_changes(
    opened: list[Controlled],
    optical: dict[str, Any],
    job: object,
    status: int,
    field: str | None,
    value: str | int | None,
    reason: str,
) -> None:
    controlled = Controlled(optical)
    opened.append(controlled)
    before = controlled.jobs(), dict(controlled.store.jobs), controlled.events._newest
    reply = controlled.put("b", job)
    problem = json.loads(reply.body)
    assert reply.status == status, problem
    assert reason in problem["detail"]
    assert "\n" not in problem["detail"]
    assert field is None or problem["field"].startswith(field)
    assert value is None or problem["value"] == value
    assert (controlled.jobs(), dict(controlled.store.jobs), controlled.events._newest) == before


def test_more_jobs_than_allowed_and_conditions_that_do_not_hold_are_refused(opened: list[Controlled]) -> None:
    controlled = Controlled({})
    opened.append(controlled)
    assert controlled.put("b", {"hosts": ["h4", "h5"]}).status == 201
    before = controlled.jobs()
    full = controlled.put("c", {"hosts": ["h6"]})
    assert (full.status, json.loads(full.body)["field"]) == (422, "name")
    assert "at most 2 jobs are allowed" in json.loads(full.body)["detail"]
    assert controlled.put("b", {"hosts": ["h4"]}, If_Match='"other"').status == 412
    assert controlled.put("b", {"hosts": ["h4"]}, If_None_Match="*").status == 412
    assert send(controlled.service, "DELETE", "/v1/jobs/c").status == 404  # type: ignore[arg-type]
    # What does not fit replaces nothing.
    assert controlled.put("b", {"hosts": ["h4", "h9"]}).status == 422
    assert controlled.jobs() == before


def test_a_job_that_cannot_be_saved_is_none(opened: list[Controlled]) -> None:
    controlled = Controlled({})
    opened.append(controlled)
    before = controlled.jobs()
    controlled.store.broken = "the disk is full"
    assert controlled.put("b", {"hosts": ["h4", "h5"]}).status == 503
    assert controlled.jobs() == before
    controlled.store.broken = ""
    assert controlled.put("b", {"hosts": ["h4", "h5"]}).status == 201
