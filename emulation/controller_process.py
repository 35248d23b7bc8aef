"""A controller process, for everything that starts one: experiments, campaigns, benchmarks and tests."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from emulation.errors import LabError
from emulation.http_client import HttpClient, HttpResponse, NoResponseError
from emulation.processes import Child, Popen

RYU_MANAGER = str(Path(sys.executable).with_name("ryu-manager"))
"""The program of this environment, whatever is first in the path."""

HTTP_PORT = 8080
"""Where a controller listens for requests if no option says otherwise."""

ANSWERS_SECONDS = 180.0
"""After a fresh installation numerical code is compiled first, which takes a minute; on a busy machine, longer."""

STOP_SECONDS = 30.0


def controller_command(*options: str, openflow_port: int | None = None, http_port: int | None = None) -> list[str]:
    """Return the command that starts a controller with these options.

    Args:
        options: of ``ryu-manager``.
        openflow_port: where it listens for switches; ``None``: at its default.
        http_port: where it listens for requests; ``None``: at its default.
    """
    listen = [] if openflow_port is None else ["--ofp-tcp-listen-port", str(openflow_port)]
    listen += [] if http_port is None else ["--wsapi-port", str(http_port)]
    return [RYU_MANAGER, *options, *listen, "controller.app"]


Spawn = Callable[[str, Sequence[str]], Child]
"""Starts a child process with this name and command; ``emulation.lab.Lab.spawn`` is one."""


def spawn_to(
    log: Path, *, env: Mapping[str, str] | None = None, folder: Path | None = None, popen: Popen = subprocess.Popen
) -> Spawn:
    """Return a function that starts a process outside of a lab.

    Args:
        log: its output is appended to this file.
        env: further variables of its environment.
        folder: where it runs, if not here.
        popen: starts it, called as ``subprocess.Popen`` is.
    """
    started = popen if folder is None else functools.partial(popen, cwd=folder)

    def spawn(name: str, argv: Sequence[str], /) -> Child:
        return Child(name, argv, log, os.environ | dict(env or {}), append=True, popen=started)

    return spawn


class ControllerProcess:
    """A controller that can be started, stopped, killed and started again; its log goes on.

    Attributes:
        name: of the process, in errors.
        address: host and port of its HTTP interface.
    """

    def __init__(
        self,
        command: Sequence[str],
        spawn: Spawn,
        *,
        http_port: int = HTTP_PORT,
        name: str = "controller",
        token: str = "",
        timeout: float = 120.0,
    ) -> None:
        """Keep the command; the controller is not started yet.

        Args:
            command: of ``controller_command``, or another one that runs a controller.
            spawn: starts it.
            http_port: where the command lets it listen for requests.
            name: of the process.
            token: the secret for its requests, where tokens are needed.
            timeout: limit on its requests.
        """
        self.name, self.address = name, ("127.0.0.1", http_port)
        self._command, self._spawn = list(command), spawn
        self._child: Child | None = None
        self._is_ended = False
        self._timeout, self._token = timeout, token

    # -- process -----------------------------------------------------------------------------------------------

    def start(self, *, wait: bool = True, timeout: float = ANSWERS_SECONDS) -> Self:
        """Start it if it does not run, and (``wait``) wait until it answers; return it.

        Raises:
            LabError: it cannot be started, ends, or does not answer in time.
        """
        if not self.runs:
            self._child, self._is_ended = self._spawn(self.name, self._command), False
            # One that gets no processor for ten seconds is taken for dead by its switches.
            self._child.run_first()
        if wait:
            self.wait_until(self.answers, "the controller answers on /healthz", timeout)
        return self

    @property
    def is_started(self) -> bool:
        """Whether it was started, and not stopped or killed since; it may have ended by itself."""
        return self._child is not None and not self._is_ended

    @property
    def runs(self) -> bool:
        """Whether its process is there; it may be suspended."""
        return self._child is not None and self._child.exit_status() is None

    @property
    def child(self) -> Child:
        """The process that was started last.

        Raises:
            LabError: none was.
        """
        if self._child is None:
            raise LabError(f"{self.name} was not started")
        return self._child

    @property
    def pid(self) -> int:
        """The id of the process that was started last.

        Raises:
            LabError: none was.
        """
        return self.child.pid

    @property
    def log(self) -> Path:
        """The file with its output.

        Raises:
            LabError: it was not started.
        """
        return self.child.log

    def signal(self, number: signal.Signals) -> None:
        """Send its process a signal."""
        self.child.signal(number)

    def wait(self, timeout: float = STOP_SECONDS) -> int:
        """Wait until it has ended by itself, and return its exit status.

        Raises:
            LabError: it still runs after ``timeout`` seconds.
        """
        return self.child.wait(timeout)

    def stop(self, timeout: float = STOP_SECONDS) -> int:
        """End it by SIGTERM, and by SIGKILL if it still runs after ``timeout`` seconds; return its exit status."""
        self._is_ended = True
        return self.child.stop(timeout)

    def kill(self) -> None:
        """End it by SIGKILL. Harmless where it has ended."""
        self._is_ended = True
        if self._child is not None:
            self._child.kill()

    # -- requests ----------------------------------------------------------------------------------------------

    def client(self, *, keep: bool = False) -> HttpClient:
        """Return a client for several requests; ``keep``: over one connection."""
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        return HttpClient(self.address, timeout=self._timeout, keep=keep, headers=headers)

    def ask(
        self,
        method: str,
        target: str,
        document: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> HttpResponse:
        """Send one request on a connection of its own, as ``HttpClient.ask`` does.

        Raises:
            NoResponseError: there is no whole response.
        """
        with self.client() as client:
            return client.ask(method, target, document, headers=headers, timeout=timeout)

    def answers(self, target: str = "/healthz") -> bool:
        """Return whether it answers a GET, with any status."""
        try:
            self.ask("GET", target)
        except NoResponseError:
            return False
        return True

    def is_well(self) -> bool:
        """Return whether ``/healthz`` gives no reason for concern; false without a response."""
        try:
            return bool(self.ask("GET", "/healthz").body["status"] == "ok")
        except NoResponseError:
            return False

    def plan_is_active(self) -> bool:
        """Return whether there is a plan, and every switch has confirmed the newest one."""
        response = self.ask("GET", "/v1/plan")
        if response.status != 200 or response.body["active"] is None:
            return False
        return bool(response.body["active"]["epoch"] == response.body["computed"]["epoch"])

    def has_plan(self) -> bool:
        """Return whether it answers and has a plan."""
        try:
            return self.ask("GET", "/v1/plan").status == 200
        except NoResponseError:
            return False

    def wait_until(self, ready: Callable[[], bool], what: str, timeout: float = ANSWERS_SECONDS) -> None:
        """Wait until something that it brings about is so.

        Raises:
            LabError: it is not in time, or the controller has ended; with the end of its log.
        """
        self.child.wait_until(ready, what, timeout)
