"""Tokens and TLS over real connections."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from controller.cli.connection.client import Client
from controller.cli.shared.command_error import CommandError
from controller.core.caller import Role
from controller.rest.security.tokens import new_token
from emulation.http_client import NoResponseError
from tests.rig.http.client import ABORT, PATIENCE_SECONDS, Server, serving, until_closed


def certificate(folder: Path, name: str = "127.0.0.1") -> tuple[Path, Path]:
    """A self-signed certificate and its key."""
    if shutil.which("openssl") is None:
        if os.environ.get("CI"):
            pytest.fail("openssl is not installed")
        pytest.skip("openssl is not installed")
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*made, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    return cert, key


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secured(pair: tuple[Path, Path]) -> Iterator[Server]:
    with serving(cert=str(pair[0]), key=str(pair[1]), head_seconds=5, idle_seconds=5, linger_seconds=0.2) as running:
        yield running


def trusting(cert: Path, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(cert))
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context


def test_a_token_lets_in_from_the_moment_it_is_in_the_file_to_the_moment_it_is_not(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    (reader, reads), (writer, writes) = new_token("r", Role.READ), new_token("w", Role.WRITE)

    def keep(*lines: str) -> None:
        new = tmp_path / "new"
        new.write_text("".join(f"{line}\n" for line in lines))
        new.chmod(0o600)
        new.replace(file)

    def status(method: str, target: str, secret: str, body: bytes | None = None) -> int:
        return server.ask(method, target, body, {"Authorization": f"Bearer {secret}"}).status

    keep(reader.line())
    with serving(tokens=str(file)) as server:
        assert server.ask("GET", "/v1/jobs").headers["WWW-Authenticate"] == 'Bearer realm="fairspine"'
        assert server.ask("GET", "/healthz").body == b'{"status":"ok"}'
        assert status("GET", "/v1/jobs", reads) == 200
        assert status("PUT", "/v1/jobs/a", reads, b"{}") == 403
        assert status("PUT", "/v1/jobs/a", writes, b"{}") == 401
        keep(writer.line())
        assert status("PUT", "/v1/jobs/a", writes, b"{}") == 201
        assert status("GET", "/v1/jobs", reads) == 401
        assert server.ask("GET", "/v1/jobs", headers={"Authorization": f"Bearer {writes}"}).body.count(b'"by":"w"') == 1
        keep("broken", writes)
        assert status("GET", "/v1/jobs", writes) == 200
        # What is wrong with a secret in its name's place is told, the secret is not.
        assert server.log.count("the previous tokens remain valid") == 1
        assert status("GET", f"/v1/jobs?token={writes}", writes) == 400
        for secret in (reads, writes):
            assert secret not in server.log


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_requests_are_answered_over_tls(secured: Server, pair: tuple[Path, Path], version: ssl.TLSVersion) -> None:
    with secured.client(tls=trusting(pair[0], version)) as client:
        for method, target, body in (("PUT", "/v1/jobs/a", b"{}"), ("GET", "/v1/jobs/large", None)):
            response = client.ask(method, target, content=body)
            assert response.status in (200, 201)
            assert len(response.content) == int(response.headers["Content-Length"])
    big = b'{"padding": "' + b"x" * 5_000_000 + b'"}'
    assert Client(f"https://127.0.0.1:{secured.port}", ca_file=pair[0]).request(
        "PUT", "jobs", "b", body=big
    ).status in (
        200,
        201,
    )


def test_old_tls_an_untrusted_client_and_plain_http_are_rejected_without_effect_on_others(
    secured: Server, pair: tuple[Path, Path]
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(NoResponseError), secured.client(tls=context) as client:
        client.ask("GET", "/healthz")
    with pytest.raises(CommandError, match="not trusted"):
        Client(f"https://127.0.0.1:{secured.port}").request("GET", "jobs")
    with secured.raw(b"GET /healthz HTTP/1.1\r\nHost: c\r\n\r\n") as plain:
        assert b"HTTP/1.1" not in until_closed(plain)
    with secured.client(tls=trusting(pair[0])) as client:
        assert client.ask("GET", "/healthz").status == 200


def test_clients_that_never_shake_hands_do_not_keep_the_others_waiting_and_are_cut_off(
    secured: Server, pair: tuple[Path, Path]
) -> None:
    with ExitStack() as stack:
        stalled = [
            stack.enter_context(secured.raw(sent)) for sent in (b"", b"\x16\x03", b"\x16\x03\x01\x02\x00\x01") * 10
        ]
        with secured.client(tls=trusting(pair[0])) as client:
            assert client.ask("GET", "/healthz").status == 200
        for each in stalled:
            until_closed(each)
    for sent in (b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n") * 10:
        with secured.raw(sent) as aborted:
            aborted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)


def test_a_renewed_certificate_counts_for_new_connections_and_a_broken_one_does_not(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    (tmp_path / "next").mkdir()
    newer, newer_key = certificate(tmp_path / "next")

    def is_served(wanted: Path) -> bool:
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as plain:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with context.wrap_socket(plain) as client:
                return client.getpeercert(True) == ssl.PEM_cert_to_DER_cert(wanted.read_text())

    first = cert.read_text()
    with serving(cert=str(cert), key=str(key)) as server:
        assert is_served(cert)
        newer_key.replace(key)
        newer.replace(cert)
        assert is_served(cert)
        assert cert.read_text() != first
        served = cert.read_text()
        cert.write_text("broken")
        (tmp_path / "kept.pem").write_text(served)
        assert is_served(tmp_path / "kept.pem")
        assert "the previous one remains in use" in server.log


def test_the_end_of_the_server_is_no_error_of_connections_that_wait_for_a_request(pair: tuple[Path, Path]) -> None:
    with serving(cert=str(pair[0]), key=str(pair[1])) as server:
        idle = [server.client(tls=trusting(pair[0])) for _ in range(4)]
        for client in idle:
            assert client.ask("GET", "/healthz").content
    # ``serving`` has read the log.
    for client in idle:
        client.close()
