"""The threads that answer programs, and agents of other hosts, while the port agent goes on.

There are two, so that no agent waits for another one that waits for it. A third one keeps the paces of connections.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from random import Random

from agent.linux.socket_paces import KeptPaces, SocketPaces, lend
from agent.linux.tcp_connections import TcpConnections
from agent.plans.flow_keys import Address
from agent.ports.port_plan import PortPlan
from agent.tcp.connection_ports import ConnectionPorts
from agent.tcp.path_prober import PathProber
from agent.tcp.peers import PeerServer, ask_peer
from agent.tcp.programs import ProgramServer

LOG = logging.getLogger("fairspine.agent")

LOOK_SECONDS = 0.5
"""Between two looks for new connections, while there are paces."""


class TcpService:
    """Source ports for the TCP connections of a host's programs."""

    def __init__(self, name: str, interface: str | None, random: Random) -> None:
        """Listen for programs.

        Args:
            name: of the socket (``ProgramServer``).
            interface: by which probes leave; ``None``: by routes.
            random: draws candidates.

        Raises:
            HostAgentError: the socket cannot be used.
        """
        self._prober = PathProber(interface)
        self._ports = ConnectionPorts(self._prober, self._ask, random)
        self._programs, self._peers = ProgramServer(name, self._ports), PeerServer(self._ports)
        self._stopped = False
        self._wakers = [os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) for _ in range(3)]
        loops = self._serve_programs, self._serve_peers, self._keep_paces
        self._threads = [threading.Thread(target=loop, daemon=True) for loop in loops]
        for thread in self._threads:
            thread.start()

    def follow(self, plan: PortPlan) -> None:
        """Take a new plan."""
        self._ports.follow(plan)
        self._wake()

    def close(self) -> None:
        """End the threads."""
        self._stopped = True
        self._wake()
        for thread in self._threads:
            thread.join()
        self._programs.close()
        self._peers.close()
        self._prober.close()
        for pipe in self._wakers:
            for end in pipe:
                os.close(end)

    def _wake(self) -> None:
        for _, end in self._wakers:
            os.write(end, b"x")

    def _ask(self, peer: Address, listening: int, ports: list[int], until: float) -> int | None:
        source = self._ports.source
        assert source is not None
        return ask_peer(source, peer, {"listening": listening, "ports": ports}, until)

    def _serve_programs(self) -> None:
        woken, listener = self._wakers[0][0], self._programs.listener.fileno()
        while not self._stopped:
            ready = select.select([woken, listener], [], [])[0]
            if woken in ready:
                os.read(woken, 64)
            elif listener in ready:
                self._programs.serve()

    def _serve_peers(self) -> None:
        woken = self._wakers[1][0]
        while not self._stopped:
            listener = self._peers.listen()
            ready = select.select([woken, *([] if listener is None else [listener.fileno()])], [], [])[0]
            if woken in ready:
                os.read(woken, 64)
            elif ready:
                self._peers.serve()

    def _keep_paces(self) -> None:
        woken, connections = self._wakers[2][0], TcpConnections()
        sockets, kept = SocketPaces(lambda: connections.read().open, lend), KeptPaces()
        while not self._stopped:
            source, paces = self._ports.source, self._ports.paces()
            # What an agent before this one has set is lifted when a plan comes.
            if source is not None and (paces or sockets.holds):
                kept = self._kept(sockets, source, paces, kept)
            busy = sockets.holds or any(pace is not None for pace in paces.values())
            if select.select([woken], [], [], LOOK_SECONDS if busy else None)[0]:
                os.read(woken, 64)
        # The agent ends: without it, paces would stay when the plan changes.
        if (source := self._ports.source) is not None and sockets.holds:
            self._kept(sockets, source, {}, kept)
        connections.close()

    def _kept(
        self, sockets: SocketPaces, source: Address, paces: dict[Address, int | None], before: KeptPaces
    ) -> KeptPaces:
        try:
            kept = sockets.keep(source, paces)
        except OSError as error:
            LOG.error("the kernel does not tell of connections: %s", error.strerror)
            return before
        if kept != before:
            text = f"{kept.paced} of {kept.planned} connections keep paces"
            LOG.info("%s", f"{text}: {kept.reason}" if kept.reason else text)
        return kept
