"""A replica that does not lead its cluster passes requests on, and answers itself what every replica knows."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from controller.core.change_number import ChangeNumber
from controller.model.errors import UnavailableError
from controller.rest import conditions, forwarding
from controller.rest.forwarding import CHANGE, FORWARDED
from controller.rest.operation import EVENT_STREAM
from controller.rest.problems import unavailable
from controller.rest.resources import RESOURCES
from controller.rest.serving import relayed_stream
from controller.rest.serving.budget import Share
from tests.unit.cli.connection.listeners import whole_request
from tests.unit.cli.fake_controller import Controller, serving
from tests.unit.rest.asking import BY_NAME, VARIABLES, ask, example_query, problem
from tests.unit.rest.fake import FakeBackend

OPERATIONS = [(resource.name, method) for resource in RESOURCES for method in resource.operations]
OF_REPLICA = {("cluster", "GET"), ("health", "GET"), ("metrics", "GET"), ("openapi", "GET")}
UNCONFIRMED = {("serviceHealth", "GET"), ("events", "GET")}
GONE = "http://127.0.0.1:1"
AT_LEAST = conditions.AT_LEAST.name


@pytest.fixture
def leader() -> Iterator[Controller]:
    one = Controller()
    with serving(one):
        yield one


def follower(leader: str) -> FakeBackend:
    backend = FakeBackend()
    backend.leader = leader
    return backend


def path(name: str) -> str:
    return BY_NAME[name].path.format(**VARIABLES)


@contextmanager
def saying(answer: bytes, *, then: Callable[[], object] = lambda: None) -> Iterator[str]:
    """A leader that receives one request, says this, and closes the connection after ``then``."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)  # a request that never comes fails its test, and only that

        def serve() -> None:
            client, _ = server.accept()
            with client:
                whole_request(client)
                client.sendall(answer)
                then()

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(("name", "method"), OPERATIONS)
def test_a_follower_answers_itself_or_as_the_leader_does(leader: Controller, name: str, method: str) -> None:
    operation = BY_NAME[name].operations[method]
    if operation.relayed:
        # As a leader of an earlier version, which does not know requests of several agents.
        leader.lay_out((404, {}))
    leader.lay_out((200, {"of": "the leader"}))
    leader.content_type = "application/json"
    reply = ask(name, method, backend=follower(leader.url), query=example_query(operation))
    if (name, method) in OF_REPLICA:
        assert (reply.status, leader.asked) == (200, [])
        return
    assert (leader.asked[-1][0], leader.asked[-1][1].partition("?")[0]) == (method, path(name))
    assert (reply.status, reply.media_type) == (200, "application/json")
    assert reply.body == b'{"of": "the leader"}'


def test_query_body_token_and_conditions_pass_and_headers_of_browsers_do_not(leader: Controller) -> None:
    leader.lay_out((201, {}), (200, {}))
    sent = {"Content-Type": "application/json", "Authorization": "Bearer s", "If-Match": '"r1"', "Cookie": "a=b"}
    reply = ask("job", "PUT", backend=follower(leader.url), headers=sent, body=b'{"flows": []}')
    assert reply.status == 201
    assert leader.asked[0] == ("PUT", "/v1/jobs/a", b'{"flows": []}')
    got = leader.headers[0]
    assert (got["Authorization"], got["If-Match"], got["Content-Type"]) == ("Bearer s", '"r1"', "application/json")
    assert FORWARDED in got
    assert "Cookie" not in got
    ask("history", backend=follower(leader.url), query="limit=3", headers={"Accept": "application/json"})
    assert leader.asked[1][1] == "/v1/plans?limit=3"


@pytest.mark.parametrize("status", [304, 404, 409, 412, 503])
def test_refusals_of_the_leader_are_those_of_the_follower(leader: Controller, status: int) -> None:
    document = b"" if status == 304 else {"type": "about:blank", "title": "t", "status": status, "detail": "d"}
    leader.lay_out((status, document))
    leader.content_type = "application/problem+json"
    reply = ask("jobs", backend=follower(leader.url))
    assert reply.status == status
    assert status == 304 or problem(reply).detail == "d"


def test_the_head_of_an_answer_of_the_leader_has_its_length() -> None:
    with saying(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n") as url:
        reply = ask("jobs", "HEAD", backend=follower(url))
    assert (reply.status, reply.headers["Content-Length"], reply.body) == (200, "17", b"")


def test_what_is_wrong_with_a_request_is_said_without_the_leader(leader: Controller) -> None:
    assert ask("history", backend=follower(leader.url), query="limit=x").status == 400
    assert leader.asked == []


def test_a_follower_passes_nothing_on_for_clients_with_certificates_only(leader: Controller) -> None:
    for name, method in (("segments", "GET"), ("host_report", "POST")):
        reply = ask(name, method, backend=follower(leader.url), certified=("h1",), host="h1")
        assert (reply.status, problem(reply).type) == (503, "urn:problem-type:fairspine:no-leader")
        assert "agents with certificates are answered by the leader" in problem(reply).detail
    assert leader.asked == []


@pytest.mark.parametrize("url", ["", GONE])
def test_a_follower_without_a_leader_says_so(url: str) -> None:
    for method in ("GET", "PUT"):
        reply = ask("job", method, backend=follower(url))
        found = problem(reply)
        assert (found.status, found.type) == (503, "urn:problem-type:fairspine:no-leader")
        assert reply.headers["Retry-After"] == "1"
    assert ask("cluster", backend=follower(url)).status == 200


@pytest.mark.parametrize(
    ("leads", "gone", "reason"),
    [
        (GONE, True, "the client has closed its connection"),
        ("", False, "no replica leads now"),
        ("http://other", False, "another replica leads now"),
    ],
)
def test_a_follower_waits_for_the_leader_no_longer_than_it_leads_and_the_client_is_there(
    monkeypatch: pytest.MonkeyPatch, leads: str, gone: bool, reason: str
) -> None:
    monkeypatch.setattr(forwarding, "LOOK_SECONDS", 0.01)
    near, far = socket.socketpair()
    with near, far:
        connection: Any = SimpleNamespace(sock=near)
        answering = forwarding._Answering(connection, lambda: leads, GONE, 60.0)
        answering.gone = lambda: gone
        with pytest.raises(TimeoutError, match=reason):
            answering.readinto(bytearray(1))


def test_a_request_is_passed_on_once(leader: Controller) -> None:
    found = problem(ask("jobs", backend=follower(leader.url), headers={FORWARDED: "1"}))
    assert found.type == "urn:problem-type:fairspine:no-leader"
    assert leader.asked == []


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\n{}", b"SSH-2.0\r\n\r\n"])
def test_a_change_whose_answer_is_lost_has_an_unknown_outcome_and_a_read_can_be_repeated(answer: bytes) -> None:
    with saying(answer) as url:
        found = problem(ask("job", "PUT", backend=follower(url)))
    assert (found.status, found.type) == (502, "urn:problem-type:fairspine:outcome-unknown")
    with saying(answer) as url:
        found = problem(ask("job", "GET", backend=follower(url)))
    assert (found.status, found.type) == (503, "urn:problem-type:fairspine:no-leader")


def test_an_answer_for_which_there_is_no_memory_leaves_the_outcome_of_a_change_unknown(
    leader: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(share: Share, amount: int) -> None:
        raise unavailable("the memory is in use")

    monkeypatch.setattr(Share, "take_bytes", full)
    leader.lay_out((200, {"of": "the leader"}), (200, {"of": "the leader"}))
    found = problem(ask("job", "DELETE", backend=follower(leader.url)))
    assert (found.status, found.type) == (502, "urn:problem-type:fairspine:outcome-unknown")
    assert "could not be received: the memory is in use" in found.detail
    assert problem(ask("job", "GET", backend=follower(leader.url))).status == 503


def test_a_client_does_not_wait_for_a_leader_that_was_replaced() -> None:
    end = threading.Event()

    def replaced() -> None:
        backend.leader = "http://another:1"
        end.wait()

    with saying(b"", then=replaced) as url:
        backend = follower(url)
        try:
            found = problem(ask("job", "PUT", backend=backend))
        finally:
            end.set()
    assert found.type == "urn:problem-type:fairspine:outcome-unknown"


def test_a_client_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "ANSWER_SECONDS", 0.3)
    end = threading.Event()
    with saying(b"", then=end.wait) as url:
        try:
            found = problem(ask("job", "DELETE", backend=follower(url)))
        finally:
            end.set()
    assert found.type == "urn:problem-type:fairspine:outcome-unknown"


STREAM = f"HTTP/1.1 200 OK\r\nContent-Type: {EVENT_STREAM}\r\nConnection: close\r\n\r\n".encode()
REFUSED = b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"


@contextmanager
def streaming(*answers: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A leader that gives one of these answers to each connection in turn; the requests that it has received."""
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)

        def serve() -> None:
            for answer in answers:
                client, _ = server.accept()
                with client:
                    requests.append(whole_request(client))
                    client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", requests
        thread.join()


def relayed(backend: FakeBackend, headers: Mapping[str, str], then: Callable[[bytes], None]) -> list[bytes]:
    """The pieces of a stream of events; ``then`` is called with each."""
    reply = ask("events", backend=backend, headers=headers)
    assert (reply.status, reply.media_type) == (200, EVENT_STREAM)
    assert reply.stream is not None
    pieces = []
    for piece in reply.stream:
        pieces.append(piece)
        then(piece)
    return pieces


def test_the_events_of_one_leader_after_the_other_are_relayed_in_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relayed_stream, "LOOK_SECONDS", 0.01)
    first = STREAM + b"retry: 2000\n\nid: 1-1\ndata: {}\n\nid: 1-2\nda"
    other = STREAM + b"id: 2-1\ndata: {}\n\n"
    with streaming(first, REFUSED, other) as (url, requests):
        backend = follower(url)

        def then(piece: bytes) -> None:
            if b"id: 2-1" in piece:
                # This replica leads now: clients connect to it again.
                backend.leader = None

        pieces = relayed(backend, {"Last-Event-ID": "1-0", "Authorization": "Bearer s"}, then)
    known = b"retry: 2000\n\nid: 1-1\ndata: {}\n\n"
    assert b"".join(pieces) == known + b": no replica leads\n\n" + b"id: 2-1\ndata: {}\n\n"
    assert [re.findall(rb"Last-Event-ID: (\S+)", each) for each in requests] == [[b"1-0"], [b"1-1"], [b"1-1"]]
    assert all(b"Authorization: Bearer s" in each for each in requests)


def test_a_client_that_knows_no_event_is_told_to_read_all_again_by_the_next_leader() -> None:
    with streaming(STREAM, STREAM + b": a\n\n") as (url, requests):
        backend = follower(url)
        relayed(backend, {}, lambda piece: setattr(backend, "leader", None))
    assert b"Last-Event-ID" not in requests[0]
    assert b"Last-Event-ID: none" in requests[1]


def test_a_stream_ends_if_nobody_leads_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relayed_stream, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(relayed_stream, "WAIT_SECONDS", 0.1)
    with streaming(STREAM + b": a\n\n") as (url, _):
        backend = follower(url)
        pieces = relayed(backend, {}, lambda piece: setattr(backend, "leader", ""))
    assert pieces[0] == b": a\n\n"
    assert set(pieces[1:]) == {b": no replica leads\n\n"}


def test_a_leader_that_refuses_the_callers_token_ends_the_stream() -> None:
    with streaming(STREAM, b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n") as (url, _):
        assert relayed(follower(url), {}, lambda piece: None) == []


OF_STORE = ["job", "jobs", "job_shift", "schedule", "drain", "mode"]


@pytest.mark.parametrize("name", OF_STORE)
@pytest.mark.parametrize("url", ["", GONE])
def test_a_follower_answers_reads_of_changes_that_it_knows_also_without_a_leader(name: str, url: str) -> None:
    backend = follower(url)
    backend.change, backend.bodies["a"] = ChangeNumber(4, 51), b"{}"
    for known in ("4-51", "3-99", "0-0"):
        reply = ask(name, backend=backend, headers={AT_LEAST: known})
        assert (reply.status, reply.headers[CHANGE]) == (200, "4-51")
    for newer in ("4-52", "5-1"):
        assert problem(ask(name, backend=backend, headers={AT_LEAST: newer})).type.endswith("no-leader")
    for headers in ({}, {AT_LEAST: ""}):
        assert problem(ask(name, backend=backend, headers=headers)).type.endswith("no-leader")


def test_only_reads_of_the_store_are_answered_by_followers() -> None:
    found = {
        resource.name
        for resource in RESOURCES
        for method, operation in resource.operations.items()
        if operation.of_store and method == "GET"
    }
    assert found == set(OF_STORE)
    assert not any(
        operation.of_store
        for resource in RESOURCES
        for method, operation in resource.operations.items()
        if method != "GET"
    )


def test_a_follower_passes_on_what_it_does_not_know_and_only_once(leader: Controller) -> None:
    leader.lay_out((200, {"of": "the leader"}))
    leader.content_type = "application/json"
    backend = follower(leader.url)
    backend.change = ChangeNumber(4, 51)
    assert ask("jobs", backend=backend, headers={AT_LEAST: "4-52"}).body == b'{"of": "the leader"}'
    assert leader.headers[0][AT_LEAST] == "4-52"
    refused = problem(ask("jobs", backend=backend, headers={AT_LEAST: "4-1", FORWARDED: "1"}))
    assert refused.type.endswith("no-leader")


def test_a_missing_job_is_answered_with_the_change_that_is_known() -> None:
    backend = follower(GONE)
    backend.change = ChangeNumber(4, 51)
    reply = ask("job", backend=backend, headers={AT_LEAST: "1-1"})
    assert (reply.status, reply.headers[CHANGE]) == (404, "4-51")


@pytest.mark.parametrize("text", ["51", "4-", "4-51-1", "-1-2", "4-51x", "1" * 5000 + "-1", "1" * 100 + "-1"])
def test_a_change_number_of_another_form_is_refused(text: str) -> None:
    found = problem(ask("jobs", headers={AT_LEAST: text}))
    assert (found.status, found.field) == (400, AT_LEAST)


def test_a_leader_tells_the_change_of_each_answer_and_waits_for_those_that_it_does_not_know() -> None:
    backend = FakeBackend()
    backend.change = ChangeNumber(4, 51)
    assert ask("job", "PUT", backend=backend, body=b"{}").headers[CHANGE] == "4-51"
    assert ask("jobs", backend=backend, headers={AT_LEAST: "4-51"}).status == 200
    found = problem(ask("jobs", backend=backend, headers={AT_LEAST: "4-52"}))
    assert (found.status, found.detail) == (503, "change 4-52 is not known here")
    assert CHANGE not in ask("health", backend=backend).headers
    assert CHANGE not in ask("cluster", backend=backend).headers


def test_a_single_controller_has_no_change_numbers() -> None:
    reply = ask("jobs", headers={AT_LEAST: "9-9"})
    assert reply.status == 200
    assert CHANGE not in reply.headers


@pytest.mark.parametrize(("name", "method"), OPERATIONS)
def test_a_leader_answers_nothing_once_another_one_leads(name: str, method: str) -> None:
    backend = FakeBackend()
    backend.confirmed = False
    reply = ask(name, method, backend=backend, query=example_query(BY_NAME[name].operations[method]))
    if (name, method) in OF_REPLICA | UNCONFIRMED:
        assert reply.status == 200
    else:
        assert problem(reply).type == "urn:problem-type:fairspine:no-leader"


def test_a_leader_without_its_store_answers_nothing_that_may_have_changed() -> None:
    backend = FakeBackend()
    backend.confirmed = UnavailableError("the store has not answered for 1 s")
    read, change = problem(ask("job", backend=backend)), problem(ask("job", "DELETE", backend=backend))
    assert (read.status, read.type) == (503, "urn:problem-type:fairspine:unavailable")
    assert (change.status, change.type) == (503, "urn:problem-type:fairspine:storage")
    assert read.detail == change.detail == "the store has not answered for 1 s"


def test_a_single_controller_answers_everything() -> None:
    assert ask("jobs").status == 200
    assert ask("cluster").status == 200
