"""A plan in a file, for hosts that no controller serves."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.errors import HostAgentError
from agent.plans.host_plan import HostPlan, read_plan
from controller.model.errors import InputError, one_line

LOG = logging.getLogger("fairspine.agent")

LOOK_SECONDS = 1.0


class PlanFile:
    """Reads a file at the start, and again whenever it has changed. Reports go nowhere."""

    def __init__(self, host: str, path: Path, take: Callable[[HostPlan, Any], None]) -> None:
        """Read the file; ``take`` gets each new plan, and its document, in a thread of its own.

        Raises:
            HostAgentError: it cannot be read, or holds no plan of this host.
        """
        self._host, self._path, self._take = host, path, take
        self._seen = self._look()
        self._first = self._read()
        self._ended = threading.Event()

    def start(self, _known: tuple[int, str] | None) -> None:
        """Hand out the plan, and begin to look for another one."""
        self._take(*self._first)
        threading.Thread(target=self._watch, daemon=True).start()

    def report(self, _document: dict[str, Any], *, routine: bool = False) -> None:
        """Do nothing: nobody asks."""

    def close(self) -> None:
        """Stop looking."""
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            now = self._look()
            if now == self._seen:
                continue
            self._seen = now
            try:
                plan, document = self._read()
            except HostAgentError as error:
                LOG.error("%s; the plan before stays", one_line(str(error)))
            else:
                self._take(plan, document)

    def _read(self) -> tuple[HostPlan, Any]:
        try:
            document = json.loads(self._path.read_bytes())
            plan = read_plan(document)
        except OSError as error:
            raise HostAgentError(f"--plan {self._path}: {error.strerror}", exit_code=2) from None
        except InputError as error:
            raise HostAgentError(f"--plan {self._path}: {error}", exit_code=2) from None
        except ValueError:
            raise HostAgentError(f"--plan {self._path}: is not JSON", exit_code=2) from None
        if plan.host != self._host:
            raise HostAgentError(f"--plan {self._path}: is the plan of host {plan.host!r}", exit_code=2)
        return plan, document

    def _look(self) -> tuple[int, ...] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size
