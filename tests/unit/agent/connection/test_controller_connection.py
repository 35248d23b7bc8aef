"""Answers and failures of a controller: a plan, or one clear line."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from agent.connection.controller_connection import ControllerConnection, access
from agent.errors import HostAgentError

SECRET = "s3cret"


class Server(HTTPServer):
    """Gives one answer, and notes what was asked."""

    answer: tuple[int, bytes] = (200, b"{}")
    asked: list[tuple[str, str | None]]
    posted: list[Any]
    encoding = ""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        server.asked.append((self.path, self.headers.get("Authorization")))
        status, body = server.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if server.encoding:
            self.send_header("Content-Encoding", server.encoding)
        self.end_headers()
        self.wfile.write(b"" if status in (204, 304) else body)

    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        server.posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), Handler)
    made.asked, made.posted = [], []
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def url(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


def connection(urls: str) -> ControllerConnection:
    return ControllerConnection("h 1", access(urls, SECRET, None, None, None))


def test_a_plan_is_asked_for_by_host_epoch_and_digest_with_the_token(server: Server) -> None:
    server.answer = (200, json.dumps({"epoch": 8}).encode())
    assert connection(url(server)).plan((7, "0a"), wait_seconds=3) == {"epoch": 8}
    assert connection(url(server)).plan((7, ""), wait_seconds=3) == {"epoch": 8}
    assert connection(url(server)).plan(None, wait_seconds=3) == {"epoch": 8}
    queries = [f"form=table&wait=3{rest}" for rest in ("&after=7&digest=0a", "&after=7", "")]
    assert server.asked == [(f"/v1/hosts/h%201/segments?{query}", f"Bearer {SECRET}") for query in queries]
    server.answer = (304, b"")
    assert connection(url(server)).plan((8, "")) is None


def test_a_report_is_sent_with_the_request_for_a_plan(server: Server) -> None:
    server.answer = (200, json.dumps({"epoch": 8}).encode())
    asked = connection(url(server))
    assert asked.plan((7, "0a"), wait_seconds=3, destinations="ff", report={"epoch": 7}) == {"epoch": 8}
    query = "form=table&wait=3&after=7&digest=0a&destinations=ff"
    assert server.asked == [(f"/v1/hosts/h%201/report?{query}", f"Bearer {SECRET}")]
    assert server.posted == [{"epoch": 7}]
    server.answer = (204, b"")
    assert asked.plan((8, ""), report={"epoch": 8}) is None


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (401, b"", "does not know this token or certificate (401)"),
        (403, b"", "is not that of host h 1 (403)"),
        (404, b'{"detail": "no host has the name h 1"}', "has no host 'h 1' (404): no host has the name h 1"),
        (500, b"<html>\n</html>", "answer 500: <html> </html>"),
        (200, b"hello", "the answer is not JSON; is this a fairspine controller?"),
    ],
)
def test_what_a_controller_refuses_is_one_line(server: Server, status: int, body: bytes, text: str) -> None:
    server.answer = (status, body)
    with pytest.raises(HostAgentError) as error:
        connection(url(server)).plan(None)
    assert text in str(error.value)
    assert "\n" not in str(error.value)


def test_the_next_replica_is_asked_if_one_is_gone(server: Server) -> None:
    gone = HTTPServer(("127.0.0.1", 0), Handler)
    absent = f"http://127.0.0.1:{gone.server_address[1]}"
    gone.server_close()
    asked = connection(f"{absent},{url(server)}")
    assert asked.plan(None) == {}
    assert asked.plan(None) == {}
    with pytest.raises(HostAgentError, match="connection refused; is the controller running"):
        connection(absent).plan(None)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"url": "ftp://x"}, "--url: must be like"),
        ({"url": ""}, "--url: must be like"),
        ({"ca_file": Path("/nowhere")}, "--ca-file /nowhere: No such file"),
        ({"ca_file": Path(__file__)}, "contains no PEM certificates"),
        ({"cert": Path("/nowhere")}, "--cert /nowhere: No such file"),
        ({"cert": Path(__file__)}, "no certificate with its key"),
        ({"key": Path("/nowhere")}, "--key: needs --cert"),
    ],
)
def test_options_that_cannot_be_used_are_named(options: dict[str, Any], text: str) -> None:
    given = {"url": "http://x", "token": None, "ca_file": None, "cert": None, "key": None, **options}
    with pytest.raises(HostAgentError) as error:
        access(**given)
    assert text in str(error.value)
    assert error.value.exit_code == 2


def test_answers_that_gzip_has_made_are_read_and_others_refused(server: Server) -> None:
    server.encoding = "gzip"
    server.answer = (200, gzip.compress(b'{"digest": "0a"}'))
    assert connection(url(server)).table() == {"digest": "0a"}
    assert server.asked[-1][0] == "/v1/hosts/h%201/table"
    server.answer = (200, b"no gzip")
    with pytest.raises(HostAgentError, match="gzip"):
        connection(url(server)).table()
