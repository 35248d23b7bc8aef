"""Carries out searches for the ports of connections, one at a time, for whichever thread asks."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Iterator

from agent.plans.flow_keys import Address
from agent.ports.answer_budgets import AnswerBudgets
from agent.ports.probe_sockets import ProbeSockets
from agent.ports.probe_task import AnswerBudget, ProbedPair, ProbeTask
from agent.tcp.path_search import PathSearch
from agent.tcp.tcp_probes import PortPair, TcpProbePackets


class PathProber:
    """Sends the probes of one host."""

    def __init__(self, interface: str | None) -> None:
        """Store by which interface probes leave; ``None``: by routes."""
        self._interface = interface
        self._one_at_a_time = threading.Lock()
        self._sockets: ProbeSockets | None = None
        self._packets: TcpProbePackets | None = None
        self._source: Address | None = None
        self._budget: AnswerBudget | None = None
        self._budgets: AnswerBudgets | None = None

    def right(
        self,
        task: ProbeTask,
        pair: ProbedPair,
        path: int,
        candidates: Iterator[PortPair],
        *,
        enough: int = 1,
        until: float,
    ) -> list[PortPair]:
        """Return candidates that lead over a path: as many as are enough, or those found until a time.

        Args:
            task: what the host knows of routers.
            pair: the destination.
            path: to it.
            candidates: no one twice.
            enough: how many.
            until: by the monotonic clock.

        Raises:
            HostAgentError: probes cannot be sent.
        """
        with self._one_at_a_time:
            sockets, packets, budgets = self._ready(task)
            search = PathSearch(pair.dst, pair.routes, path, candidates, dict(task.routers), budgets, enough=enough)
            # Answers that have arrived before this time are read before probes are given up by it.
            while not search.is_done and (now := time.monotonic()) < until:
                for data in sockets.received():
                    answer = packets.answer(data)
                    if answer is not None:
                        search.answered(answer.probe, answer.router, time.monotonic(), unreachable=answer.unreachable)
                search.expire(now)
                while (probe := search.next(now)) is not None:
                    sockets.send_packet(packets.packet(probe), probe.dst)
                if not search.is_done:
                    select.select([sockets.socket], [], [], min(search.wait(now), until - now))
            search.close(time.monotonic())
            packets.forget()
            return search.right[:enough]

    def close(self) -> None:
        """Close the sockets."""
        with self._one_at_a_time:
            self._close()

    def _close(self) -> None:
        if self._sockets is not None:
            self._sockets.close()
        self._sockets = self._packets = None

    def _ready(self, task: ProbeTask) -> tuple[ProbeSockets, TcpProbePackets, AnswerBudgets]:
        if self._source != task.source:
            self._close()
        if self._sockets is None or self._packets is None:
            self._sockets, self._packets = ProbeSockets(task.source, self._interface), TcpProbePackets(task.source)
            self._source = task.source
        if self._budgets is None or self._budget != task.budget:
            self._budget, self._budgets = task.budget, AnswerBudgets(task.budget)
        return self._sockets, self._packets, self._budgets
