"""Compressed answers, and answers that a client has already."""

from __future__ import annotations

import gzip
import threading
from typing import Any

import falcon
import falcon.testing
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.ports.api import Document, Under
from controller.rest.operation import JSON
from controller.rest.representation import LARGEST_AT_ONCE, SMALLEST_ZIPPED, represent
from controller.rest.resources import RESOURCES
from tests.unit.rest.asking import BY_NAME, Reply, ask, example_query
from tests.unit.rest.fake import FakeBackend

READ = [r.name for r in RESOURCES if "GET" in r.operations and r.operations["GET"].content_tagged]
ZIPPED = {"Accept-Encoding": "br, gzip;q=0.5"}


class ManyLinks(FakeBackend):
    """Lists ``count`` links."""

    count = 1

    def links(self, under: Under = "plan", since: str | None = None) -> Document:
        told: Any = super().links(under, since)
        return {**told, "links": told["links"] * self.count}


def links(backend: FakeBackend, headers: dict[str, str] | None = None) -> Reply:
    return ask("links", backend=backend, headers=headers, body=b"")


def test_a_large_answer_is_compressed_for_whom_takes_that_and_a_small_one_is_not() -> None:
    backend = ManyLinks()
    assert "Content-Encoding" not in links(backend, ZIPPED).headers
    backend.count = 1000
    plain, zipped = links(backend), links(backend, ZIPPED)
    assert "Content-Encoding" not in plain.headers
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(zipped.body) == plain.body
    assert 10 * len(zipped.body) < len(plain.body)
    assert zipped.headers["Content-Length"] == str(len(zipped.body))
    assert plain.headers["Vary"] == zipped.headers["Vary"] == "Accept-Encoding"
    assert plain.headers["ETag"] == zipped.headers["ETag"]


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("known", ["{}", '"other", {}', "*"])
def test_what_a_client_has_is_not_sent_again(name: str, known: str) -> None:
    backend = FakeBackend()
    ask("job", "PUT", backend=backend)
    query = example_query(BY_NAME[name].operations["GET"])
    first = ask(name, backend=backend, query=query, body=b"")
    tag = first.headers["ETag"]
    again = ask(name, backend=backend, query=query, headers={"If-None-Match": known.format(tag)} | ZIPPED, body=b"")
    assert (again.status, again.body, again.headers["ETag"]) == (304, b"", tag)
    changed = ask(name, backend=backend, query=query, headers={"If-None-Match": '"other"'}, body=b"")
    assert (changed.status, changed.body) == (200, first.body)


def test_a_change_is_sent_although_the_client_has_what_was_before() -> None:
    backend = FakeBackend()
    tag = ask("jobs", backend=backend, body=b"").headers["ETag"]
    ask("job", "PUT", backend=backend)
    assert ask("jobs", backend=backend, headers={"If-None-Match": tag}, body=b"").status == 200


def test_a_job_is_always_sent_because_its_tag_is_of_what_was_pushed() -> None:
    backend = FakeBackend()
    tag = ask("job", "PUT", backend=backend).headers["ETag"]
    again = ask("job", backend=backend, headers={"If-None-Match": tag}, body=b"")
    assert (again.status, again.headers["ETag"]) == (200, tag)


def test_a_strong_tag_is_another_for_the_compressed_bytes_and_both_are_conditions() -> None:
    plain = ask("job", body=b"", name="large")
    zipped = ask("job", body=b"", name="large", headers=ZIPPED)
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert zipped.headers["ETag"] != plain.headers["ETag"]
    assert zipped.headers["ETag"] == plain.headers["ETag"][:-1] + '-gzip"'
    backend = FakeBackend()
    tag = ask("job", "PUT", backend=backend).headers["ETag"]
    compressed = tag[:-1] + '-gzip"'
    assert ask("job", "PUT", backend=backend, headers={"If-None-Match": compressed}).status == 412
    assert ask("job", "DELETE", backend=backend, headers={"If-Match": compressed}, body=b"").status == 204


def test_problems_and_the_health_have_no_tag() -> None:
    unknown = ask("routes", query="host=h9", headers={"If-None-Match": "*"}, body=b"")
    assert unknown.status == 404
    assert "ETag" not in unknown.headers
    assert "ETag" not in ask("health", headers={"If-None-Match": "*"}, body=b"").headers


@given(st.sampled_from([1, SMALLEST_ZIPPED, LARGEST_AT_ONCE, LARGEST_AT_ONCE + 1]), st.booleans(), st.booleans())
def test_only_large_documents_leave_the_event_loop_and_only_if_there_is_work(size: int, zips: bool, tags: bool) -> None:
    offloaded: list[str] = []

    def offload(function: Any, *arguments: Any) -> Any:
        offloaded.append(threading.current_thread().name)
        return function(*arguments)

    response = falcon.Response()
    response.content_type, response.data = JSON, orjson.dumps("x" * (size - 2))[:size]
    accepted = {"Accept-Encoding": "gzip"} if zips else {}
    represent(falcon.Request(falcon.testing.create_environ(headers=accepted)), response, offload, tagged=tags)
    assert bool(offloaded) == (size > LARGEST_AT_ONCE and (zips or tags))
