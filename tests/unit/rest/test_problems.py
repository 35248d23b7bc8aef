"""Every error becomes a problem document that any JSON reader can parse."""

from __future__ import annotations

import json
import math
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError, NotFoundError, UnavailableError
from controller.rest import schemas
from controller.rest.problems import ProblemError, bad_input, from_error, internal

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.text(st.characters(), max_size=200)
    | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


@given(st.text(max_size=50), st.text(max_size=50), VALUES, st.booleans())
def test_any_bad_input_gives_a_valid_problem_of_bounded_size(
    reason: str, field: str, value: object, has_body: bool
) -> None:
    error = from_error(InputError(reason, field=field, value=value), has_body=has_body)
    body = error.body("/v1/jobs/a")
    document = json.loads(body, parse_constant=refuse_constant)
    problem = schemas.Problem.model_validate(document)
    assert problem.status == error.status == (422 if has_body and field else 400)
    assert (problem.detail, problem.instance, problem.field or "") == (reason, "/v1/jobs/a", field)
    assert ("value" in document) == (value is not None)
    assert len(body) < 3000


@given(st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_quoted_as_it_is(value: float) -> None:
    document = json.loads(bad_input("wrong", field="weight", value=value).body())
    assert document["value"] == value
    assert type(document["value"]) is type(value)


def test_a_value_that_json_cannot_hold_is_quoted_in_words() -> None:
    for value, shown in ((math.nan, "nan"), (-math.inf, "-inf"), (10**30, "1" + "0" * 30)):
        document = json.loads(bad_input("wrong", field="bytes", value=value).body())
        assert document["value"] == shown


def test_a_thing_that_is_not_there_is_named() -> None:
    problem = from_error(NotFoundError("host", "h99"), has_body=False)
    assert (problem.status, problem.members) == (404, {"field": "host", "value": "h99"})
    assert "h99" in problem.detail


def test_what_is_not_available_says_when_to_ask_again() -> None:
    problem = from_error(UnavailableError("no switch is connected", retry_after_seconds=3), has_body=True)
    assert problem.status == 503
    assert problem.headers == {"Retry-After": "3"}


def test_an_internal_error_shows_only_its_id() -> None:
    document = json.loads(internal("0a1b2c3d").body("/v1/plan"))
    assert document["error_id"] == "0a1b2c3d"
    assert schemas.Problem.model_validate(document).status == 500


@pytest.mark.parametrize("status", [400, 404, 405, 408, 411, 413, 414, 415, 417, 431, 501, 505])
def test_a_problem_without_a_type_bears_its_status_as_title(status: int) -> None:
    document = json.loads(ProblemError(status, "why").body())
    assert document == {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": "why",
    }
