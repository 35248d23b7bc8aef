"""The resources of hosts: plans that agents wait for, and their reports."""

from __future__ import annotations

import gzip
from typing import Any

import orjson
import pytest

from controller.core.ports.host_agents import FlowPacing, HostReport, PlanId, RoundTrips
from controller.rest import schemas
from controller.rest.resources.hosts import EXAMPLE_REPORT, MOST_REPORT_BYTES
from tests.unit.rest.asking import ask, problem
from tests.unit.rest.fake import HOST_PLAN, HOST_TABLE, FakeBackend

JSON = {"Content-Type": "application/json"}


def test_a_plan_is_read_whole_and_not_again() -> None:
    reply = ask("segments", query="wait=0", host="h1")
    assert reply.status == 200
    plan = schemas.HostPlanDocument.model_validate_json(reply.body)
    assert (plan.host, plan.epoch, plan.digest) == ("h1", 1, HOST_PLAN["digest"])
    again = ask("segments", query=f"after=1&digest={plan.digest}&wait=0", host="h1")
    assert (again.status, again.body) == (304, b"")
    assert ask("segments", query="after=1", host="h1").status == 200


def test_a_plan_has_paths_to_leaves_where_the_agent_has_a_table_of_hosts() -> None:
    plan = schemas.HostPlanDocument.model_validate_json(ask("segments", query="form=table", host="h1").body)
    assert (plan.number, plan.destinations) == (0, [])
    assert plan.paths is not None
    table = schemas.HostTableDocument.model_validate_json(ask("host_table", host="h1").body)
    assert (table.digest, len(table.hosts)) == (plan.table_digest, 3)


def test_a_table_of_hosts_is_compressed_once_for_all_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[f"10.0.1.{n}", n, 0, 57345 + n] for n in range(200)]
    monkeypatch.setitem(HOST_TABLE, "hosts", rows)
    compressed = []
    compress = gzip.compress
    monkeypatch.setattr(
        gzip, "compress", lambda body, *how, **more: compressed.append(1) or compress(body, *how, **more)
    )
    replies = [ask("host_table", host=host, headers={"Accept-Encoding": "gzip"}) for host in ("h1", "h2", "h1")]
    assert [orjson.loads(gzip.decompress(reply.body))["hosts"] for reply in replies] == [rows] * 3
    assert len(compressed) == 1
    assert orjson.loads(ask("host_table", host="h1").body)["hosts"] == rows


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("after=-1", "after"),
        ("after=x", "after"),
        ("wait=61", "wait"),
        ("wait=-1", "wait"),
        ("wait=nan", "wait"),
        ("after=1&digest=xyz", "digest"),
        ("form=columns", "form"),
    ],
)
def test_parameters_that_cannot_be_used_are_named(query: str, field: str) -> None:
    reply = ask("segments", query=query, host="h1")
    assert (reply.status, problem(reply).field) == (400, field)


@pytest.mark.parametrize(("resource", "method"), [("segments", "GET"), ("host_table", "GET"), ("host_report", "POST")])
def test_a_host_that_the_fabric_does_not_have_is_not_found(resource: str, method: str) -> None:
    reply = ask(resource, method, body=orjson.dumps(EXAMPLE_REPORT), host="h9")
    assert reply.status == 404
    assert "h9" in problem(reply).detail


def test_samples_are_read_and_not_again() -> None:
    reply = ask("host_samples", query="wait=0", host="h1")
    samples = schemas.HostSamplesDocument.model_validate_json(reply.body)
    assert (reply.status, samples.number, [row.router for row in samples.samples]) == (200, 7, ["spine1"])
    again = ask("host_samples", query="after=7", host="h1")
    assert (again.status, again.body) == (304, b"")
    assert ask("host_samples", query="after=-1", host="h1").status == 400
    assert ask("host_samples", host="h9").status == 404


def test_a_report_is_taken() -> None:
    backend = FakeBackend()
    reply = ask("host_report", "POST", backend=backend, body=orjson.dumps(EXAMPLE_REPORT), host="h1")
    assert (reply.status, reply.body) == (204, b"")
    ((host, report),) = backend.reports
    assert (host, report.plan) == ("h1", PlanId(7, "0123456789abcdef"))
    assert [row.evidence for row in report.dead] == ["probe"]
    assert [(row.median_us, row.lost) for row in report.round_trips] == [(90, 0)]
    assert isinstance(report.round_trips[0], RoundTrips)
    assert report.pacing == FlowPacing(12, 12, 0)


def test_a_report_may_wait_for_the_next_plan_as_a_request_for_it_does() -> None:
    backend = FakeBackend()
    body = orjson.dumps(EXAMPLE_REPORT)
    known = f"after=1&digest={HOST_PLAN['digest']}"
    replies = {}
    for query in ("wait=1", "form=table&wait=0", f"{known}&wait=0", known, "wait=1&destinations=fedcba9876543210"):
        replies[query] = ask("host_report", "POST", backend=backend, query=query, body=body, host="h1")
        assert len(backend.reports) == len(replies)
    assert {query: reply.status for query, reply in replies.items()} == dict(
        zip(replies, (200, 200, 204, 204, 200), strict=True)
    )
    for query, reply in replies.items():
        if reply.status == 200:
            assert reply.body == ask("segments", query=query, host="h1").body
        else:
            assert reply.body == b""


@pytest.mark.parametrize("query", ["wait=61", "after=x", "form=columns"])
def test_a_report_with_a_wrong_parameter_is_not_taken(query: str) -> None:
    backend = FakeBackend()
    reply = ask("host_report", "POST", backend=backend, query=query, body=orjson.dumps(EXAMPLE_REPORT), host="h1")
    assert (reply.status, problem(reply).field) == (400, query.split("=")[0])
    assert backend.reports == []


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
        ({"counters": {"pause_sent": [0] * 7}}, "counters.pause_sent"),
        ({"counters": {"dropped": [0, 0, 0, -1, 0, 0, 0, 0]}}, "counters.dropped[3]"),
        ({"counters": {"ecn_marked": 1.5}}, "counters.ecn_marked"),
        ({"counters": {"cnps": 1}}, "counters.cnps"),
        ({"pacing": {"planned": 1, "paced": -1, "dropped": 0}}, "pacing.paced"),
        ({"pacing": {"planned": 1, "paced": 1}}, "pacing.dropped"),
        ({"pacing": {"planned": 1, "paced": 0, "dropped": 0, "reason": "\x1b[2J"}}, "pacing.reason"),
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
