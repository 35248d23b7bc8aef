"""HTTP clients that violate the protocol, stall, or disconnect do not affect other clients."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.rig.http.client import ABORT, Server, serving
from tests.rig.http.malformed import MALFORMED, NEXT, statuses
from tests.unit.laws import examples

PUT = b"PUT /v1/jobs/x HTTP/1.1\r\nHost: c\r\nContent-Length: 1000\r\n\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(linger_seconds=0.2) as running:
        yield running
        assert running.ask("GET", "/healthz").status == 200


@pytest.fixture(scope="module")
def narrow_server() -> Iterator[Server]:
    """It has one connection at a time: a second client is only heard when the first is dropped."""
    with serving(connections=1, idle_seconds=0.5, head_seconds=0.5, linger_seconds=0.2) as running:
        yield running


@pytest.fixture(scope="module")
def patient_server() -> Iterator[Server]:
    """It lets a client be idle for as long as usual, but not take long over a head or a body."""
    with serving(head_seconds=0.5, body_seconds=0.5, linger_seconds=0.2) as running:
        yield running


@pytest.mark.parametrize(("sent", "status"), MALFORMED)
def test_what_breaks_the_rules_is_a_problem_and_the_end_of_the_connection(
    server: Server, sent: bytes, status: int
) -> None:
    # What follows a request that nobody can delimit must not be taken for another one.
    received = server.converse(sent + NEXT)
    assert statuses(received) == [status]
    assert b"\r\nContent-Type: application/problem+json\r\n" in received


@pytest.mark.parametrize("end", [b"", b"\r\n", b"\r"])
def test_a_head_that_breaks_off_is_no_request(server: Server, end: bytes) -> None:
    received = server.converse(b"GET /healthz HTTP/1.1\r\nHost: c" + end)
    assert statuses(received) in ([], [400])


def test_a_body_without_length_is_asked_for_and_one_that_breaks_off_is_refused(server: Server) -> None:
    for length, status in ((b"", 411), (b"Content-Length: 5\r\n", 400), (b"Transfer-Encoding: chunked\r\n", 400)):
        received = server.converse(b"PUT /v1/jobs/x HTTP/1.1\r\nHost: c\r\n" + length + b"\r\n")
        assert statuses(received) == [status]


def test_a_client_that_hangs_up_leaves_no_trace_but_its_line(server: Server) -> None:
    for sent, received in (
        (b"", 0),
        (b"GET /hea", 0),
        (PUT + b"{", 0),
        (b"GET /v1/jobs/large HTTP/1.1\r\nHost: c\r\n\r\n", 10),
    ):
        for reset in (False, True):
            with server.raw(sent) as client:
                if received:
                    client.recv(received)
                if reset:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
    assert server.ask("GET", "/healthz").status == 200


def test_three_hundred_stalled_clients_do_not_keep_the_others_waiting(server: Server) -> None:
    stalls = (b"", b"GET /healthz HT", PUT, PUT + b"{", b"GET /v1/jobs/large HTTP/1.1\r\nHost: c\r\n\r\n")
    with contextlib.ExitStack() as stack:
        for number in range(300):
            stack.enter_context(server.raw(stalls[number % len(stalls)], receive_buffer=4096))
        assert server.ask("GET", "/healthz").status == 200
        assert server.ask("PUT", "/v1/jobs/meanwhile", b"{}").status in (200, 201)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /healthz HT",
        b"GET /healthz HTTP/1.1\r\nHost: c\r\n\r\n",
        PUT,
        PUT + b"{",
        b"PUT /v1/jobs/x HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"GET /v1/jobs/large HTTP/1.1\r\nHost: c\r\n\r\n",
    ],
)
def test_a_client_that_stalls_anywhere_is_cut_off(narrow_server: Server, sent: bytes) -> None:
    with narrow_server.raw(sent, receive_buffer=4096):
        assert narrow_server.ask("GET", "/healthz").status == 200


@pytest.mark.parametrize("sent", [b"GET /healthz HTTP/1.1\r\nHost: c\r\nX: ", PUT])
def test_a_client_that_only_drips_is_cut_off_too(patient_server: Server, sent: bytes) -> None:
    with patient_server.raw(sent) as client:
        client.settimeout(0.05)
        # Each drop comes long before a stalled client would be dropped (30 s); the server ends it all the same.
        assert any(is_closed_after(client, b"a") for _ in range(400))


def is_closed_after(client: socket.socket, drop: bytes) -> bool:
    """Whether the server has ended the connection, seen by sending a little and waiting a little."""
    try:
        client.sendall(drop)
        return client.recv(64 * 1024) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_a_server_that_runs_out_of_files_waits_for_some_and_goes_on() -> None:
    with serving(files=12, head_seconds=0.5, idle_seconds=0.5, linger_seconds=0.2) as running:
        with contextlib.ExitStack() as stack:
            for _ in range(12):
                stack.enter_context(running.raw(b"GET /healthz HT"))
            assert running.ask("GET", "/healthz").status == 200
        assert "HTTP cannot accept a connection now: Too many open files" in running.log


METHODS = st.sampled_from([b"GET", b"PUT", b"DELETE", b"HEAD", b"OPTIONS", b"POST", b"CONNECT", b"get", b"G T", b""])
TARGETS = st.sampled_from(
    [
        b"/healthz",
        b"/v1/jobs/a",
        b"/v1/jobs",
        b"/v1/routes?host=h1",
        b"/v1/plan?%",
        b"*",
        b"http://c/v1/links",
        b"//",
        b"c:1",
    ]
) | st.binary(max_size=20)
HEADERS = st.lists(
    st.sampled_from(
        [
            b"Host: c",
            b"Content-Length: 2",
            b"Content-Length: 7",
            b"Transfer-Encoding: chunked",
            b"Connection: close",
            b"Expect: 100-continue",
            b"Content-Type: application/json",
            b"Content-Type: ;",
            b"X-Forwarded-For: \xff",
            b"Host: [::1",
            b"Cookie: a=\x80",
        ]
    )
    | st.binary(max_size=12),
    max_size=5,
)
BODIES = st.sampled_from([b"", b"{}", b"2\r\n{}\r\n0\r\n\r\n", b'{"weight": -1}']) | st.binary(max_size=20)


@st.composite
def conversations(draw: st.DrawFn) -> bytes:
    """Some requests that are nearly right, with a few bytes changed here and there."""
    sent = bytearray()
    for _ in range(draw(st.integers(1, 3))):
        method, target, headers, body = draw(METHODS), draw(TARGETS), draw(HEADERS), draw(BODIES)
        sent += b"\r\n".join([b"%s %s HTTP/1.1" % (method, target), b"Host: c", *headers, b"", body])
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(sent)))
        sent[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(sent)


@settings(max_examples=examples(150, 900), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(conversations() | st.binary(max_size=200))
def test_no_bytes_that_a_client_sends_make_the_server_fail(server: Server, sent: bytes) -> None:
    received = server.converse(sent)
    assert all(status < 500 or status in (501, 505) for status in statuses(received)), received
    assert b"Traceback" not in received
    # A well-formed answer to whatever it was, or none.
    assert received == b"" or received.startswith(b"HTTP/1.1 ")
