"""The threads that speak with the controller: one waits for plans, one sends reports."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import Queue
from typing import Any, Protocol

from agent.controller_connection import ControllerConnection
from agent.errors import HostAgentError
from agent.host_plan import HostPlan, read_plan
from controller.model.errors import InputError, one_line

LOG = logging.getLogger("fairspine.agent")

FIRST_PAUSE_SECONDS, MOST_PAUSE_SECONDS = 0.5, 10.0

Take = Callable[[HostPlan, Any], None]


class PlanProvider(Protocol):
    """Where plans come from, and reports go to."""

    def start(self, known: tuple[int, str] | None) -> None:
        """Begin to hand out plans; ``known``: epoch and digest of the plan that is known already."""

    def report(self, document: dict[str, Any]) -> None:
        """Send a report, in place of one that has not been sent yet."""

    def close(self) -> None:
        """End it."""


class Conversation:
    """Waits for plans and sends reports until it is closed; what does not work is tried again, and told once."""

    def __init__(self, host: str, plans: ControllerConnection, reports: ControllerConnection, take: Take) -> None:
        """Store the connections; ``take`` gets each new plan, and its document, in a thread of its own."""
        self._host, self._plans, self._reports, self._take = host, plans, reports, take
        self._ended = threading.Event()
        self._newest: Queue[dict[str, Any]] = Queue(maxsize=1)
        self._complaints: dict[str, str] = {}
        self._last: dict[str, Any] | None = None
        self._lock = threading.Lock()

    def start(self, known: tuple[int, str] | None) -> None:
        """Begin; ``known``: epoch and digest of the plan that is known already."""
        for run in (lambda: self._wait_for_plans(known), self._send_reports):
            threading.Thread(target=run, daemon=True).start()

    def report(self, document: dict[str, Any]) -> None:
        """Send a report, in place of one that has not been sent yet."""
        with self._lock:
            self._last = document
            while self._newest.full():
                self._newest.get_nowait()
            self._newest.put_nowait(document)

    def close(self) -> None:
        """End it."""
        self._ended.set()
        self._plans.close()
        self._reports.close()

    def _wait_for_plans(self, known: tuple[int, str] | None) -> None:
        pause, newest = FIRST_PAUSE_SECONDS, known
        while not self._ended.is_set():
            try:
                document = self._plans.plan(newest)
                plan = None if document is None else self._read(document)
            except HostAgentError as error:
                self._complain("plan", str(error))
                self._ended.wait(pause)
                pause = min(2 * pause, MOST_PAUSE_SECONDS)
                continue
            if self._works("plan") and self._last is not None:
                # It may be another run of the controller, which does not know what this host holds.
                self.report(self._last)
            pause = FIRST_PAUSE_SECONDS
            if plan is not None and plan.id != newest:
                newest = plan.id
                self._take(plan, document)

    def _read(self, document: Any) -> HostPlan:
        try:
            plan = read_plan(document)
        except InputError as error:
            raise HostAgentError(f"the plan cannot be used: {error}") from None
        if plan.host != self._host:
            raise HostAgentError(f"the plan is that of host {plan.host!r}")
        return plan

    def _send_reports(self) -> None:
        while not self._ended.is_set():
            document = self._newest.get()
            try:
                self._reports.report(document)
            except HostAgentError as error:
                self._complain("report", str(error))
                self._ended.wait(FIRST_PAUSE_SECONDS)
            else:
                self._works("report")

    def _complain(self, about: str, text: str) -> None:
        if self._complaints.get(about) != text and not self._ended.is_set():
            self._complaints[about] = text
            LOG.warning("%s: %s", about, one_line(text))

    def _works(self, about: str) -> bool:
        """Return whether this did not work before."""
        if self._complaints.pop(about, None) is None:
            return False
        LOG.info("%s: the controller answers again", about)
        return True
