"""Limits on all HTTP clients together: memory, work, streams and connections; and delivery of events."""

from __future__ import annotations

import json
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from controller.cli.connection.client import Client, ServerEvent
from tests.rig.http.client import Server, serving, until_closed
from tests.rig.waiting import eventually

MIB = 1024 * 1024


def put(name: bytes, size: int) -> bytes:
    return b"PUT /v1/jobs/%s HTTP/1.1\r\nHost: c\r\nContent-Length: %d\r\n\r\n" % (name, size)


def test_bodies_of_all_clients_share_one_budget_and_what_is_only_announced_takes_none_of_it() -> None:
    # Changes have half of it, and one client half of that.
    with serving(total_bytes=12 * MIB, linger_seconds=0.2) as server, ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(server.raw(put(b"announced", 16 * MIB)))
        for _ in range(2):
            stack.enter_context(server.raw(put(b"held", MIB + 1) + b"x" * MIB))
        two_more = b'{"padding": "' + b"x" * 2 * MIB + b'"}'
        eventually(lambda: server.ask("PUT", "/v1/jobs/a", two_more).status == 503, "two clients hold two thirds")
        refused = server.ask("PUT", "/v1/jobs/a", two_more)
        assert (refused.problem["status"], refused.headers["Retry-After"]) == (503, "1")
        assert server.ask("PUT", "/v1/jobs/a", b"{}").status == 201
        stack.close()
        eventually(lambda: server.ask("PUT", "/v1/jobs/b", two_more).status in (200, 201), "they have gone")


def test_unread_responses_count_too_and_a_large_one_succeeds_when_it_is_alone() -> None:
    with serving(total_bytes=2 * MIB) as server:
        assert len(server.ask("GET", "/v1/jobs/large").body) == 8_000_014
        with server.raw(b"GET /v1/jobs/large HTTP/1.1\r\nHost: c\r\n\r\n", receive_buffer=4096):
            eventually(lambda: server.ask("GET", "/v1/jobs/large").status == 503, "one client holds all of it")
            assert server.ask("GET", "/healthz").status == 200
        eventually(lambda: server.ask("GET", "/v1/jobs/large").status == 200, "it has gone")


def test_more_requests_than_can_be_worked_on_at_once_are_put_off_but_health_is_not() -> None:
    with serving(requests=4) as server, ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(server.raw(b"GET /v1/jobs/slow HTTP/1.1\r\nHost: c\r\n\r\n" * 20))
        eventually(lambda: server.ask("GET", "/v1/plan").status == 503, "both places are taken")
        assert server.ask("GET", "/healthz").status == 200
        # Changes have places of their own, and the other way round.
        assert server.ask("PUT", "/v1/jobs/a", b"{}").status == 201
        stack.close()
        eventually(lambda: server.ask("GET", "/v1/plan").status == 200, "both are free again")


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_a_thousand_stalled_clients_leave_the_interface_answering() -> None:
    stalls = (b"", b"GET /healthz HT", put(b"x", 1000), put(b"x", 1000) + b"{")
    with serving(linger_seconds=0.2, streams=600) as server, ExitStack() as stack:
        for number in range(1000):
            readers = b"GET /v1/events HTTP/1.1\r\nHost: c\r\n\r\n"
            stack.enter_context(server.raw(readers if number % 5 == 0 else stalls[number % 4]))
        for target in ("/healthz", "/v1/plan", "/v1/jobs"):
            assert server.ask("GET", target).status == 200
        assert server.ask("PUT", "/v1/jobs/meanwhile", b"{}").status == 201


def test_at_the_limit_the_connection_that_is_idle_for_longest_is_closed() -> None:
    with serving(connections=20) as server, ExitStack() as stack:
        idle = [stack.enter_context(server.raw(b"GET /healthz HT")) for _ in range(40)]
        # Each is cut off after 30 s at the earliest unless the place is needed.
        assert server.ask("GET", "/healthz").status == 200
        for client in idle[:10]:
            assert until_closed(client) == b""
        idle[-1].sendall(b"TP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n")
        assert until_closed(idle[-1]).startswith(b"HTTP/1.1 200 ")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(streams=4) as running:
        yield running


def test_events_come_as_they_happen_and_are_resumed_without_a_gap(server: Server) -> None:
    client = Client(f"http://127.0.0.1:{server.port}")
    seen: list[ServerEvent] = []
    events = client.events()

    def read() -> None:
        seen.extend(next(events) for _ in range(2))

    reader = threading.Thread(target=read)
    reader.start()
    # The first events may come before the reader is there: go on until it has two.
    eventually(
        lambda: (client.request("PUT", "mode", body=b'{"mode": "ecmp"}'), not reader.is_alive())[1], "two events"
    )
    reader.join()
    events.close()
    assert [event.kind for event in seen] == ["mode", "mode"]
    again = client.events(after=seen[0].id)
    assert next(again) == seen[1]
    again.close()


def test_a_stream_says_what_it_is_and_head_does_not_wait_for_it() -> None:
    with serving() as server:
        head = server.ask("HEAD", "/v1/events")
        assert (head.status, head.headers["Content-Type"], head.body) == (200, "text/event-stream", b"")
        assert "Content-Length" not in head.headers
        with server.raw(b"GET /v1/events HTTP/1.1\r\nHost: c\r\n\r\n") as client, client.makefile("rb") as stream:
            lines = [stream.readline() for _ in range(8)]
        assert b"Content-Type: text/event-stream\r\n" in lines
        assert b"Transfer-Encoding: chunked\r\n" in lines
        with server.raw(b"GET /v1/events HTTP/1.0\r\n\r\n") as client, client.makefile("rb") as stream:
            assert b"retry: 2000\n" in [stream.readline() for _ in range(9)]


def test_readers_of_events_are_bounded_and_one_that_goes_makes_room(server: Server) -> None:
    asked = b"GET /v1/events HTTP/1.1\r\nHost: c\r\n\r\n"

    def is_taken(client: socket.socket) -> bool:
        return client.recv(12) == b"HTTP/1.1 200"

    def taken() -> bool:
        with server.raw(asked) as client:
            return is_taken(client)

    def nudge() -> None:
        # A reader that has gone is noticed when there is something to tell it.
        server.ask("PUT", "/v1/mode", json.dumps({"mode": "planned"}).encode())

    eventually(lambda: (nudge(), taken())[1], "the readers of other tests have gone")
    with ExitStack() as stack:
        readers = []
        while len(readers) < 2:
            client = stack.enter_context(server.raw(asked))
            if is_taken(client):
                readers.append(client)
            nudge()
        refused = server.ask("GET", "/v1/events")
        assert (refused.problem["status"], refused.headers["Retry-After"]) == (503, "1")
    eventually(lambda: (nudge(), taken())[1], "both have gone")
