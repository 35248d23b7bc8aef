"""The resources of hosts: plans that agents wait for, and their reports."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from controller.core.ports.host_agents import HostReport, PlanId, RoundTrips
from controller.rest import schemas
from controller.rest.resources.hosts import EXAMPLE_REPORT, MOST_REPORT_BYTES
from tests.unit.rest.asking import ask, problem
from tests.unit.rest.fake import HOST_PLAN, FakeBackend

JSON = {"Content-Type": "application/json"}


def test_a_plan_is_read_whole_and_not_again() -> None:
    reply = ask("segments", query="wait=0", host="h1")
    assert reply.status == 200
    plan = schemas.HostPlanDocument.model_validate_json(reply.body)
    assert (plan.host, plan.epoch, plan.digest) == ("h1", 1, HOST_PLAN["digest"])
    again = ask("segments", query=f"after=1&digest={plan.digest}&wait=0", host="h1")
    assert (again.status, again.body) == (304, b"")
    assert ask("segments", query="after=1", host="h1").status == 200


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("after=-1", "after"),
        ("after=x", "after"),
        ("wait=61", "wait"),
        ("wait=-1", "wait"),
        ("wait=nan", "wait"),
        ("after=1&digest=xyz", "digest"),
    ],
)
def test_parameters_that_cannot_be_used_are_named(query: str, field: str) -> None:
    reply = ask("segments", query=query, host="h1")
    assert (reply.status, problem(reply).field) == (400, field)


@pytest.mark.parametrize(("resource", "method"), [("segments", "GET"), ("host_report", "POST")])
def test_a_host_that_the_fabric_does_not_have_is_not_found(resource: str, method: str) -> None:
    reply = ask(resource, method, body=orjson.dumps(EXAMPLE_REPORT), host="h9")
    assert reply.status == 404
    assert "h9" in problem(reply).detail


def test_a_report_is_taken() -> None:
    backend = FakeBackend()
    reply = ask("host_report", "POST", backend=backend, body=orjson.dumps(EXAMPLE_REPORT), host="h1")
    assert (reply.status, reply.body) == (204, b"")
    ((host, report),) = backend.reports
    assert (host, report.plan) == ("h1", PlanId(7, "0123456789abcdef"))
    assert [row.evidence for row in report.dead] == ["probe"]
    assert [(row.median_us, row.lost) for row in report.round_trips] == [(90, 0)]
    assert isinstance(report.round_trips[0], RoundTrips)


def test_a_host_that_holds_no_plan_says_so() -> None:
    backend = FakeBackend()
    assert ask("host_report", "POST", backend=backend, body=b'{"epoch": null}', host="h1").status == 204
    assert backend.reports == [("h1", HostReport(None))]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"epoch": -1}, "epoch"),
        ({"epoch": "7"}, "epoch"),
        ({"digest": "short"}, "digest"),
        ({"dead": [{"carrier": "10.0.0.1", "since": 1.0, "evidence": "probe", "at": None}]}, "dead[0].carrier"),
        ({"dead": [{"carrier": "fc00::1", "since": -1.0, "evidence": "probe", "at": None}]}, "dead[0].since"),
        ({"dead": [{"carrier": "fc00::1", "since": 1.0, "evidence": "rumour", "at": None}]}, "dead[0].evidence"),
        ({"round_trips": [{"carrier": "fc00::1", "median_us": 1.5, "lost": 0}]}, "round_trips[0].median_us"),
        ({"round_trips": [{"carrier": "fc00::1", "median_us": 1, "lost": -1}]}, "round_trips[0].lost"),
        ({"more": 1}, "more"),
    ],
)
def test_a_wrong_report_is_refused_with_the_field_and_changes_nothing(change: dict[str, Any], field: str) -> None:
    backend = FakeBackend()
    reply = ask("host_report", "POST", backend=backend, body=orjson.dumps({**EXAMPLE_REPORT, **change}), host="h1")
    assert (reply.status, problem(reply).field) == (422, field)
    assert backend.reports == []


def test_an_epoch_without_its_digest_is_refused() -> None:
    reply = ask("host_report", "POST", body=b'{"epoch": 7}', host="h1")
    assert (reply.status, problem(reply).field) == (422, "digest")


def test_reports_have_a_limit_of_size() -> None:
    reply = ask("host_report", "POST", body=orjson.dumps(EXAMPLE_REPORT), host="h1")
    assert reply.sent.asked == [MOST_REPORT_BYTES]


def test_the_agents_are_listed() -> None:
    schemas.HostList.model_validate_json(ask("hosts").body)
