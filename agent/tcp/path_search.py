"""The search for a connection's ports that lead over a path: candidates are probed until enough are known.

A state machine without clocks and sockets, as ``agent/ports/port_search.py`` is for flows that a plan names: here the
ports of both ends are known only when a program connects, and one of them is given.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from agent.plans.flow_keys import Address
from agent.ports.answer_budgets import AnswerBudgets
from agent.ports.port_search import PATIENCE_SECONDS, SILENT
from agent.ports.probe_task import Answers, ProbeRoutes
from agent.tcp.tcp_probes import PortPair, TcpProbe

AT_ONCE = 2
"""Candidates under way: the probes of one more than is needed on average are waste."""


class _Flight(NamedTuple):
    sent: float
    answers: Answers
    routers: frozenset[str]


class PathSearch:
    """Finds candidates that lead over one path; ``right`` has those found, in order. Times are seconds of one clock."""

    def __init__(
        self,
        dst: Address,
        routes: ProbeRoutes,
        path: int,
        candidates: Iterator[PortPair],
        names: dict[Address, str],
        budgets: AnswerBudgets,
        *,
        enough: int = 1,
    ) -> None:
        """Begin.

        Args:
            dst: where packets go.
            routes: to it.
            path: that is wanted, of these routes.
            candidates: no one twice.
            names: of routers, by address.
            budgets: of these.
            enough: candidates to find.
        """
        self._dst, self._routes, self._path = dst, routes, path
        self._candidates, self._names, self._budgets = candidates, names, budgets
        self._enough = enough
        self.right: list[PortPair] = []
        self._ready: deque[tuple[PortPair, Answers]] = deque()
        self._under_way: dict[TcpProbe, _Flight] = {}
        self._lost_in_a_row = 0
        self._exhausted = False
        self.sent = 0

    @property
    def is_silent(self) -> bool:
        """True if routers do not answer."""
        return self._lost_in_a_row >= SILENT

    @property
    def is_done(self) -> bool:
        """True if there is nothing left to send or to wait for."""
        if len(self.right) >= self._enough or self.is_silent:
            return True
        return self._exhausted and not self._ready and not self._under_way

    def next(self, now: float) -> TcpProbe | None:
        """Return a probe to send now, which counts as sent; ``None``: there is none now."""
        if not self._ready and len(self._under_way) < AT_ONCE and not self.is_done:
            ports = next(self._candidates, None)
            if ports is None:
                self._exhausted = True
            else:
                self._ready.append((ports, ()))
        if not self._ready:
            return None
        ports, answers = self._ready[0]
        routers = self._routes.next_routers(answers)
        if not self._budgets.allows(routers, now):
            return None
        self._ready.popleft()
        probe = TcpProbe(self._dst, ports, self._routes.hops[len(answers)])
        self._budgets.send(routers, now)
        self._under_way[probe] = _Flight(now, answers, routers)
        self.sent += 1
        return probe

    def wait(self, now: float) -> float:
        """Return the seconds until something is to be done if no answer comes before."""
        ends = [flight.sent + PATIENCE_SECONDS - now for flight in self._under_way.values()]
        if self._ready:
            ends.append(self._budgets.wait(self._routes.next_routers(self._ready[0][1]), now))
        return max(min(ends, default=0.0), 0.0)

    def answered(self, probe: TcpProbe, address: Address, now: float, *, unreachable: bool) -> None:
        """Take an answer; one that is not awaited is ignored."""
        flight = self._under_way.pop(probe, None)
        if flight is None:
            return
        router = self._names.get(address, str(address))
        self._budgets.answered(flight.routers, router, now)
        self._lost_in_a_row = 0
        answers = (*flight.answers, router)
        fitting = {path for each, path in self._routes.paths.items() if each[: len(answers)] == answers}
        if unreachable or self._path not in fitting:
            return
        if len(answers) == len(self._routes.hops):
            self.right.append(probe.ports)
        else:
            self._ready.append((probe.ports, answers))

    def expire(self, now: float) -> None:
        """Give up probes without an answer. All answers that have arrived must have been taken before."""
        for probe, flight in [*self._under_way.items()]:
            if now - flight.sent >= PATIENCE_SECONDS:
                del self._under_way[probe]
                self._budgets.lost(flight.routers, now)
                self._lost_in_a_row += 1

    def close(self, now: float) -> None:
        """Give up all probes that are under way."""
        for flight in self._under_way.values():
            self._budgets.lost(flight.routers, now)
        self._under_way.clear()
