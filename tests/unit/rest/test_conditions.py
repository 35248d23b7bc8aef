"""If-Match and If-None-Match."""

from __future__ import annotations

from collections.abc import Mapping

import falcon.testing
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.errors import PreconditionFailedError
from controller.core.ports.api import Condition, etag
from controller.rest.conditions import condition
from tests.unit.rest.asking import ask, problem
from tests.unit.rest.fake import FakeBackend

REVISIONS = st.text("ab1._-", min_size=1, max_size=3)


def wanted(headers: Mapping[str, str]) -> Condition:
    # As eventlet hands headers on: without the space around them.
    return condition(falcon.testing.create_req(headers={name: value.strip() for name, value in headers.items()}))


def holds(headers: Mapping[str, str], revision: str | None) -> bool:
    try:
        wanted(headers).check(revision)
    except PreconditionFailedError as error:
        assert error.revision == revision
        return False
    return True


@given(st.lists(REVISIONS, min_size=1, max_size=3), st.none() | REVISIONS)
def test_if_match_holds_for_a_listed_revision_and_if_none_match_for_any_other_and_for_no_job(
    listed: list[str], revision: str | None
) -> None:
    tags = ", ".join(map(etag, listed))
    assert holds({"if-match": tags}, revision) == (revision in listed)
    assert holds({"if-none-match": tags}, revision) == (revision not in listed)


@given(st.none() | REVISIONS)
def test_a_star_means_any_job(revision: str | None) -> None:
    assert holds({"if-match": "*"}, revision) == (revision is not None)
    assert holds({"if-none-match": " * "}, revision) == (revision is None)


def test_weak_tags_are_equal_only_where_weak_comparison_will_do() -> None:
    assert not holds({"if-match": 'W/"a"'}, "a")
    assert holds({"if-match": 'W/"a", "a"'}, "a")
    assert not holds({"if-none-match": 'W/"a"'}, "a")


@pytest.mark.parametrize("text", ["", "a b", '"a', '"a" "b"', '*, "a"', '"a",', "W/a", 'w/"a"', '"a\x80"'])
@pytest.mark.parametrize("header", ["If-Match", "If-None-Match"])
def test_a_malformed_list_is_400_and_names_the_header(header: str, text: str) -> None:
    refused = ask("job", "PUT", headers={header: text})
    assert (refused.status, problem(refused).field) == (400, header)


@given(REVISIONS, REVISIONS)
def test_a_revision_may_lack_its_quotes(given_one: str, revision: str) -> None:
    assert holds({"if-match": given_one}, revision) == (given_one == revision)
    assert holds({"if-none-match": given_one}, revision) == (given_one != revision)


def test_no_header_is_no_condition() -> None:
    assert wanted({}) == Condition()
    assert holds({}, None)
    assert holds({}, "a")


def test_a_job_is_replaced_and_deleted_only_as_it_was_read() -> None:
    backend = FakeBackend()
    made = ask("job", "PUT", backend=backend, headers={"if-none-match": "*"}).headers["ETag"]
    assert ask("job", "PUT", backend=backend, headers={"if-none-match": "*"}).status == 412
    changed = ask("job", "PUT", backend=backend, headers={"if-match": made}, body=b'{"weight": 2}')
    newer = changed.headers["ETag"]
    assert changed.status == 200
    assert newer != made
    refused = ask("job", "DELETE", backend=backend, headers={"if-match": made})
    assert (refused.status, refused.headers["ETag"]) == (412, newer)
    assert backend.bodies == {"a": b'{"weight": 2}'}
    assert ask("job", "DELETE", backend=backend, headers={"if-match": newer}).status == 204
    assert ask("job", "DELETE", backend=backend, headers={"if-match": "*"}).status == 412
