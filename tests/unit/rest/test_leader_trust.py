"""What a replica sends to the URL that the store names as the leader's, if that is not another replica."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.caller import Caller, Role
from controller.rest.forwarding import FORWARDED
from controller.rest.problems import ProblemError
from controller.rest.security.peer_trust import PeerTrust
from tests.rig.certificates import Authority, Pair
from tests.unit.rest.asking import Reply, problem, send
from tests.unit.rest.fake import FakeBackend

SECRET = "fs-secret-of-an-operator"
HEADERS = {"Authorization": f"Bearer {SECRET}", "Content-Type": "application/json"}
PATIENCE = 60.0


@contextmanager
def stranger(pair: Pair | None = None) -> Iterator[tuple[int, list[bytes]]]:
    """A machine that takes one connection, by TLS if it has a certificate, and all that it could read of it."""
    got: list[bytes] = []
    taken: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)

        def serve() -> None:
            try:
                client, _ = server.accept()
            except OSError:
                return
            client.settimeout(PATIENCE)
            try:
                if pair is not None:
                    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                    context.load_cert_chain(pair.cert, pair.key)
                    client = context.wrap_socket(client, server_side=True)
                taken.append(client)
                while piece := client.recv(64 * 1024):
                    got.append(piece)
            except OSError:
                pass
            finally:
                client.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1], got
        finally:
            # Wakes a stranger that nobody has connected to, and one whose client still waits for an answer.
            server.shutdown(socket.SHUT_RDWR)
            for client in taken:
                with suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)
            thread.join()


def follower(url: str) -> FakeBackend:
    backend = FakeBackend()
    backend.leader = url
    return backend


class Operator:
    """An access that knows one token."""

    required = True

    def caller(self, authorization: str | None) -> Caller:
        if authorization != f"Bearer {SECRET}":
            raise ProblemError(401, "no token")
        return Caller("ann", Role.WRITE)


def ask(url: str, peers: PeerTrust | None, method: str = "PUT") -> Reply:
    body = b'{"flows": []}' if method == "PUT" else b""
    path = "/v1/events" if method == "EVENTS" else "/v1/jobs/a"
    method = "GET" if method == "EVENTS" else method
    return send(follower(url), method, path, headers=HEADERS, body=body, access=Operator(), peers=peers)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("trust") / "ours")


@pytest.mark.parametrize("method", ["GET", "PUT", "EVENTS"])
@pytest.mark.parametrize("kind", ["plain", "self-signed", "other name", "other authority", "expired"])
def test_a_stranger_at_the_leaders_url_sees_no_token_and_no_request(
    ours: Authority, tmp_path: Path, method: str, kind: str
) -> None:
    peers = PeerTrust(str(ours.own.cert), encrypted=True)
    pair: Callable[[], Pair | None] = {
        "plain": lambda: None,
        "self-signed": lambda: Authority(tmp_path / "stranger").own,
        "other name": lambda: ours.sign("other-name", "DNS:other.example"),
        "other authority": lambda: Authority(tmp_path / "stranger").sign("stranger"),
        "expired": lambda: ours.sign_expired("expired"),
    }[kind]
    with stranger(pair()) as (port, got):
        scheme = "http" if kind == "plain" else "https"
        reply = ask(f"{scheme}://127.0.0.1:{port}", peers, method)
        found = problem(reply)
        assert (found.status, found.type) == (503, "urn:problem-type:fairspine:no-leader")
        assert ("does not use HTTPS" if kind == "plain" else "is not accepted") in found.detail
    assert got == []


def test_a_replica_with_the_right_certificate_gets_the_request(ours: Authority) -> None:
    with stranger(ours.sign("right")) as (port, got):
        thread = threading.Thread(target=ask, args=(f"https://127.0.0.1:{port}", PeerTrust(str(ours.own.cert))))
        thread.daemon = True
        thread.start()
        while SECRET.encode() not in b"".join(got):
            thread.join(0.01)
    # The connection has ended without an answer.
    thread.join()


ODD = st.text(st.sampled_from("a1:[]%\r\n \t\x00é."), max_size=8)
# None of them is a name or an address, which would be looked up or connected to.
NO_HOST = st.sampled_from(
    ["", "/", "//", "//[", "//[::1", "//@", "//:80", "//?x", "//" + "x" * 64, "//a..b:80", "///a"]
)
NO_PORT = st.sampled_from([":99999", ":x", ":-1", ":1e3"])
NO_URL = (
    st.tuples(st.sampled_from(["", "file:", "ftp:", "gopher:", "unix:", "httpx:"]), st.just("//"), ODD)
    | st.tuples(st.sampled_from(["http:", "https:", "HTTP:"]), NO_HOST)
    | st.tuples(st.sampled_from(["http://", "https://a@"]), ODD, NO_PORT)
).map("".join)


@settings(deadline=None)
@given(NO_URL)
def test_a_text_that_is_no_url_is_503_and_never_an_error_of_the_program(url: str) -> None:
    for peers in (None, PeerTrust("")):
        reply = send(follower(url), "GET", "/v1/jobs", peers=peers)
        if not url:
            # Nobody leads.
            assert reply.status == 503
            continue
        found = problem(reply)
        assert (found.status, found.type) == (503, "urn:problem-type:fairspine:no-leader")


def test_who_claims_to_be_a_replica_needs_a_token_as_everybody_and_is_nobody_else() -> None:
    backend = FakeBackend()
    refused = send(backend, "PUT", "/v1/jobs/a", headers={FORWARDED: "1"}, body=b"{}", access=Operator())
    assert refused.status == 401
    # Without tokens, the user of this machine is named; of a request that was passed on, nobody is known.
    named = send(backend, "PUT", "/v1/jobs/a", headers={FORWARDED: "1"}, body=b"{}")
    assert named.status == 201
    assert backend.by["a"] == "anonymous"
