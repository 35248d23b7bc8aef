"""Clients that ask all replicas for jobs, at a steady rate, and record what they were told."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from types import TracebackType

from emulation.http_client import HttpClient, NoResponseError
from tests.campaigns.cluster.history import JobOperation
from tests.campaigns.cluster.replicas import Replica
from tests.campaigns.cluster.sessions import ClientSession

GIVE_UP_SECONDS = 2.0
"""Seconds after which a client takes the outcome of its request as unknown.

A stopped replica keeps each client that has asked it for so long; a change has to be accepted 3 s after such a fault.
"""

UNKNOWN = "urn:problem-type:fairspine:outcome-unknown"
REFUSED = "urn:problem-type:fairspine:storage"
NOT_DONE = 503

CHANGE, AT_LEAST = "Fairspine-Change", "Fairspine-At-Least"

SESSION_READS = 0.5
"""Part of the reads that any replica may answer that knows what the client was told."""

JOBS = 6
"""Job names; few, so that requests for the same job meet."""


class ClientLoad(Enum):
    """What clients send: nothing, reads, or reads and writes."""

    NOTHING = 0
    READS = 1
    ALL = 2


class Clients:
    """Threads that send PUT, GET and DELETE of jobs to replicas drawn at random; at first, nothing.

    Attributes:
        statuses: how often each status was received, 0 for a connection that broke.
        errors: responses that a controller must not give.
    """

    def __init__(
        self, replicas: Sequence[Replica], hosts: Sequence[str], seed: int, *, threads: int = 8, rate: float = 50.0
    ) -> None:
        """Prepare clients.

        Args:
            replicas: asked with the same probability.
            hosts: at least two; each job is one flow between two of them.
            seed: of the requests.
            threads: number of clients.
            rate: requests a second of all together.
        """
        self.statuses: Counter[int] = Counter()
        self.errors: list[str] = []
        self._history: list[JobOperation] = []
        self._replicas, self._hosts = replicas, hosts
        self._pause = threads / rate
        self._values = iter(range(1, 1 << 62))
        self._load = ClientLoad.NOTHING
        self._under_way: Counter[ClientLoad] = Counter()
        self._changed = threading.Condition()
        self._end = threading.Event()
        # Changes that the store has refused, and that a follower may have seen before they were undone.
        self._refused: set[tuple[str, int | None]] = set()
        self._sessions = [ClientSession(n) for n in range(threads)]
        self._threads = [
            threading.Thread(
                target=self._run, args=(random.Random(f"{seed}/{each.number}"), each), name=f"client {each.number}"
            )
            for each in self._sessions
        ]

    def __enter__(self) -> Clients:
        """Start the threads."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait for the last answers."""
        self._end.set()
        for thread in self._threads:
            thread.join()

    def send(self, load: ClientLoad) -> None:
        """Send this from now on; return when no request is under way that is more than that."""
        with self._changed:
            self._load = load
            self._changed.wait_for(
                lambda: not any(self._under_way[more] for more in ClientLoad if more.value > load.value)
            )

    def so_far(self) -> list[JobOperation]:
        """Return the operations since ``take``, in the order of their ends."""
        with self._changed:
            return list(self._history)

    def take(self) -> list[JobOperation]:
        """Return the operations so far and forget them; sessions begin anew."""
        with self._changed:
            taken, self._history, refused, self._refused = self._history, [], self._refused, set()
            for session in self._sessions:
                session.forget()
        return [op for op in taken if not (op.by_follower and (op.name, op.value) in refused)]

    def _run(self, rng: random.Random, session: ClientSession) -> None:
        next_time = time.monotonic() + rng.uniform(0, self._pause)
        while not self._end.wait(max(0.0, next_time - time.monotonic())):
            next_time = max(next_time + self._pause, time.monotonic())
            self._ask(rng, session)

    def _ask(self, rng: random.Random, session: ClientSession) -> None:
        replica, name = rng.choice(self._replicas), f"job{rng.randrange(JOBS)}"
        method = rng.choices(["PUT", "GET", "DELETE"], [4, 5, 1])[0]
        src, dst = rng.sample(self._hosts, 2)
        in_session = rng.random() < SESSION_READS
        with self._changed:
            if self._load is ClientLoad.NOTHING:
                return
            if self._load is ClientLoad.READS:
                method = "GET"
            needs = ClientLoad.READS if method == "GET" else ClientLoad.ALL
            self._under_way[needs] += 1
            value = next(self._values)
            at_least = session.change if method == "GET" and in_session else ""
        body = {"flows": [{"src": src, "dst": dst, "bytes": value}]} if method == "PUT" else None
        begin = time.monotonic()
        try:
            status, content, change = _send(replica, method, name, body, at_least)
        except NoResponseError as error:
            # A connection that could not be made has carried no request.
            status, content, change = (0 if error.sent else NOT_DONE), None, None
        end = time.monotonic()
        with self._changed:
            try:
                during = (session.since if at_least else begin, end)
                for op in recorded(method, name, value, during, status, content):
                    by_follower = bool(at_least) and _is_of_follower(content, change)
                    self._history.append(replace(op, session=session.number, by_follower=by_follower))
                    session.told(change, begin, certain=not at_least)
            except ValueError as error:
                self.errors.append(f"{replica.name}: {error}")
            if method != "GET" and isinstance(content, dict) and content.get("type") == REFUSED:
                self._refused.add((name, value if method == "PUT" else None))
            self.statuses[status] += 1
            self._under_way[needs] -= 1
            self._changed.notify_all()


def _send(replica: Replica, method: str, name: str, body: object, at_least: str) -> tuple[int, object, str | None]:
    headers = {AT_LEAST: at_least} if at_least else {}
    with HttpClient(replica.address, timeout=GIVE_UP_SECONDS) as client:
        response = client.ask(method, f"/v1/jobs/{name}", body, headers=headers)
    content = json.loads(response.content) if response.content else None
    return response.status, content, response.headers[CHANGE]


def _is_of_follower(content: object, change: str | None) -> bool:
    """Return whether a follower may have answered: it does not know what is active, and of no job says who it is."""
    return isinstance(content, dict) and content.get("active", None) is None and change is not None


def recorded(
    method: str, name: str, value: int, during: tuple[float, float], status: int, content: object
) -> list[JobOperation]:
    """Return what a response means; nothing, if the request was not carried out, or was a read without an answer.

    Raises:
        ValueError: the controller must not answer so.
    """
    written = value if method == "PUT" else None
    begin, end = during
    if status == NOT_DONE:
        return []
    if status == 0 or (isinstance(content, dict) and content.get("type") == UNKNOWN):
        return [] if method == "GET" else [JobOperation(name, True, written, begin)]
    if status == 404 and method != "PUT":
        return [JobOperation(name, False, None, begin, end)]
    if method == "GET" and status == 200 and isinstance(content, dict):
        return [JobOperation(name, False, int(content["bytes"]), begin, end)]
    if method != "GET" and 200 <= status < 300:
        return [JobOperation(name, True, written, begin, end)]
    raise ValueError(f"{method} of {name}: {status}: {content}")
