"""What a replica that does not lead does for agents: it holds their requests, and asks the leader for many at once.

Most of what a request costs the leader is HTTP. So this replica sends the reports and questions of agents together, and
the leader answers them at once. Agents wait for a new plan here: one request of this replica waits for it at the
leader, and when there is one, all of them are asked about again. So every plan comes from the leader, and none is older
than what the agent has been told of by any replica.
"""

from __future__ import annotations

import http.client
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import orjson

from controller.core.ports.host_agents import AgentHas, HostRequest
from controller.rest.problems import ProblemError
from controller.rest.serving.budget import Share

LOG = logging.getLogger(__name__)

MOST_TOGETHER = 256
"""Requests in one request to the leader: it makes their plans one after another."""

MOST_CHARACTERS = 4 << 20
"""Length of the reports in one request to the leader."""

LONGEST_REPORT = 1 << 18
"""Bytes of a report that is sent with others; a longer one is passed on by itself."""

ASK_SECONDS = 10.0
"""Time after which the leader is asked again for an agent that waits: so it knows that the agent is there."""

LOOK_SECONDS = 5.0
"""Between two looks whether an agent that waits has disconnected."""

WATCH_SECONDS = 30.0
"""Limit on the time for which the leader waits for a new plan."""

PAUSE_SECONDS = 0.2
"""Before the leader is asked again for the version of plans, after it did not answer."""

RELAY, VERSION = "/v1/hosts:relay", "/v1/hosts:version"

Ask = Callable[[str, str, str, str | None, bytes], tuple[int, bytes]]
"""Sends a request to a replica while that leads: its URL, method, target, Authorization header and body. Returns the
status and body of the answer. Raises ``ProblemError`` if there is none."""


class NotRelayedError(Exception):
    """The leader has not answered this request with those of others: it is to be passed on by itself."""


@dataclass(eq=False)
class _Asked:
    """A request of an agent for which the leader is asked; ``done``: set when ``answer`` or ``error`` is."""

    request: HostRequest
    authorization: str | None
    leader: str
    done: threading.Event = field(default_factory=threading.Event)
    answer: Any = None
    version: str = ""
    error: Exception | None = None


class AgentRelay:
    """Answers agents by what the leader says. Its tasks are threads, which are those of the event loop there."""

    def __init__(self, leader: Callable[[], str | None], ask: Ask, no_leader: Callable[[str], ProblemError]) -> None:
        """Keep how to find and ask the leader (``None``: this replica leads; empty: none does)."""
        self._leader, self._ask, self._no_leader = leader, ask, no_leader
        self._queue: deque[_Asked] = deque()
        self._sends = self._watches = False
        self._news = threading.Condition()
        self._version = ""
        self._failures = 0
        self._waiting: dict[int, str | None] = {}
        self._numbers = itertools.count()

    def plan(
        self, request: HostRequest, authorization: str | None, seconds: float, gone: Callable[[], bool], share: Share
    ) -> bytes | None:
        """Send what an agent reports to the leader, and return another plan than it has, when there is one.

        Args:
            request: of the agent, which is allowed to send it.
            authorization: the header of its request.
            seconds: how long to wait for another plan; then the result is ``None``.
            gone: tells whether the agent has disconnected, which ends the wait.
            share: what the request holds; it gives the memory of its body back while it waits.

        Raises:
            NotRelayedError: the leader does not answer it so.
            ProblemError: 503, no replica leads, or another one does now.
        """
        if request.report is not None and len(request.report) > LONGEST_REPORT:
            raise NotRelayedError
        leader, end = self._leader(), time.monotonic() + seconds
        if not leader:
            raise self._no_leader("the cluster has no leader now")
        while True:
            failures = self._failures
            asked = self._asked(_Asked(request, authorization, leader))
            if asked.answer is not None or not request.asks:
                return None if asked.answer is None else orjson.dumps(asked.answer)
            request = replace(request, report=None)
            share.give_bytes()
            with self._waits(authorization):
                if not self._another(asked, failures, end, gone):
                    return None

    # -- requests to the leader ----------------------------------------------------------------------------------

    def _asked(self, asked: _Asked) -> _Asked:
        """Ask the leader, with what others ask meanwhile."""
        with self._news:
            self._queue.append(asked)
            begins, self._sends = not self._sends, True
        if begins:
            threading.Thread(target=self._send_all, daemon=True).start()
        asked.done.wait()
        if asked.error is not None:
            raise asked.error
        return asked

    def _send_all(self) -> None:
        """Send until nothing is left."""
        while True:
            with self._news:
                batch = self._next()
                if not batch:
                    self._sends = False
                    return
            try:
                self._send(batch)
            except NotRelayedError:
                for each in batch:
                    each.error = NotRelayedError()
            except ProblemError as error:
                for each in batch:
                    # One error object for many tasks would collect the traceback of each.
                    each.error = self._no_leader(error.detail)
            except Exception:
                LOG.exception("requests of %d agents were not relayed", len(batch))
                for each in batch:
                    each.error = NotRelayedError()
            finally:
                for each in batch:
                    each.done.set()

    def _next(self) -> list[_Asked]:
        """Take the next requests, all for one leader."""
        batch: list[_Asked] = []
        length = 0
        while self._queue and len(batch) < MOST_TOGETHER and length < MOST_CHARACTERS:
            if batch and self._queue[0].leader != batch[0].leader:
                break
            batch.append(self._queue.popleft())
            length += len(batch[-1].request.report or b"")
        return batch

    def _send(self, batch: list[_Asked]) -> None:
        first = batch[0]
        try:
            body = orjson.dumps({"requests": [_document(each) for each in batch]})
        except (orjson.JSONEncodeError, UnicodeDecodeError):
            # One of them is no text. Each alone gets the answer that it deserves.
            raise NotRelayedError from None
        status, content = self._ask(first.leader, "POST", RELAY, first.authorization, body)
        if status != http.client.OK:
            # A leader of an earlier version, or one that refuses the first token, answers each by itself.
            raise NotRelayedError
        try:
            parsed = orjson.loads(content)
            version, answers = str(parsed["version"]), list(parsed["answers"])
            for each, answer in zip(batch, answers, strict=True):
                each.version, each.answer = version, answer["plan"]
                each.error = NotRelayedError() if answer["status"] == "refused" else None
        except (ValueError, LookupError, TypeError):
            raise NotRelayedError from None
        self._hear(version)

    # -- waiting for other plans ---------------------------------------------------------------------------------

    @contextmanager
    def _waits(self, authorization: str | None) -> Iterator[None]:
        """Have the leader watched while an agent waits, by the token of one of those that do."""
        number = next(self._numbers)
        with self._news:
            self._waiting[number] = authorization
            begins, self._watches = not self._watches, True
        if begins:
            threading.Thread(target=self._watch, daemon=True).start()
        try:
            yield
        finally:
            with self._news:
                del self._waiting[number]

    def _another(self, asked: _Asked, failures: int, end: float, gone: Callable[[], bool]) -> bool:
        """Wait until the leader is to be asked again; return whether it is, or the time is over.

        Raises:
            ProblemError: 503, it does not lead any more, or does not answer.
        """
        again = min(end, time.monotonic() + ASK_SECONDS)
        with self._news:
            while self._version == asked.version:
                left = again - time.monotonic()
                if left <= 0:
                    break
                self._news.wait(min(left, LOOK_SECONDS))
                if gone():
                    return False
                if self._leader() != asked.leader:
                    raise self._no_leader("the replica that was asked does not lead any more")
                if self._failures != failures:
                    raise self._no_leader("the leader of the cluster did not answer")
        return time.monotonic() < end

    def _watch(self) -> None:
        """Follow the version of the leader's plans while agents wait for another one."""
        while True:
            with self._news:
                if not self._waiting:
                    self._watches = False
                    return
                authorization = next(iter(self._waiting.values()))
            leader = self._leader()
            try:
                if not leader:
                    raise self._no_leader("the cluster has no leader now")
                target = f"{VERSION}?known={quote(self._version)}&wait={WATCH_SECONDS:g}"
                status, content = self._ask(leader, "GET", target, authorization, b"")
                if status != http.client.OK:
                    raise self._no_leader(f"the leader answered {status}")
                self._hear(str(orjson.loads(content)["version"]))
            except (ProblemError, ValueError, LookupError, TypeError) as error:
                LOG.debug("plans of %s: %r", leader, error)
                # Whoever waits asks again, and hears why.
                with self._news:
                    self._failures += 1
                    self._news.notify_all()
                time.sleep(PAUSE_SECONDS)

    def _hear(self, version: str) -> None:
        with self._news:
            if self._version != version and not _is_before(version, self._version):
                self._version = version
                self._news.notify_all()


def _is_before(version: str, other: str) -> bool:
    """Return whether a version is an earlier one of the same run of a leader: answers come in any order."""
    run, _, number = version.rpartition("-")
    other_run, _, other_number = other.rpartition("-")
    return run == other_run and number.isdecimal() and other_number.isdecimal() and int(number) < int(other_number)


def _form(has: AgentHas) -> str:
    if has.form == "ports":
        return "ports"
    return "changes" if has.changes else "table" if has.by_table else "rows"


def _document(asked: _Asked) -> dict[str, Any]:
    """Return a request as a member of ``controller.rest.schemas.RelayForm``."""
    request, has = asked.request, asked.request.has
    return {
        "host": request.host,
        "authorization": asked.authorization,
        "after": None if has.plan is None else has.plan.epoch,
        "digest": "" if has.plan is None else has.plan.digest,
        "destinations": has.destinations,
        "form": _form(has),
        "report": None if request.report is None else request.report.decode(),
        "asks": request.asks,
    }
