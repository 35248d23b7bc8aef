"""Events as a stream of text."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from controller.core.events import Event
from controller.rest import schemas
from controller.rest.events import EventStream, encode
from tests.unit.rest.asking import ask
from tests.unit.rest.fake import FakeBackend

VALUES = st.dictionaries(st.text(max_size=5), st.text() | st.integers(-(2**53), 2**53) | st.none(), max_size=3)


@given(VALUES)
def test_an_event_is_three_lines_whatever_is_in_it(data: dict[str, object]) -> None:
    text = encode(Event("run-7", 0.25, "job", data))
    lines = re.split(rb"\r\n|\r|\n", text)
    assert lines[:2] == [b"id: run-7", b"event: job"]
    assert lines[3:] == [b"", b""]
    document = schemas.EventDocument.model_validate_json(lines[2].removeprefix(b"data: "))
    assert document.data == data
    assert document.at.timestamp() == 0.25


def test_a_stream_begins_at_once_goes_on_with_signs_of_life_and_gives_its_place_back() -> None:
    backend = FakeBackend()
    stream = EventStream(backend.subscribe(None), heartbeat_seconds=0)
    assert next(stream).startswith(b"retry: ")
    assert next(stream) == b": alive\n\n"
    ask("mode", "PUT", backend=backend, body=b'{"mode": "ecmp"}')
    assert next(stream) == encode(backend.events[0])
    stream.close()
    assert [subscription.closed for subscription in backend.subscriptions] == [True]


def test_a_reader_resumes_behind_the_id_that_the_header_or_else_the_query_names() -> None:
    backend = FakeBackend()
    for _ in range(3):
        ask("mode", "PUT", backend=backend, body=b'{"mode": "ecmp"}')
    for query, headers, left in (
        ("after=run-0", {}, 2),
        ("after=run-0", {"last-event-id": "run-1"}, 1),
        ("", {"last-event-id": "run-2"}, 0),
    ):
        stream = ask("events", backend=backend, query=query, headers=headers).stream
        assert stream is not None
        next(iter(stream))
        assert len(backend.subscriptions[-1].wait(0)) == left


def test_an_id_that_cannot_be_one_is_refused() -> None:
    for query, headers in (("after=", {}), ("after=a%20b", {}), ("", {"last-event-id": "\xff"})):
        assert ask("events", query=query, headers=headers).status == 400
