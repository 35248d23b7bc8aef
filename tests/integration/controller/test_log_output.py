"""The log of a real ``ryu-manager``: text, JSON, syslog, and the id of one request through all of it."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.rig.http.client import Server
from tests.rig.launcher import refused
from tests.rig.page.dashboard import flows
from tests.rig.real_controller import controller
from tests.rig.waiting import READY_SECONDS, eventually

# What a client chooses: a line of its own, a terminal's escape sequence, text that runs from right to left.
HOSTILE = "a\n2026-01-01T00:00:00.000Z error fairspine: forged \x1b[2J \u202e\u2028 \"}{ 'é𝕏"
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (debug|info|warning|error) [\w.]+: .+")


def push(server: Server, request: str) -> None:
    body = json.dumps(flows(("h1", "h5"))).encode()
    answer = server.ask("PUT", "/v1/jobs/a", body, {"X-Request-ID": request, "Fairspine-Reason": "CHG123"})
    assert answer.status == 201
    assert answer.headers["X-Request-ID"] == request
    # Each names the text in an error, and in the log.
    path = "/v1/jobs/" + "".join(f"%{byte:02X}" for byte in HOSTILE.encode())
    assert server.ask("GET", path, headers={"X-Request-ID": "hostile"}).status in (400, 404)


def of_job(server: Server) -> dict[str, Any]:
    """The event of the first job that was pushed."""
    with server.client() as client, contextlib.closing(client.events("/v1/events?after=begin")) as stream:
        return next(event for event in stream if event["kind"] == "job")


def test_every_line_of_a_json_log_is_an_object_and_one_request_goes_through_log_answer_and_events(
    tmp_path: Path,
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.bind(("127.0.0.1", 0))
        daemon.settimeout(READY_SECONDS)
        address = f"127.0.0.1:{daemon.getsockname()[1]}"
        with controller(tmp_path, "--log-format", "json", "--log-syslog", address) as (server, _):
            push(server, "ticket-7")
            event = of_job(server)
            eventually(lambda: '"hostile"' in server.log, "the requests are in the log")
        assert event["data"]["request"] == "ticket-7"
        lines = [json.loads(line) for line in server.log.splitlines()]
        assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
        assert all(datetime.fromisoformat(line["time"]).tzinfo is not None for line in lines)
        assert {line["level"] for line in lines} <= {"debug", "info", "warning", "error"}
        of_request = [line for line in lines if line.get("request") == "ticket-7"]
        assert any(line["message"].startswith("plan ") and "CHG123" in line["message"] for line in of_request)
        assert any(" PUT /v1/jobs/a 201 " in line["message"] for line in of_request)
        # The start of the controller is of no request.
        assert "request" not in lines[0]
        sent: list[bytes] = []
        while not any(b'"ticket-7"' in message and b" 201 " in message for message in sent):
            sent.append(daemon.recv(70_000))
    for message in sent:
        head = re.fullmatch(rb"<(?:30|28|27|31)>1 \S+Z \S+ fairspine \d+ - - (\{.*\})", message)
        assert head is not None, message
        assert json.loads(head[1]) in lines


def test_a_text_log_has_time_level_and_request_and_no_client_can_forge_a_line(tmp_path: Path) -> None:
    with controller(tmp_path) as (server, _):
        push(server, "ticket-8")
        eventually(lambda: "(request hostile)" in server.log, "the requests are in the log")
    lines = server.log.splitlines()
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    assert [line for line in lines if line.startswith("2026-01-01T00:00:00.000Z")] == []
    of_request = [line for line in lines if line.endswith(" (request ticket-8)")]
    assert any(": plan " in line for line in of_request)
    assert any(" PUT /v1/jobs/a 201 " in line for line in of_request)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--log-format", "xml"], "log_format: 'xml': must be one of text, json"),
        (["--log-syslog", "127.0.0.1:99999"], "log_syslog: '127.0.0.1:99999': expected HOST[:PORT]"),
        (["--log-file", "/nowhere/log"], "log_file: '/nowhere/log': the log cannot be opened"),
        (["--log-config-file", "/nowhere/log"], "log_config_file: '/nowhere/log': the log cannot be opened"),
        (["--log-config-file", "/nowhere/log", "--log-format", "json"], "log_format: cannot be used with"),
    ],
)
def test_an_output_that_cannot_be_opened_is_one_line(options: list[str], said: str) -> None:
    assert said in refused(*options, "controller.app")
