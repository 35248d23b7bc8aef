"""``push`` and ``jobs`` with servers that are not controllers, and with invalid URLs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from controller.cli.main import main

JOB = str(Path(__file__).parents[3] / "examples" / "gpt3-a.json")
COMMANDS = [["jobs"], ["jobs", "list"], ["jobs", "show", "gpt3-a"], ["push", JOB], ["push", JOB, "--wait"]]


@contextmanager
def server(status: int, body: bytes) -> Iterator[str]:
    """A server on loopback that answers everything in one way; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_DELETE = answer

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}"
        finally:
            listening.shutdown()
            thread.join()


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code or 0, *capsys.readouterr()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("body", [b"[]", b"null", b"", b"<html>", b'{"jobs": [1]}', b'{"jobs": {}, "name": "gpt3-a"}'])
def test_an_answer_of_another_shape_is_told_in_one_line(capsys: Any, command: list[str], body: bytes) -> None:
    with server(200, body) as url:
        code, out, err = run(capsys, *command, "--url", url)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("fairspine: ")


def test_jobs_list_prints_what_jobs_prints(capsys: Any) -> None:
    row = {"name": "a", "weight": 1.0, "collectives": 1, "flows": 2, "bytes": 3, "active": True}
    row |= {"min_speed": None, "speed": None}
    with server(200, json.dumps({"jobs": [row]}).encode()) as url:
        alone = run(capsys, "jobs", "--url", url, "--format", "json")
        inner = run(capsys, "jobs", "list", "--url", url, "--format", "json")
        outer = run(capsys, "jobs", "--url", url, "list", "--format", "json")
    assert alone == inner == outer
    assert json.loads(alone[1]) == {"jobs": [row]}


def test_jobs_tell_expected_iterations_where_the_controller_does(capsys: Any) -> None:
    row = {"name": "a", "weight": 1.0, "collectives": 1, "flows": 2, "bytes": 3, "active": True}
    row |= {"min_speed": None, "speed": None}
    times = {"compute_seconds": 0.1, "alone_seconds": 0.2, "iteration_seconds": 0.25, "slowdown": 1.25, "duty": 0.6}
    with server(200, json.dumps({"jobs": [row, row | {"name": "b", "times": times}]}).encode()) as url:
        out = run(capsys, "jobs", "--url", url)[1]
    cells = [line.split() for line in out.splitlines() if line.split()[:1] in (["job"], ["a"], ["b"])]
    assert cells[0][4:] == ["bytes", "speed", "planned", "iteration", "slowdown", "duty", "active"]
    assert cells[1][-4:] == ["-", "-", "-", "yes"]
    assert cells[2][-5:] == ["250", "ms", "1.250", "60%", "yes"]


def test_input_that_the_controller_refuses_is_told_with_file_field_and_value(capsys: Any) -> None:
    problem = {"title": "bad", "detail": "the fabric has no host of this name", "field": "hosts[0]", "value": "h1"}
    with server(422, json.dumps(problem).encode()) as url:
        code, out, err = run(capsys, "push", JOB, "--url", url)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert JOB in err
    assert "hosts[0]" in err
    assert '"h1"' in err


def test_a_host_name_that_cannot_be_looked_up_is_told_in_one_line(capsys: Any) -> None:
    code, out, err = run(capsys, "jobs", "--url", "http://a..b")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("fairspine: http://a..b: ")


def test_tls_to_a_controller_without_it_is_told_with_its_mend(capsys: Any) -> None:
    with server(200, b"{}") as url:
        code, out, err = run(capsys, "jobs", "--url", url.replace("http:", "https:"))
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "there is no TLS at this address; use http://" in err
    assert "SSL" not in err
