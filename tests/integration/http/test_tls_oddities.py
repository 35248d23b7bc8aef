"""TLS as no client should speak it, and certificates as no server should have them."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from controller.cli.connection.client import Client
from controller.cli.shared.command_error import CommandError
from controller.core.caller import Role
from controller.rest.security.tokens import new_token
from tests.rig.certificates import Authority
from tests.rig.http.client import PATIENCE_SECONDS, Server, serving, until_closed

REQUEST = b"GET /v1/jobs HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def secured(ours: Authority) -> Iterator[Server]:
    pair = ours.sign("server")
    with serving(cert=str(pair.cert), key=str(pair.key), head_seconds=5, idle_seconds=5, linger_seconds=0.2) as made:
        yield made


@pytest.fixture(scope="module")
def plain() -> Iterator[Server]:
    with serving(head_seconds=5, idle_seconds=5, linger_seconds=0.2) as made:
        yield made


def trusting(ours: Authority, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(ours.own.cert))
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context


def works(server: Server, ours: Authority) -> bool:
    with server.client(tls=trusting(ours)) as client:
        return client.ask("GET", "/v1/jobs").status == 200


@pytest.mark.parametrize(
    ("kind", "said"),
    [("expired", "expired"), ("other name", "127.0.0.1"), ("self-signed", "self-signed"), ("stranger", "issuer")],
)
def test_a_command_does_not_talk_to_a_server_with_a_wrong_certificate_and_says_which(
    ours: Authority, tmp_path: Path, kind: str, said: str
) -> None:
    pair = {
        "expired": lambda: ours.sign_expired("expired"),
        "other name": lambda: ours.sign("other-name", "DNS:other.example"),
        "self-signed": lambda: Authority(tmp_path / "own").own,
        "stranger": lambda: Authority(tmp_path / "own").sign("stranger"),
    }[kind]()
    _, secret = new_token("w", Role.WRITE)
    with serving(cert=str(pair.cert), key=str(pair.key)) as server:
        with pytest.raises(CommandError) as refused:
            Client(f"https://127.0.0.1:{server.port}", ca_file=ours.own.cert, token=secret).request("GET", "jobs")
        assert said in str(refused.value)
        assert len(str(refused.value).splitlines()) == 1
        # It has seen no request, so no token.
        assert "GET /v1/jobs" not in server.log


def test_tls_to_the_plain_port_and_plain_http_to_that_of_tls_end_at_once_without_effect(
    secured: Server, plain: Server, ours: Authority
) -> None:
    with plain.raw() as client, pytest.raises((ssl.SSLError, ConnectionError)):
        trusting(ours).wrap_socket(client, server_hostname="127.0.0.1")
    with secured.raw(REQUEST) as client:
        assert b"HTTP/1.1 200" not in until_closed(client)
    with pytest.raises(CommandError) as refused:
        Client(f"https://127.0.0.1:{plain.port}", ca_file=ours.own.cert).request("GET", "jobs")
    assert len(str(refused.value).splitlines()) == 1
    with pytest.raises(CommandError) as refused:
        Client(f"http://127.0.0.1:{secured.port}").request("GET", "jobs")
    assert len(str(refused.value).splitlines()) == 1
    assert works(secured, ours)
    assert plain.ask("GET", "/v1/jobs").status == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_that_closes_its_half_gets_its_answer(
    secured: Server, ours: Authority, version: ssl.TLSVersion
) -> None:
    context = trusting(ours, version)
    with secured.raw() as bare, context.wrap_socket(bare, server_hostname="127.0.0.1") as client:
        client.sendall(REQUEST)
        # The end of TCP in its direction, without a close_notify of TLS.
        socket.socket.shutdown(client, socket.SHUT_WR)
        got = b""
        while piece := client.recv(64 * 1024):
            got += piece
        assert got.startswith(b"HTTP/1.1 200 ")
    assert works(secured, ours)


def test_a_client_that_ends_without_a_word_is_no_error(secured: Server, ours: Authority) -> None:
    for sent in (b"", REQUEST[:20], REQUEST):
        with secured.raw() as bare:
            client = trusting(ours).wrap_socket(bare, server_hostname="127.0.0.1")
            client.sendall(sent)
            client.close()
    assert works(secured, ours)


def test_a_client_cannot_renegotiate(secured: Server, ours: Authority) -> None:
    # Renegotiation costs the server far more than the client (CVE-2011-1473).
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{secured.port}", "-tls1_2", "-CAfile", str(ours.own.cert)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdin is not None
        # A line of R asks for it; the request after it must not be answered.
        process.stdin.write(b"R\n" + REQUEST)
        process.stdin.flush()
        said, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert b"RENEGOTIATING" in said
    assert b"HTTP/1.1 200" not in said.split(b"RENEGOTIATING")[1]
    assert works(secured, ours)


def test_slow_handshakes_are_cut_off_and_keep_nobody_waiting(secured: Server, ours: Authority) -> None:
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = trusting(ours).wrap_bio(back, there, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    sent = there.read()
    with ExitStack() as stack:
        slow = [stack.enter_context(secured.raw(sent[:1])) for _ in range(20)]
        for at in range(1, 12):
            for client in slow:
                try:
                    client.sendall(sent[at : at + 1])
                except OSError:
                    continue
            assert works(secured, ours)
            time.sleep(0.05)
        # Bytes one by one do not prolong the handshake: each is ended by the server, not by this test.
        for client in slow:
            until_closed(client)
    assert works(secured, ours)
