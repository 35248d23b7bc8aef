"""The loop that carries out searches for source ports."""

from __future__ import annotations

import select
import time
from random import Random

from agent.ports.answer_budgets import AnswerBudgets
from agent.ports.answer_times import AnswerTimes
from agent.ports.hop_probes import HopProbeSocket
from agent.ports.linear_hash import HashModels
from agent.ports.port_search import PairPorts, PortSearch
from agent.ports.ports_in_use import PortChange, PortsInUse
from agent.ports.probe_task import ProbeTask


class PortProber:
    """Learns ports, and checks those in use by one probe each whenever it is asked again.

    Attributes:
        changes: ports in use that the last search has shown to lead elsewhere.
    """

    def __init__(
        self,
        task: ProbeTask,
        random: Random,
        probes: HopProbeSocket,
        budgets: AnswerBudgets | None = None,
        hashes: HashModels | None = None,
        times: AnswerTimes | None = None,
    ) -> None:
        """Store what is wanted; ``budgets`` of routers, their ``hashes`` and ``times`` are as others have left them."""
        self._random, self._probes = random, probes
        self.hashes, self.times = hashes or HashModels(), times or AnswerTimes()
        self.in_use, self.budgets = PortsInUse(task), budgets or AnswerBudgets(task.budget)
        self._search: PortSearch | None = None
        self.changes: list[PortChange] = []

    @property
    def is_searching(self) -> bool:
        """Whether a search is running."""
        return self._search is not None

    def search(self, seconds: float) -> list[PairPorts]:
        """Send probes and take answers until all ports are known, or the time is over.

        Raises:
            HostAgentError: no route leads to a destination.
        """
        self.begin()
        self.step(seconds)
        return self.end()

    def begin(self) -> None:
        """Begin a search."""
        self._search = PortSearch(self.in_use.task, self._random, self.budgets, self.hashes, self.times)

    def step(self, seconds: float, *interrupts: int) -> bool:
        """Go on with the search for some time; return whether it is at its end.

        Args:
            seconds: how long at most.
            interrupts: files of which one that can be read ends the step.

        Raises:
            HostAgentError: no route leads to a destination.
        """
        search = self._search
        assert search is not None
        end = time.monotonic() + seconds
        # Answers that have arrived before this time are read before probes are given up by it.
        while not search.is_done and (now := time.monotonic()) < end:
            for answer in self._probes.read():
                search.answered(answer.probe, answer.router, time.monotonic(), unreachable=answer.unreachable)
            search.expire(now)
            while (probe := search.next(now)) is not None:
                self._probes.send(probe)
            if not search.is_done:
                wait = min(search.wait(now), end - now)
                ready = select.select([self._probes.socket.fileno(), *interrupts], [], [], wait)[0]
                if not frozenset(ready).isdisjoint(interrupts):
                    break
        return search.is_done

    def so_far(self) -> list[PairPorts]:
        """Return what the search has learned, and take it into account for the ports in use."""
        assert self._search is not None
        self.changes = self.in_use.take(self._search.ports)
        return self._search.ports

    def end(self) -> list[PairPorts]:
        """End the search, and return what it has learned."""
        assert self._search is not None
        self._search.close(time.monotonic())
        ports = self.so_far()
        self._search = None
        return ports
