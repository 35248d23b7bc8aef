"""The host feeder of the lab for TCP: tells the controller what connections of hosts send, from one thread for all."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from ipaddress import ip_address
from typing import Any

from agent.linux.tcp_connections import TcpConnections
from agent.tcp_tallies import TcpTallies
from controller.model.fabric import Fabric
from emulation.experiments.loop_thread import LoopThread
from emulation.netns import in_netns_of

READ_SECONDS, POST_SECONDS = 0.05, 0.5


class TcpFeeder(LoopThread):
    """A thread that reads the connections of hosts and posts what they have sent, until ``with`` ends.

    On real hosts, ``fairspine sightings --tcp`` does so for each.
    """

    def __init__(self, fabric: Fabric, processes: Mapping[str, int], post: Callable[[Mapping[str, Any]], None]) -> None:
        """Prepare it.

        Args:
            fabric: whose hosts have the addresses.
            processes: of each host whose connections are read, a process in its network namespace.
            post: posts the body of ``POST /v1/sightings``.
        """
        super().__init__("TCP connections")
        self._addresses = [ip_address(host.ip) for host in fabric.hosts]
        self._processes, self._post = processes, post

    def _run(self) -> None:
        with ExitStack() as closing:
            readers = []
            for pid in self._processes.values():
                connections = in_netns_of(pid, TcpConnections)
                closing.callback(connections.close)
                readers.append((connections, TcpTallies(self._addresses)))
            posted = time.monotonic()
            while not self._ended.wait(READ_SECONDS):
                for connections, tallies in readers:
                    tallies.take(connections.read(), time.time())
                if time.monotonic() - posted >= POST_SECONDS:
                    self._send([tallies for _, tallies in readers])
                    posted = time.monotonic()

    def _send(self, tallies: list[TcpTallies]) -> None:
        for each in tallies:
            body = each.body()
            if body is not None:
                self._post(body)
