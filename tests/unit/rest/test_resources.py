"""Requests in, responses out, without a server."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.rest import schemas
from controller.rest.messages import Request, Response
from controller.rest.resources import RESOURCES, Resource, answer
from tests.unit.rest.fake import FakeBackend

BY_NAME: Mapping[str, Resource] = {resource.name: resource for resource in RESOURCES}


def ask(
    resource: str,
    method: str = "GET",
    *,
    backend: FakeBackend | None = None,
    name: str = "a",
    query: str = "",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"{}",
) -> Response:
    request = Request(method, "/somewhere", query, {"name": name}, headers or {}, lambda: body)
    return answer(backend or FakeBackend(), BY_NAME[resource], request)


def problem(response: Response) -> schemas.Problem:
    found = schemas.Problem.model_validate_json(response.body)
    assert found.status == response.status
    return found


OPERATIONS = [(resource.name, method) for resource in RESOURCES for method in resource.operations]


@pytest.mark.parametrize(("name", "method"), OPERATIONS)
def test_every_operation_answers_with_a_status_and_document_that_it_declares(name: str, method: str) -> None:
    backend = FakeBackend()
    backend.put_job("a", b"{}")
    operation = BY_NAME[name].operations[method]
    query = "&".join(f"{parameter.name}=h1" for parameter in operation.parameters)
    response = ask(name, method, backend=backend, query=query)
    assert response.status in operation.answers
    model = operation.answers[response.status]
    if model is None:
        assert response.body == b""
    else:
        model.model_validate_json(response.body)


@pytest.mark.parametrize(("name", "method"), OPERATIONS)
def test_every_operation_refuses_a_query_parameter_that_it_does_not_have(name: str, method: str) -> None:
    response = ask(name, method, query="hots=h1")
    assert (response.status, problem(response).field) == (400, "hots")


@pytest.mark.parametrize("name", BY_NAME)
def test_a_method_that_a_resource_lacks_is_405_and_told_which_there_are(name: str) -> None:
    response = ask(name, "PATCH")
    assert (response.status, problem(response).title) == (405, "Method Not Allowed")
    allow = dict(response.headers)["Allow"].split(", ")
    assert set(allow) == {*BY_NAME[name].operations, "HEAD", "OPTIONS"}
    assert ask(name, "OPTIONS") == Response(204, headers=(("Allow", ", ".join(allow)),))
    assert ask(name, "get").status == 405


@pytest.mark.parametrize("name", BY_NAME)
def test_head_is_answered_as_get_is(name: str) -> None:
    assert ask(name, "HEAD", query="host=h1") == ask(name, "GET", query="host=h1")


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


@given(st.text() | st.text("ab.-_/ ", max_size=70))
def test_exactly_the_job_names_of_the_rule_are_taken_before_any_body_is_read(name: str) -> None:
    allowed = re.fullmatch(r"[A-Za-z0-9._-]{1,63}", name) is not None
    for method in ("GET", "PUT", "DELETE"):
        body = (lambda: b"{}") if allowed else must_not_be_read
        response = answer(FakeBackend(), BY_NAME["job"], Request(method, "/p", "", {"name": name}, {}, body))
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
    request = Request("PUT", "/v1/jobs/a", "", {"name": "a"}, headers, must_not_be_read)
    response = answer(FakeBackend(), BY_NAME["job"], request)
    assert (response.status, problem(response).instance) == (415, "/v1/jobs/a")


@pytest.mark.parametrize(
    ("query", "field"), [("", "host"), ("host=h1&host=h2", "host"), ("host=h1&x=", "x"), ("=", "")]
)
def test_routes_need_one_host_and_nothing_else(query: str, field: str) -> None:
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
    assert (response.status, dict(response.headers)["Retry-After"]) == (503, "7")
    assert problem(response).detail == "the fabric is not known yet"


def test_an_exception_outside_the_contract_is_not_dressed_up_as_an_answer() -> None:
    with pytest.raises(ZeroDivisionError):
        ask("job", name="broken")


def test_a_path_that_names_nothing_is_404_and_the_server_as_a_whole_has_options() -> None:
    response = answer(FakeBackend(), None, Request("GET", "/v2"))
    assert (response.status, problem(response).instance) == (404, "/v2")
    assert answer(FakeBackend(), None, Request("OPTIONS", "*")) == Response(204)


def test_the_last_response_of_a_connection_says_so_and_is_as_long_as_it_says() -> None:
    response = ask("job", name="nobody")
    head, body = response.closing_bytes().split(b"\r\n\r\n", 1)
    assert json.loads(body)["status"] == 404
    assert b"Content-Length: %d\r\n" % len(body) in head
    assert head.endswith(b"\r\nConnection: close")
    assert response.closing_bytes(head_only=True) == head + b"\r\n\r\n"
