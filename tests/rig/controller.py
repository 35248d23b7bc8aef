"""A ``ryu-manager`` that a test starts, stops, kills and asks over HTTP."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulation.processes import LABEL, Child
from emulation.runfile import RunFile
from emulation.ryu_manager import RYU_MANAGER
from tests.rig.forks import forks
from tests.rig.waiting import READY_SECONDS

REQUEST_SECONDS = 120.0


@dataclass(frozen=True)
class Answer:
    """What the controller said. ``body`` is parsed where it is JSON, else text."""

    status: int
    body: Any


class Controller:
    """A ``ryu-manager`` that can be stopped, killed and started again; its log goes on."""

    def __init__(self, argv: Sequence[str], out: Path, *, http_port: int = 8080) -> None:
        self.argv = list(argv)
        self.log = out / "logs" / "controller.log"
        self.http_port = http_port
        self._runfile = RunFile()
        self._child: Child | None = None

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    def start(self, *, wait: bool = True) -> Controller:
        """Start it, and (``wait``) wait until ``/healthz`` answers anything."""
        env = os.environ | {LABEL: self._runfile.label, "PYTHONUNBUFFERED": "1"}
        self._child = Child("controller", [RYU_MANAGER, *self.argv], self.log, env, append=True, popen=forks().popen)
        self._runfile.add_process("controller", self._child.pid)
        if wait:
            self._child.wait_until(self._answers, "the controller answers on /healthz", READY_SECONDS)
        return self

    def stop(self) -> int:
        """SIGTERM; the exit status (0 for a clean end)."""
        assert self._child is not None
        return self._child.stop(READY_SECONDS)

    def kill(self) -> None:
        """SIGKILL."""
        assert self._child is not None
        self._child.kill()

    def close(self) -> None:
        """End it and whatever it has started."""
        if self._child is not None:
            self._child.kill()
        self._runfile.sweep()

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def put(self, path: str, body: object) -> Answer:
        return self.ask("PUT", path, body)

    def post(self, path: str, body: object) -> Answer:
        return self.ask("POST", path, body)

    def delete(self, path: str) -> Answer:
        return self.ask("DELETE", path)

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=REQUEST_SECONDS)
        try:
            text = None if body is None else json.dumps(body)
            headers = {} if body is None and method != "POST" else {"Content-Type": "application/json"}
            connection.request(method, path, text, headers)
            response = connection.getresponse()
            data = response.read()
            if "json" in response.getheader("Content-Type", ""):
                return Answer(response.status, json.loads(data))
            return Answer(response.status, data.decode())
        finally:
            connection.close()

    def is_well(self) -> bool:
        """Return whether ``/healthz`` gives no reason for concern."""
        return bool(self.get("/healthz").body["status"] == "ok")

    def plan_is_active(self) -> bool:
        """Return whether every switch has confirmed the newest plan."""
        answer = self.get("/v1/plan")
        if answer.status != 200 or answer.body["active"] is None:
            return False
        return bool(answer.body["active"]["epoch"] == answer.body["computed"]["epoch"])

    def wait_for(self, what: str, ready: Callable[[], bool], timeout: float = READY_SECONDS) -> None:
        """Wait until something that the controller brings about is so.

        Raises:
            LabError: it is not in time, or the controller has ended; with the end of its log.
        """
        assert self._child is not None
        self._child.wait_until(ready, what, timeout)

    def _answers(self) -> bool:
        try:
            self.get("/healthz")
        except OSError:
            return False
        return True
