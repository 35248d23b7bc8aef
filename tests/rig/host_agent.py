"""An agent in the namespace of a host, and a controller that hands out plans to it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from emulation.lab.agents import AT_HOST, agent_command, port_agent_command
from emulation.netns import in_netns_of
from tests.rig.routers.router_lab import LabOfHosts
from tests.rig.waiting import eventually


class PlanServer:
    """Hands out the plan of one host, and takes its reports; use it in a ``with`` statement.

    Attributes:
        reports: those that came, in order.
        refusal: status of all answers, if it is set.
        polls: number of requests for a plan.
    """

    def __init__(self, lab: LabOfHosts, host: str, token: str | None = None) -> None:
        """Listen on loopback at a host."""
        self.reports: list[dict[str, Any]] = []
        self.refusal: int | None = None
        self.polls = 0
        self._plan: dict[str, Any] | None = None
        self._changed, self._token, self._ended = threading.Condition(), token, False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer._get(self)

            def do_POST(self) -> None:
                outer._post(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer((AT_HOST[0], 0), Handler, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = in_netns_of(lab.lab.host(host).pid, lambda: socket.create_server(AT_HOST))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> PlanServer:
        """Start it."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it; requests that wait are answered."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def plan(self, document: dict[str, Any]) -> None:
        """Hand out a plan."""
        with self._changed:
            self._plan = document
            self._changed.notify_all()

    def wait_for_report(self, what: str, ready: Any) -> dict[str, Any]:
        """Wait until a report is as wanted, and return it."""
        eventually(lambda: any(ready(each) for each in list(self.reports)), what, shown=lambda: self.reports[-1:])
        return next(each for each in reversed(list(self.reports)) if ready(each))

    def _refused(self, request: BaseHTTPRequestHandler) -> bool:
        status = self.refusal
        if self._token is not None and request.headers.get("Authorization") != f"Bearer {self._token}":
            status = 401
        if status is not None:
            self._answer(request, status, {"title": "refused"})
        return status is not None

    def _get(self, request: BaseHTTPRequestHandler) -> None:
        self.polls += 1
        if not self._refused(request):
            self._answer_plan(request, 304)

    def _answer_plan(self, request: BaseHTTPRequestHandler, none: int) -> None:
        query = parse_qs(urlsplit(request.path).query)
        after = int(query["after"][0]) if "after" in query else None
        seconds = float(query.get("wait", ["0"])[0])
        with self._changed:

            def new() -> bool:
                return self._ended or (self._plan is not None and self._plan["epoch"] != after)

            self._changed.wait_for(new, timeout=seconds)
            plan = None if self._plan is None or self._plan["epoch"] == after else self._plan
        if plan is None:
            self._answer(request, none, None)
        else:
            self._answer(request, 200, plan)

    def _post(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        if not self._refused(request):
            self.reports.append(json.loads(body))
            if "wait" in parse_qs(urlsplit(request.path).query):
                self.polls += 1
                self._answer_plan(request, 204)
            else:
                self._answer(request, 204, None)

    def _answer(self, request: BaseHTTPRequestHandler, status: int, document: Any) -> None:
        body = b"" if document is None else json.dumps(document).encode()
        try:
            request.send_response(status)
            if status not in (204, 304):
                request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)
        except OSError:
            # The agent has gone.
            pass


class HostAgent:
    """An agent as a process in the namespace of a host."""

    def __init__(self, lab: LabOfHosts, host: str, folder: Path, *options: str) -> None:
        """Store the options; ``folder`` gets its log and what it saves."""
        self._lab, self._host, self._folder = lab, host, folder
        self._options = ("--report-seconds", "0.5", *options)
        self._process: subprocess.Popen[bytes] | None = None
        self.log = folder / "agent.log"
        self._begin = 0
        folder.mkdir(exist_ok=True)

    def command(self, *options: str) -> list[str]:
        """Return the command that starts it."""
        own = agent_command(self._lab.lab, self._host, self._folder / "state", *self._options, *options)
        return self._lab.inside(self._host, *own)

    def start(self, *options: str) -> None:
        """Start it."""
        with self.log.open("ab") as log:
            self._begin = log.tell()
            self._process = subprocess.Popen(self.command(*options), stdout=log, stderr=log)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and return the exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        code = self._process.wait(60)
        self._process = None
        return code

    def close(self) -> None:
        """End it, if it runs."""
        if self._process is not None:
            self.end(signal.SIGKILL)

    def wait_for_log(self, text: str) -> None:
        """Wait until the log has a text that was written since the last start."""
        eventually(
            lambda: text.encode() in self.log.read_bytes()[self._begin :],
            f"{text!r} in the log",
            shown=self.log.read_text,
        )


class PortAgent(HostAgent):
    """A port agent as a process in the namespace of a host."""

    def command(self, *options: str) -> list[str]:
        """Return the command that starts it."""
        own = port_agent_command(self._lab.lab, self._host, self._folder / "state", *self._options, *options)
        return self._lab.inside(self._host, *own)
