"""A controller that a test starts, stops, kills and asks over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from emulation.controller_process import RYU_MANAGER, ControllerProcess, Spawn, spawn_to
from emulation.http_client import HttpResponse
from emulation.processes import LABEL
from emulation.runfile import RunFile
from tests.rig.forks import forks
from tests.rig.waiting import READY_SECONDS


class Controller(ControllerProcess):
    """A controller of the fork server, with a store and an address that its options name.

    What it starts ends with it, also where it ends by SIGKILL.
    """

    def __init__(self, argv: Sequence[str], out: Path, *, http_port: int = 8080) -> None:
        self._runfile = RunFile()
        log = out / "logs" / "controller.log"
        super().__init__(
            [RYU_MANAGER, *argv],
            forked(log, {LABEL: self._runfile.label, "PYTHONUNBUFFERED": "1"}),
            http_port=http_port,
        )
        self.http_port = http_port

    def start(self, *, wait: bool = True, timeout: float = READY_SECONDS) -> Self:
        super().start(wait=False)
        self._runfile.add_process("controller", self.pid)
        return super().start(wait=wait, timeout=timeout)

    def stop(self, timeout: float = READY_SECONDS) -> int:
        return super().stop(timeout)

    def close(self) -> None:
        """End it and whatever it has started."""
        self.kill()
        self._runfile.sweep()

    def get(self, path: str) -> HttpResponse:
        return self.ask("GET", path)

    def put(self, path: str, body: object) -> HttpResponse:
        return self.ask("PUT", path, body)

    def post(self, path: str, body: object) -> HttpResponse:
        return self.ask("POST", path, body)

    def delete(self, path: str) -> HttpResponse:
        return self.ask("DELETE", path)

    def wait_for(self, what: str, ready: Callable[[], bool], timeout: float = READY_SECONDS) -> None:
        """``wait_until`` with the patience of tests."""
        self.wait_until(ready, what, timeout)


def forked(log: Path, env: Mapping[str, str] | None = None, folder: Path | None = None) -> Spawn:
    """What starts a controller as a fork; the arguments are those of ``spawn_to``."""
    return spawn_to(log, env=env, folder=folder, popen=forks().popen)
