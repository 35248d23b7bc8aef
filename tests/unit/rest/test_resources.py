"""Requests in, responses out, without a server."""

from __future__ import annotations

import re

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.rest import schemas
from controller.rest.operation import EVENT_STREAM, JSON
from controller.rest.resources import RESOURCES
from tests.unit.rest.asking import BY_NAME, ask, example_query, problem, send
from tests.unit.rest.fake import FakeBackend

OPERATIONS = [(resource.name, method) for resource in RESOURCES for method in resource.operations]


@pytest.mark.parametrize(("name", "method"), OPERATIONS)
def test_every_operation_answers_its_example_with_a_status_and_document_that_it_declares(
    name: str, method: str
) -> None:
    backend = FakeBackend()
    ask("job", "PUT", backend=backend)
    operation = BY_NAME[name].operations[method]
    body = b"" if operation.body is None else orjson.dumps(operation.body.example)
    response = ask(name, method, backend=backend, query=example_query(operation), body=body)
    assert response.status in operation.answers
    model = operation.answers[response.status]
    assert ("ETag" in response.headers) == (operation.tagged or operation.content_tagged)
    if model is None or operation.media_type == EVENT_STREAM:
        assert response.body == b""
    elif operation.media_type != JSON:
        assert response.media_type.startswith(operation.media_type)
        assert response.body
    else:
        model.model_validate_json(response.body)


@pytest.mark.parametrize(("name", "method"), OPERATIONS)
def test_every_operation_refuses_a_query_parameter_that_it_does_not_have(name: str, method: str) -> None:
    response = ask(name, method, query="hots=h1")
    assert (response.status, problem(response).field) == (400, "hots")


def test_operations_have_names_of_their_own() -> None:
    ids = [operation.id for resource in RESOURCES for operation in resource.operations.values()]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("name", BY_NAME)
def test_an_unsupported_method_is_405_and_lists_the_supported_ones(name: str) -> None:
    response = ask(name, "PATCH")
    assert (response.status, problem(response).title) == (405, "Method Not Allowed")
    allow = response.headers["Allow"].split(", ")
    operations = set(BY_NAME[name].operations)
    assert set(allow) == operations | {"OPTIONS"} | ({"HEAD"} if "GET" in operations else set())
    options = ask(name, "OPTIONS")
    assert (options.status, options.headers["Allow"].split(", "), options.body) == (204, sorted(allow), b"")
    assert ask(name, "get").status == 405


@pytest.mark.parametrize("name", [resource.name for resource in RESOURCES if "GET" in resource.operations])
def test_head_is_answered_as_get_is_but_never_as_a_stream(name: str) -> None:
    query = example_query(BY_NAME[name].operations["GET"])
    headers = {"X-Request-ID": "same"}
    head, get = ask(name, "HEAD", query=query, headers=headers), ask(name, "GET", query=query, headers=headers)
    assert (head.status, dict(head.headers), head.body) == (get.status, dict(get.headers), b"")


def test_a_job_is_created_once_then_replaced_and_deleted_once() -> None:
    backend = FakeBackend()
    assert ask("job", "PUT", backend=backend).status == 201
    assert ask("job", "PUT", backend=backend, body=b'{"weight": 2}').status == 200
    assert backend.bodies == {"a": b'{"weight": 2}'}
    assert ask("job", "DELETE", backend=backend).status == 204
    assert ask("job", "DELETE", backend=backend).status == 404
    assert ask("job", "GET", backend=backend).status == 404


def must_not_be_read() -> bytes:
    raise AssertionError("the body of a refused request was read")


@given(st.text(min_size=1) | st.text("ab.-_/ ", min_size=1, max_size=70) | st.text(".", min_size=1, max_size=3))
def test_exactly_the_job_names_of_the_rule_are_taken_before_any_body_is_read(name: str) -> None:
    allowed = re.fullmatch(r"[A-Za-z0-9._-]{1,63}", name) is not None and name not in (".", "..")
    for method in ("GET", "PUT", "DELETE"):
        response = ask("job", method, name=name, body=b"{}" if allowed else must_not_be_read)
        assert (response.status == 400) == (not allowed)
        if not allowed:
            assert problem(response).field == "name"


@pytest.mark.parametrize(
    ("body", "status", "field", "value"),
    [
        (b"{", 400, None, None),
        (b"[1]", 400, None, "[1]"),
        (b'{"weight": -1}', 422, "weight", -1),
    ],
)
def test_bad_input_names_field_and_value_and_changes_nothing(
    body: bytes, status: int, field: str | None, value: object
) -> None:
    backend = FakeBackend()
    response = ask("job", "PUT", backend=backend, body=body)
    found = problem(response)
    assert (response.status, found.field, found.value) == (status, field, value)
    assert backend.bodies == {}


@pytest.mark.parametrize(
    ("name", "body", "status", "field"),
    [
        ("mode", b'{"mode": "ecmp"}', 200, None),
        ("mode", b'{"mode": "Ecmp"}', 422, "mode"),
        ("mode", b'{"enforcement": "source_port"}', 200, None),
        ("mode", b'{"mode": "planned", "enforcement": "segment_routing"}', 200, None),
        ("mode", b'{"enforcement": "sr"}', 422, "enforcement"),
        ("mode", b'{"mode": "ecmp", "enforcement": null}', 422, "enforcement"),
        ("mode", b"{}", 422, "mode"),
        ("mode", b'{"mode": "ecmp", "now": true}', 422, "now"),
        ("mode", b'["ecmp"]', 400, None),
        ("drain", b'{"drained": true}', 200, None),
        ("drain", b'{"drained": 1}', 422, "drained"),
        ("drain", b'{"drained": "true"}', 422, "drained"),
        ("drain", b"", 400, None),
    ],
)
def test_forms_are_taken_whole_or_refused_by_the_member_that_is_wrong(
    name: str, body: bytes, status: int, field: str | None
) -> None:
    response = ask(name, "PUT", body=body)
    assert response.status == status
    if status != 200:
        assert problem(response).field == field


def test_small_forms_are_not_read_beyond_what_they_can_hold() -> None:
    asked = [limit for name in ("mode", "drain", "job") for limit in ask(name, "PUT").sent.asked]
    assert asked == [64 * 1024, 64 * 1024, None]


def test_a_thing_that_cannot_be_drained_is_404_and_a_plan_that_was_never_made_too() -> None:
    assert problem(ask("drain", "PUT", id="spine9", body=b'{"drained": true}')).value == "spine9"
    assert problem(ask("record", epoch="77")).field == "plan"
    assert ask("rollback", "POST", epoch="77").status == 404


@pytest.mark.parametrize("epoch", ["-1", "01", "1.0", "1e3", " 1", "9007199254740992", "９", "7:other"])
def test_an_epoch_is_a_number_in_plain_digits(epoch: str) -> None:
    assert problem(ask("record", epoch=epoch)).field == "epoch"


def test_the_history_comes_in_pages_that_join() -> None:
    backend, seen, before = FakeBackend(), [], ""
    while True:
        page = schemas.PlanHistory.model_validate_json(ask("history", backend=backend, query=f"limit=1{before}").body)
        seen += [row["epoch"] for row in page.model_dump()["plans"]]
        if page.next_before is None:
            break
        before = f"&before={page.next_before}"
    assert seen == [2, 1]
    for query in ("limit=0", "limit=501", "limit=", "before=x"):
        assert ask("history", query=query).status == 400


def test_a_state_that_excludes_the_request_is_409() -> None:
    backend = FakeBackend()
    assert ask("mode", "PUT", backend=backend, body=b'{"mode": "frozen"}').status == 200
    assert problem(ask("rollback", "POST", backend=backend)).status == 409


def test_a_change_that_cannot_be_kept_is_503_of_a_type_of_its_own() -> None:
    response = ask("job", "PUT", name="unkept")
    assert (response.status, response.headers["Retry-After"]) == (503, "1")
    assert problem(response).type == "urn:problem-type:fairspine:storage"


def test_a_new_job_says_where_it_is() -> None:
    backend = FakeBackend()
    assert send(backend, "PUT", "/v1/jobs/a-b", body=b"{}").headers["Location"] == "/v1/jobs/a-b"
    assert "Location" not in send(backend, "PUT", "/v1/jobs/a-b", body=b"{}").headers


@pytest.mark.parametrize(
    "content_type", ["", "application/json", "Application/JSON; charset=UTF-8", "application/vnd.x+json"]
)
def test_json_by_any_of_its_names_is_taken(content_type: str) -> None:
    assert ask("job", "PUT", headers={"content-type": content_type}).status == 201


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "text/plain"},
        {"content-type": "application/jsonx"},
        {"content-type": "application/json, application/json"},
        {"content-type": "application/json; charset=latin-1"},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
)
def test_a_body_that_is_not_plain_json_is_415_and_not_read(headers: dict[str, str]) -> None:
    response = ask("job", "PUT", headers=headers, body=must_not_be_read)
    assert (response.status, problem(response).instance) == (415, "/v1/jobs/a")


@pytest.mark.parametrize(
    ("query", "field"), [("", "host"), ("host=h1&host=h2", "host"), ("host=h1&x=", "x"), ("=", "")]
)
def test_routes_require_exactly_one_host(query: str, field: str) -> None:
    response = ask("routes", query=query)
    assert (response.status, problem(response).field or "") == (400, field)


def test_routes_of_a_host_that_is_not_there_are_404_and_name_it() -> None:
    found = problem(ask("routes", query="host=h%C3%A9"))
    assert (found.status, found.field, found.value) == (404, "host", "hé")


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=200))
def test_any_query_is_answered_or_refused(query: str) -> None:
    response = ask("routes", query=query)
    assert response.status in (200, 400, 404)


def test_what_is_not_known_yet_is_503_with_a_time_to_come_back() -> None:
    response = ask("job", name="unavailable")
    assert (response.status, response.headers["Retry-After"]) == (503, "7")
    assert problem(response).detail == "the fabric is not known yet"


def test_an_exception_outside_the_contract_is_one_traceback_in_the_log_and_an_id_for_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused = ask("job", name="broken")
    assert (refused.status, problem(refused).title) == (500, "Internal server error")
    assert b"secret" not in refused.body
    assert [record.exc_info is not None for record in caplog.records] == [True]
    assert str(problem(refused).error_id) in caplog.text


def test_a_path_that_names_nothing_is_404_and_the_server_as_a_whole_has_options() -> None:
    for path in ("/v2", "//v1/jobs", "v1/jobs", "/v1/jobs/", "/v1//jobs", "*"):
        response = send(FakeBackend(), "GET", path)
        assert (response.status, problem(response).instance) == (404, path)
    assert send(FakeBackend(), "OPTIONS", "*").status == 204


def test_a_large_answer_says_how_long_it_is() -> None:
    large = ask("job", name="large")
    assert (large.status, large.headers["Content-Length"]) == (200, str(len(large.body)))
    assert len(large.body) > 8_000_000


@pytest.mark.parametrize("resource", ["links", "plan"])
def test_under_must_be_plan_or_ecmp(resource: str) -> None:
    assert orjson.loads(ask(resource).body)["under"] == "plan"
    for under in ("plan", "ecmp"):
        assert orjson.loads(ask(resource, query=f"under={under}").body)["under"] == under
    wrong = problem(ask(resource, query="under=fair"))
    assert (wrong.status, wrong.field, wrong.value) == (400, "under", "fair")


def test_whoami_returns_the_role_of_the_caller() -> None:
    assert orjson.loads(ask("whoami").body) == {"name": "anonymous", "role": "write", "secured": False}
