"""What a leader answers to the requests of agents that another replica sends together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from controller.core.caller import Role
from controller.rest import schemas
from controller.rest.resources.hosts import EXAMPLE_REPORT
from controller.rest.security.access import TokenFile
from controller.rest.security.tokens import new_token
from tests.unit.rest.asking import ask, problem
from tests.unit.rest.fake import HOST_PLAN, FakeBackend

REPORT = orjson.dumps(EXAMPLE_REPORT).decode()


def relayed(backend: FakeBackend, *requests: dict[str, Any], **how: Any) -> list[schemas.RelayAnswers]:
    body = orjson.dumps({"requests": requests})
    reply = ask("relay", "POST", backend=backend, body=body, **how)
    assert reply.status == 200, reply.body
    return [schemas.RelayAnswers.model_validate_json(reply.body)]


def test_each_request_has_the_answer_that_it_has_alone() -> None:
    backend = FakeBackend()
    (answers,) = relayed(
        backend,
        {"host": "h1"},
        {"host": "h2", "after": 1, "digest": HOST_PLAN["digest"], "report": REPORT},
        {"host": "h9"},
        {"host": "h1", "report": "{"},
        {"host": "h1", "form": "ports"},
        {"host": "h1", "report": REPORT, "asks": False},
    )
    assert [each.status for each in answers.answers] == ["plan", "none", "refused", "refused", "plan", "none"]
    alone = schemas.HostPlanDocument.model_validate_json(ask("segments", host="h1").body)
    assert answers.answers[0].plan == alone
    assert answers.answers[4].plan == schemas.HostPortPlan.model_validate_json(ask("host_ports", host="h1").body)
    assert [host for host, _ in backend.reports] == ["h2", "h1"]


def test_each_request_needs_a_token_of_its_own(tmp_path: Path) -> None:
    """A replica has no rights of its own: whoever calls it so gets no more than by the tokens that it has."""
    made = {
        name: new_token(name, role, host)
        for name, role, host in (
            ("h1", Role.HOST, "h1"),
            ("reader", Role.READ, None),
            ("writer", Role.WRITE, None),
        )
    }
    file = tmp_path / "tokens"
    file.write_text("".join(f"{token.line()}\n" for token, _ in made.values()))
    file.chmod(0o600)
    secrets = {name: f"Bearer {secret}" for name, (_, secret) in made.items()} | {"none": None, "wrong": "Bearer x"}
    backend = FakeBackend()
    asked = [(name, host, report) for name in secrets for host in ("h1", "h2") for report in (None, REPORT)]
    rows = [{"host": host, "authorization": secrets[name], "report": report} for name, host, report in asked]
    headers = {"Content-Type": "application/json", "Authorization": str(secrets["h1"])}
    (answers,) = relayed(backend, *rows, headers=headers, access=TokenFile(file))
    allowed = {row for row, answer in zip(asked, answers.answers, strict=True) if answer.status != "refused"}
    assert allowed == {
        *(("h1", "h1", report) for report in (None, REPORT)),
        *(("writer", host, report) for host in ("h1", "h2") for report in (None, REPORT)),
        *(("reader", host, None) for host in ("h1", "h2")),
    }
    assert [host for host, _ in backend.reports] == ["h1", "h1", "h2"]
    without = {"Content-Type": "application/json"}
    assert ask("relay", "POST", backend=backend, headers=without, access=TokenFile(file)).status == 401


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"requests": [{}]}, "requests[0].host"),
        ({"requests": [{"host": "h1", "after": -1}]}, "requests[0].after"),
        ({"requests": [{"host": "h1", "form": "columns"}]}, "requests[0].form"),
        ({"requests": [{"host": "h1", "more": 1}]}, "requests[0].more"),
        ({"requests": [{"host": "h1"}] * 1001}, "requests"),
    ],
)
def test_what_is_no_list_of_requests_is_refused_whole(body: Any, field: str) -> None:
    backend = FakeBackend()
    reply = ask("relay", "POST", backend=backend, body=orjson.dumps(body))
    assert (reply.status, problem(reply).field) == (422, field)
    assert not backend.reports
