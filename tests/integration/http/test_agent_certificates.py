"""Agents of hosts with certificates in place of tokens, over real TLS."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from agent.connection.controller_connection import ControllerConnection, access
from agent.errors import HostAgentError
from controller.core.caller import Role
from controller.rest.resources.hosts import EXAMPLE_REPORT
from controller.rest.security.tokens import new_token
from emulation.http_client import NoResponseError
from tests.rig.certificates import Authority, Pair
from tests.rig.http.client import Server, serving
from tests.rig.waiting import eventually

JSON = {"Content-Type": "application/json"}
PLAN, REPORT = "/v1/hosts/{}/segments", "/v1/hosts/{}/report"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority of controllers."""
    return Authority(tmp_path_factory.mktemp("servers") / "ca")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority of hosts."""
    return Authority(tmp_path_factory.mktemp("hosts") / "ca")


@pytest.fixture
def secret_and_server(servers: Authority, hosts: Authority, tmp_path: Path) -> Iterator[tuple[str, Server]]:
    token, secret = new_token("reader", Role.READ)
    file, trusted = tmp_path / "tokens", tmp_path / "agents.pem"
    file.write_text(token.line())
    file.chmod(0o600)
    shutil.copy(hosts.own.cert, trusted)
    own = servers.sign("controller")
    with serving(tokens=str(file), cert=str(own.cert), key=str(own.key), agents_ca=str(trusted)) as server:
        yield secret, server


def tls(servers: Authority, own: Pair | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(servers.own.cert))
    if own is not None:
        context.load_cert_chain(own.cert, own.key)
    return context


def test_a_host_with_a_certificate_reads_and_reports_itself_and_nothing_else(
    servers: Authority, hosts: Authority, secret_and_server: tuple[str, Server]
) -> None:
    secret, server = secret_and_server
    reader = {"Authorization": f"Bearer {secret}"}
    report = orjson.dumps(EXAMPLE_REPORT)
    with server.client(tls=tls(servers, hosts.sign("one", "DNS:h1"))) as client:
        assert client.ask("GET", PLAN.format("h1")).status == 200
        assert client.ask("POST", REPORT.format("h1"), content=report, headers=JSON).status == 204
        assert client.ask("GET", "/healthz").content == b'{"status":"ok"}'
        for method, target in (("GET", PLAN.format("h2")), ("GET", "/v1/jobs"), ("PUT", "/v1/jobs/a")):
            refused = client.ask(method, target, content=b"{}" if method == "PUT" else b"", headers=JSON)
            assert refused.status == 403
            assert "the certificate of h1 is that of the agent of host h1" in refused.content.decode()
        # Whoever sends a token has its rights.
        assert client.ask("GET", "/v1/jobs", headers=reader).status == 200
        assert client.ask("GET", PLAN.format("h1"), headers={"Authorization": "Bearer wrong"}).status == 401
    with server.client(tls=tls(servers, hosts.sign("two", "DNS:h1,DNS:h2"))) as client:
        assert {client.ask("GET", PLAN.format(host)).status for host in ("h1", "h2")} == {200}
    # A name of another kind, or only like that of a host, is none.
    for name, subject in (("ip", "IP:127.0.0.1"), ("h1", "DNS:*.h1"), ("mail", "email:h1")):
        with server.client(tls=tls(servers, hosts.sign(name, subject))) as client:
            assert client.ask("GET", PLAN.format("h1")).status in (401, 403)
    with server.client(tls=tls(servers, None)) as client:
        assert client.ask("GET", PLAN.format("h1")).status == 401
        assert client.ask("GET", "/v1/jobs", headers=reader).status == 200


def test_certificates_of_others_and_old_ones_are_refused(
    servers: Authority, hosts: Authority, secret_and_server: tuple[str, Server]
) -> None:
    _, server = secret_and_server
    for own in (servers.sign("forged", "DNS:h1"), hosts.sign_expired("old", "DNS:h1")):
        with pytest.raises(NoResponseError), server.client(tls=tls(servers, own)) as client:
            client.ask("GET", PLAN.format("h1"))


def test_the_agent_shows_its_certificate_and_other_authorities_count_without_a_restart(
    servers: Authority, hosts: Authority, secret_and_server: tuple[str, Server], tmp_path: Path
) -> None:
    _, server = secret_and_server
    own = hosts.sign("agent", "DNS:h1")

    def plan(host: str) -> str:
        known = access(f"https://127.0.0.1:{server.port}", None, servers.own.cert, own.cert, own.key)
        connection = ControllerConnection(host, known)
        try:
            document: dict[str, str] = connection.plan(None, wait_seconds=0) or {}
            return document["host"]
        except HostAgentError as error:
            return str(error)
        finally:
            connection._drop()

    assert plan("h1") == "h1"
    assert "is not that of host h2 (403)" in plan("h2")
    new = tmp_path / "new.pem"
    shutil.copy(servers.own.cert, new)
    new.replace(tmp_path / "agents.pem")
    eventually(lambda: plan("h1") != "h1", "the authority of hosts is no longer trusted", shown=lambda: plan("h1"))
