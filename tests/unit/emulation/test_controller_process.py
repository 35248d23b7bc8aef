"""A controller is started, asked, stopped, killed and started again, whatever starts its process."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulation.controller_process import ControllerProcess, spawn_to
from emulation.errors import LabError

SERVER = """
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        token = self.headers["Authorization"]
        plan = {"active": None if token else {"epoch": 2}, "computed": {"epoch": 2}}
        body = json.dumps({"status": "ok"} if self.path == "/healthz" else plan).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)
server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("started", flush=True)
server.serve_forever()
"""


@pytest.fixture
def port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def process(tmp_path: Path, port: int) -> Iterator[ControllerProcess]:
    command = [sys.executable, "-c", SERVER, str(port)]
    made = ControllerProcess(command, spawn_to(tmp_path / "log", folder=tmp_path), http_port=port)
    yield made
    made.kill()


def test_its_log_goes_on_after_it_was_killed(process: ControllerProcess) -> None:
    assert not process.answers()
    first = process.start().pid
    assert process.start().pid == first, "it runs already"
    assert process.is_well()
    assert process.has_plan()
    assert process.plan_is_active()
    process.kill()
    assert (process.runs, process.is_started, process.answers(), process.is_well()) == (False, False, False, False)
    assert process.start().pid != first
    assert process.log.read_text().count("started") == 2
    assert process.stop() == -signal.SIGTERM


def test_one_that_ends_by_itself_is_not_waited_for(process: ControllerProcess, tmp_path: Path) -> None:
    failing = ControllerProcess([sys.executable, "-c", "print('no'); raise SystemExit(2)"], spawn_to(tmp_path / "log"))
    with pytest.raises(LabError, match=r"(?s)controller ended with status 2 before .*\n  no"):
        failing.start()
    assert (failing.runs, failing.is_started, failing.wait()) == (False, True, 2)
    with pytest.raises(LabError, match="was not started"):
        process.signal(signal.SIGTERM)


def test_a_token_goes_with_every_request(tmp_path: Path, port: int) -> None:
    command = [sys.executable, "-c", SERVER, str(port)]
    process = ControllerProcess(command, spawn_to(tmp_path / "log"), http_port=port, token="x")
    try:
        assert not process.start().plan_is_active()
    finally:
        process.kill()
