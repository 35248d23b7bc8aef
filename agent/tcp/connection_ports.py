"""The source port of a connection that a program is about to make.

What the program sends takes the path of (source, its port, destination, port that listens), and what comes back that of
the reverse, which the agent of the other host probes. The source port is the only free one of these, so it has to lead
both over their paths, as far as these are planned.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator
from ipaddress import IPv4Address
from random import Random
from typing import Protocol

from agent.linux.socket_paces import mtu_to, payload_rate
from agent.plans.flow_keys import Address
from agent.ports.port_plan import PlannedConnections, PortPlan
from agent.ports.probe_task import ProbedPair
from agent.tcp.path_prober import PathProber
from agent.tcp.tcp_probes import PortPair

LOG = logging.getLogger("fairspine.agent")

ANSWER_SECONDS = 2.0
"""In which a program gets an answer; libfairspine-tcp waits a second longer."""

PEER_SECONDS = 0.8
"""Of these, for one question to the other host's agent."""

MOST_ASKED = 64
"""Candidates in one question to the other host's agent."""

KEPT_GIVEN = 4096
"""Ports that are not given again: their connections may still be there."""


class NoPortError(Exception):
    """There is no port that leads over the planned paths; with the reason in words."""


class AskPeer(Protocol):
    """Asks the agent of another host which port leads what it sends back over its planned path."""

    def __call__(self, peer: Address, listening: int, ports: list[int], until: float) -> int | None:
        """Return one of the ports; ``None``: none of them does.

        Args:
            peer: address of the host.
            listening: its port, to which the program connects.
            ports: the candidates here.
            until: by the monotonic clock.

        Raises:
            HostAgentError: its agent does not answer.
        """


class ConnectionPorts:
    """Chooses ports by the newest plan of a host. The program's side and the peers' side may be two threads."""

    def __init__(self, prober: PathProber, ask_peer: AskPeer, random: Random) -> None:
        """Store what finds paths here and at other hosts, and what draws candidates."""
        self._prober, self._ask_peer, self._random = prober, ask_peer, random
        self._plan: PortPlan | None = None
        self._given: deque[int] = deque(maxlen=KEPT_GIVEN)

    def follow(self, plan: PortPlan) -> None:
        """Take a new plan: connections that are made from now on follow it; those of IPv6 hosts follow none."""
        self._plan = plan if plan.task.source.version == 4 else None

    @property
    def source(self) -> Address | None:
        """The address of the host; ``None``: there is no plan for it."""
        return None if self._plan is None else self._plan.task.source

    def paces(self) -> dict[Address, int | None]:
        """Return the paces of connections of the plan by the other host: bytes/s of payload; ``None``: any rate."""
        plan = self._plan
        return {} if plan is None else {peer: self.pace(peer) for peer in plan.connections}

    def pace(self, peer: Address) -> int | None:
        """Return the pace of a connection to another host: bytes/s of payload; ``None``: any rate."""
        plan = self._plan
        wire = None if plan is None or peer not in plan.connections else plan.connections[peer].pace
        if plan is None or wire is None:
            return None
        try:
            return payload_rate(wire, mtu_to(plan.task.source, peer))
        except OSError:
            # Without a route there is no connection.
            return None

    def answers(self, peer: Address) -> bool:
        """Return whether the plan has connections with another host."""
        return self._plan is not None and peer in self._plan.connections

    def port(self, local: Address, peer: Address, listening: int) -> int | None:
        """Return the port for a connection; ``None``: no path is planned for it.

        Args:
            local: address from which the program connects; 0.0.0.0: it has chosen none.
            peer: address to which it connects.
            listening: port to which it connects.

        Raises:
            NoPortError: no port was found.
            HostAgentError: probes cannot be sent.
        """
        plan = self._plan
        if plan is None or local not in (plan.task.source, IPv4Address(0)):
            return None
        found = _planned(plan, peer)
        if found is None:
            return None
        pair, planned = found
        port = self._search(plan, pair, planned, listening)
        self._given.append(port)
        ways = [] if planned.path is None else [f"path {planned.path}"]
        ways += ["the path back"] if planned.comes_back else []
        LOG.info("connection to %s:%d: port %d leads over %s", peer, listening, port, " and ".join(ways))
        return port

    def _search(self, plan: PortPlan, pair: ProbedPair, planned: PlannedConnections, listening: int) -> int:
        until = time.monotonic() + ANSWER_SECONDS
        candidates = self._candidates(plan, listening)
        # With both paths given, one in so many of those that lead over the first leads over the second, too.
        enough = len(pair.routes.paths) if planned.comes_back else 1
        while time.monotonic() < until:
            if planned.path is None:
                right = [next(candidates).src_port for _ in range(MOST_ASKED)]
            else:
                ports = self._prober.right(plan.task, pair, planned.path, candidates, enough=enough, until=until)
                right = [each.src_port for each in ports]
            if not right:
                break
            if not planned.comes_back:
                return right[0]
            port = self._ask_peer(pair.dst, listening, right, min(until, time.monotonic() + PEER_SECONDS))
            if port is not None:
                return port
        raise NoPortError(f"no port was found to {pair.dst}:{listening} that leads over the planned path")

    def _candidates(self, plan: PortPlan, listening: int) -> Iterator[PortPair]:
        """Yield ports at random, none twice; with linear hashes, consecutive ones may miss paths."""
        tried = set(self._given)
        first, last = plan.task.first_port, plan.task.last_port
        while len(tried) < last - first + 1:
            port = self._random.randint(first, last)
            if port not in tried:
                tried.add(port)
                yield PortPair(port, listening)

    def for_peer(self, peer: Address, listening: int, ports: list[int], until: float) -> int | None:
        """Return the first port of another host by which what this host sends back takes its planned path.

        Args:
            peer: the other host, which connects.
            listening: port of this host.
            ports: those of the other host.
            until: by the monotonic clock.

        Raises:
            NoPortError: nothing that this host sends there is planned.
            HostAgentError: probes cannot be sent.
        """
        plan = self._plan
        found = None if plan is None else _planned(plan, peer)
        if plan is None or found is None:
            raise NoPortError(f"no path to {peer} is planned here")
        pair, planned = found
        if planned.path is None:
            return ports[0]
        candidates = (PortPair(listening, port) for port in ports)
        right = self._prober.right(plan.task, pair, planned.path, candidates, until=until)
        return right[0].dst_port if right else None


def _planned(plan: PortPlan, peer: Address) -> tuple[ProbedPair, PlannedConnections] | None:
    planned = plan.connections.get(peer)
    if planned is None:
        return None
    return next(pair for pair in plan.task.pairs if pair.dst == peer), planned
