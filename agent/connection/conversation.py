"""The threads that speak with the controller: one waits for plans, one sends reports."""

from __future__ import annotations

import itertools
import logging
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from queue import Queue
from typing import Any, Generic, Protocol, TypeVar

from agent.connection.controller_connection import ControllerConnection
from agent.errors import HostAgentError
from controller.model.errors import one_line

LOG = logging.getLogger("fairspine.agent")

FIRST_PAUSE_SECONDS, MOST_PAUSE_SECONDS = 0.5, 10.0

CONFIRM_SECONDS = 1.0
"""For the kernel to follow a plan, before the next one is asked for without word of this one."""

PlanId = tuple[int, str]
"""Epoch and digest of a plan."""


class NumberedPlan(Protocol):
    """A plan that an agent can tell from others."""

    @property
    def id(self) -> PlanId:
        """Return the epoch and the digest, which identify the plan."""

    @property
    def host(self) -> str:
        """Return the name of its host."""


P = TypeVar("P", bound=NumberedPlan)


class PlanProvider(Protocol):
    """Where plans come from, and reports go to."""

    def start(self, known: PlanId | None) -> None:
        """Begin to hand out plans; ``known``: epoch and digest of the plan that is known already."""

    def report(self, document: dict[str, Any], *, routine: bool = False) -> None:
        """Send a report, in place of one that has not been sent yet.

        Args:
            document: the report.
            routine: it may be sent with the next request for a plan, in place of a request of its own.
        """

    def close(self) -> None:
        """End it."""


class Conversation(ABC, Generic[P]):
    """Waits for plans and sends reports until it is closed; what does not work is tried again, and told once."""

    def __init__(
        self, host: str, plans: ControllerConnection, reports: ControllerConnection, take: Callable[[P, Any], None]
    ) -> None:
        """Store the connections; ``take`` gets each new plan, and its document, in a thread of its own."""
        self._host, self._plans, self._reports, self._take = host, plans, reports, take
        self._ended = threading.Event()
        self._newest: Queue[dict[str, Any]] = Queue(maxsize=1)
        self._complaints: dict[str, str] = {}
        self._last: dict[str, Any] | None = None
        self._lock = threading.Condition()
        self._run, self._numbers = secrets.token_hex(8), itertools.count(1)
        self._awaited: PlanId | None = None
        self._confirmation: dict[str, Any] | None = None
        self._routine: dict[str, Any] | None = None

    @abstractmethod
    def _ask(self, newest: PlanId | None, report: dict[str, Any] | None) -> Any | None:
        """Send a report, if there is one, and return the document of another plan than the newest one.

        ``None``: there was none in the time of a request.

        Raises:
            HostAgentError: there is no answer, or none that can be used.
        """

    @abstractmethod
    def _read(self, document: Any) -> tuple[P, Any]:
        """Return a plan, and the document of all of it.

        Raises:
            HostAgentError: it cannot be used.
        """

    def start(self, known: PlanId | None) -> None:
        """Begin; ``known``: epoch and digest of the plan that is known already."""
        for run in (lambda: self._wait_for_plans(known), self._send_reports):
            threading.Thread(target=run, daemon=True).start()

    def report(self, document: dict[str, Any], *, routine: bool = False) -> None:
        """Send a report, in place of one that has not been sent yet.

        Args:
            document: the report.
            routine: it may be sent with the next request for a plan, in place of a request of its own.
        """
        with self._lock:
            document = self._last = {**document, "run": self._run, "number": next(self._numbers)}
            self._routine = document if routine else None
            if routine:
                return
            while self._newest.full():
                self._newest.get_nowait()
            if self._awaited is not None and self._awaited == (document.get("epoch"), document.get("digest") or ""):
                self._awaited, self._confirmation = None, document
                self._lock.notify()
            else:
                self._newest.put_nowait(document)

    def _send_last(self) -> None:
        """Send the last report again, unless there is a newer one."""
        with self._lock:
            if self._last is not None and self._newest.empty():
                self._newest.put_nowait(self._last)

    def close(self) -> None:
        """End it."""
        self._ended.set()
        self._plans.close()
        self._reports.close()

    def _wait_for_plans(self, known: PlanId | None) -> None:
        pause, newest, confirmation = FIRST_PAUSE_SECONDS, known, None
        while not self._ended.is_set():
            try:
                document = self._ask(newest, confirmation or self._due())
                confirmation = None
                read = None if document is None else self._read(document)
                if read is not None and read[0].host != self._host:
                    raise HostAgentError(f"the plan is that of host {read[0].host!r}")
            except HostAgentError as error:
                # When the controller answers again, it gets the last report.
                confirmation = None
                self._complain("plan", str(error))
                self._ended.wait(pause)
                pause = min(2 * pause, MOST_PAUSE_SECONDS)
                continue
            if self._works("plan"):
                # It may be another run of the controller, which does not know what this host holds.
                self._send_last()
            pause = FIRST_PAUSE_SECONDS
            if read is not None and read[0].id != newest:
                newest = read[0].id
                confirmation = self._confirmed(*read)

    def _confirmed(self, plan: P, document: Any) -> dict[str, Any] | None:
        """Have a plan carried out, and return the report that confirms it; ``None``: there is none in time.

        It is sent with the request for the next plan: a controller gets half as many requests, all at the same time.
        """
        with self._lock:
            self._awaited, self._confirmation = plan.id, None
        self._take(plan, document)
        with self._lock:
            self._lock.wait_for(lambda: self._confirmation is not None, CONFIRM_SECONDS)
            self._awaited = None
            return self._confirmation

    def _due(self) -> dict[str, Any] | None:
        """Return the routine report that has not been sent yet."""
        with self._lock:
            report, self._routine = self._routine, None
            return report

    def _send_reports(self) -> None:
        pause, unsent = FIRST_PAUSE_SECONDS, None
        while not self._ended.is_set():
            # What was not taken is sent again, unless there is a newer one.
            document = unsent if unsent is not None and self._newest.empty() else self._newest.get()
            try:
                self._reports.report(document)
            except HostAgentError as error:
                self._complain("report", str(error))
                self._ended.wait(pause)
                pause, unsent = min(2 * pause, MOST_PAUSE_SECONDS), document
            else:
                self._works("report")
                pause, unsent = FIRST_PAUSE_SECONDS, None

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
