"""The client returns every response as it is, and one kind of error where there is none."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from emulation.http_client import HttpClient, NoResponseError, ask

Address = tuple[str, int]


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was asked; on ``/v1/events`` with two events, the second only when told to go on."""

    protocol_version = "HTTP/1.1"
    go_on = threading.Event()

    def do_GET(self) -> None:
        if self.path == "/v1/events":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b': comment\n\ndata: {"kind": "first"}\n\n')
            self.go_on.wait(60)
            self.close_connection = True
            return
        if self.path == "/cut":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.close_connection = True
            return
        self._echo()

    do_PUT = do_POST = do_GET

    def _echo(self) -> None:
        length = self.headers["Content-Length"]
        if self.headers["Transfer-Encoding"] == "chunked":
            body = ""
            while size := int(self.rfile.readline(), 16):
                body += f"[{self.rfile.read(size).decode()}]"
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(length or 0)).decode()
        document = {
            "method": self.command,
            "target": self.path,
            "type": self.headers["Content-Type"],
            "token": self.headers["Authorization"],
            "body": body,
        }
        data = json.dumps(document).encode() if self.path != "/text" else b"text"
        self.send_response(404 if self.path == "/missing" else 200)
        self.send_header("Content-Type", "text/plain" if self.path == "/text" else "application/problem+json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[Address]:
    Echo.go_on.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield "127.0.0.1", server.server_port
        Echo.go_on.set()
        server.shutdown()
        thread.join()


def test_a_target_is_sent_as_it_is_and_a_document_as_json(address: Address) -> None:
    answer = ask(address, "PUT", "/v1/../a%2Fb?x=%20y", {"a": [1]})
    wanted = {"method": "PUT", "target": "/v1/../a%2Fb?x=%20y", "type": "application/json", "body": '{"a": [1]}'}
    assert answer.status == 200
    assert answer.body == wanted | {"token": None}
    assert answer.content == json.dumps(answer.body).encode()


@pytest.mark.parametrize(
    ("method", "options", "content_type", "body"),
    [
        ("GET", {}, None, ""),
        ("POST", {}, "application/json", ""),
        ("PUT", {"document": b"{broken"}, "application/json", "{broken"),
        ("POST", {"content": b"x"}, None, "x"),
        ("PUT", {"content": iter([b"ab", b"c"])}, None, "[ab][c]"),
    ],
)
def test_the_type_of_a_body_is_stated_where_it_is_known(
    address: Address, method: str, options: dict[str, Any], content_type: str | None, body: str
) -> None:
    with HttpClient(address, headers={"Authorization": "Bearer x"}) as client:
        got = client.ask(method, "/", **options).body
    assert (got["type"], got["body"], got["token"]) == (content_type, body, "Bearer x")


def test_any_status_is_a_response(address: Address) -> None:
    missing = ask(address, "GET", "/missing")
    assert (missing.status, missing.headers["content-type"]) == (404, "application/problem+json")
    assert missing.headers["ETag"] is None
    assert ask(address, "GET", "/text").body == "text"


@pytest.mark.parametrize(("keep", "new"), [(True, [True, False]), (False, [True, True])])
def test_a_connection_is_used_again_where_it_is_kept(address: Address, keep: bool, new: list[bool]) -> None:
    with HttpClient(address, keep=keep) as client:
        assert [client.ask("GET", "/").on_new_connection for _ in range(2)] == new


def test_no_response_is_an_error_that_says_whether_the_request_was_sent(address: Address) -> None:
    with pytest.raises(NoResponseError) as cut:
        ask(address, "GET", "/cut")
    assert cut.value.sent
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with pytest.raises(NoResponseError) as refused:
        ask(("127.0.0.1", port), "GET", "/")
    assert not refused.value.sent
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(NoResponseError) as late:
        ask(("127.0.0.1", silent.getsockname()[1]), "GET", "/", timeout=0.01)
    assert late.value.sent


def test_a_stream_of_events_ends_when_another_thread_closes_it(address: Address) -> None:
    with HttpClient(address) as client:
        events = client.events()
        assert next(events) == {"kind": "first"}
        rest: list[dict[str, Any]] = []
        reader = threading.Thread(target=lambda: rest.extend(events))
        reader.start()
        events.close()
        reader.join(60)
        assert not reader.is_alive()
        assert rest == []
        with pytest.raises(NoResponseError, match="/missing: 404"):
            client.events("/missing")
