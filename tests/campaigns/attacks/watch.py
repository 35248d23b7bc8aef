"""Measurements during attacks: lost pings, response time and reasons of ``/healthz``, memory."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType

from emulation.http_client import HttpClient, NoResponseError
from emulation.lab import Lab
from emulation.pings import Pair, Tally
from tests.campaigns.process_usage import resident

ASK_SECONDS = 0.05
GIVE_UP_SECONDS = 10.0
PING_SECONDS = 0.1
PING_TIMEOUT = 5.0
"""An answer that a busy machine delays is no loss."""


@dataclass
class ObservedEffects:
    """The measurements.

    Attributes:
        seconds: response time of each request to ``/healthz``; a missing answer counts as the time after which it is
            abandoned.
        said: every reason that ``/healthz`` gave.
        most: largest memory in bytes.
    """

    seconds: list[float] = field(default_factory=list)
    said: set[str] = field(default_factory=set)
    most: int = 0

    @property
    def p99(self) -> float:
        """Seconds; nan where nothing was asked."""
        if not self.seconds:
            return float("nan")
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]


class AttackWatch:
    """While its ``with`` block runs: pings between all honest hosts, and a look at the controller 20 times a second."""

    def __init__(
        self, lab: Lab, pairs: Sequence[Pair], address: tuple[str, int], pid: int, give_up: float = GIVE_UP_SECONDS
    ) -> None:
        """Prepare to ping ``pairs``, ask the controller at ``address``, and read the memory of process ``pid``.

        ``give_up``: seconds after which a request without an answer is abandoned.
        """
        self._give_up = give_up
        self.seen = ObservedEffects()
        self.tally = Tally()
        self._address, self._pid = address, pid
        self._pinging = lab.pinging(pairs, interval=PING_SECONDS, timeout=PING_TIMEOUT)
        self._enough = threading.Event()
        self._threads = [threading.Thread(target=each, name="watch") for each in (self._ask, self._weigh)]

    def __enter__(self) -> AttackWatch:
        """Start the pings and the threads."""
        self.tally = self._pinging.__enter__()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the threads and the pings."""
        self._enough.set()
        for thread in self._threads:
            thread.join()
        self._pinging.__exit__(kind, error, traceback)

    def _weigh(self) -> None:
        """Measure the memory on a separate thread, since an unresponsive controller can still allocate memory."""
        while not self._enough.wait(ASK_SECONDS):
            self.seen.most = max(self.seen.most, resident(self._pid))

    def _ask(self) -> None:
        # A connection for each request, as someone makes who asks for the first time.
        with HttpClient(self._address, timeout=self._give_up) as client:
            while not self._enough.wait(ASK_SECONDS):
                start = time.perf_counter()
                try:
                    self.seen.said.update(reasons(client))
                    self.seen.seconds.append(time.perf_counter() - start)
                except (NoResponseError, ValueError):
                    self.seen.seconds.append(self._give_up)


def reasons(client: HttpClient) -> list[str]:
    """Return the reasons that ``/healthz`` gives.

    Raises:
        NoResponseError: there was no whole answer in time.
        ValueError: the answer is not JSON.
    """
    return [str(reason) for reason in json.loads(client.ask("GET", "/healthz").content)["reasons"]]
