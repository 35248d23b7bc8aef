"""Common parts of tests on real switches: labs that are always removed, and a controller process."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from controller.model.fabric import Fabric
from emulation import logs
from emulation.errors import LabError
from emulation.lab import Lab
from emulation.processes import LABEL, POLL_SECONDS, Child
from emulation.runfile import RunFile
from tests.integration.controller_forks import forks

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
RYU_MANAGER = str(Path(sys.executable).with_name("ryu-manager"))
READY_SECONDS = 180.0
"""Patience for a state: only a test that fails waits so long, so it is chosen for a busy machine."""
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


class Pingable(Protocol):
    """Switches with hosts, real or fake."""

    def ping_all(self) -> list[tuple[str, str]]:
        """Return the pairs of hosts that do not reach each other."""
        ...


class Bench:
    """Makes labs and controllers for one test, takes them down, and reads all logs."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.harmless: list[tuple[str, str]] = []
        """(pattern, reason) of errors that the test provokes."""
        self._undo = ExitStack()
        self._numbers = itertools.count()

    def lab(self, fabric: Fabric, **options: Any) -> Lab:
        """Start a lab; the options are ``Lab``'s."""
        options.setdefault("out", self.out)
        return self._undo.enter_context(Lab(fabric, **options))

    def controller(self, *argv: str, http_port: int = 8080, wait: bool = True, name: str = "") -> Controller:
        """A running ``ryu-manager ARGV``, with a store of its own that lasts as long as the test.

        ``name``: of the folder of its log, where there are several.
        """
        if "--store" not in argv:
            self.out.mkdir(parents=True, exist_ok=True)
            argv = ("--store", f"sqlite:///{self.out.resolve()}/store-{next(self._numbers)}.db", *argv)
        made = Controller(argv, self.out / name, http_port=http_port)
        self._undo.callback(made.close)
        return made.start(wait=wait)

    def problems(self) -> list[str]:
        """Tracebacks and OpenFlow errors in every log so far."""
        found = []
        for log in sorted(self.out.glob("**/*.log")):
            found += logs.problems(log, harmless=self.harmless)
        return found

    def close(self) -> None:
        self._undo.close()


def eventually(
    ready: Callable[[], bool], what: str, timeout: float = READY_SECONDS, *, shown: Callable[[], object] | None = None
) -> None:
    """Wait until something is so; ``shown`` tells in the error how it is instead.

    Raises:
        LabError: it is not in time.
    """
    deadline = time.monotonic() + timeout
    while not ready():
        if time.monotonic() > deadline:
            raise LabError(f"not within {timeout:g} s: {what}" + (f"; it is {shown()}" if shown else ""))
        time.sleep(POLL_SECONDS)


def standing(read: Callable[[], T]) -> T:
    """Return what is read once it stays the same for a second.

    A plan is active before the last rules of the one before it are gone.
    """
    last = read()

    def stands() -> bool:
        nonlocal last
        time.sleep(1)
        before, last = last, read()
        return last == before

    eventually(stands, "nothing changes any more", shown=lambda: last)
    return last


def wait_for_pings(switches: Pingable) -> None:
    """Wait until every host reaches every other.

    A plan that is active on every switch does not suffice for a single ping: Open vSwitch forwards by its cache of
    former rules for about a second, and a busy machine may answer late.
    """
    eventually(lambda: not switches.ping_all(), "every host reaches every other", shown=switches.ping_all)
