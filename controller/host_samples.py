"""Packets of hosts that routers have sampled, as the agents of these hosts ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import IPv4Address
from typing import Any

from controller.core.ports.runtime import Runtime
from controller.learning.sampling.seen_flows import SeenFlows
from controller.model.fabric import Fabric

KEPT_SECONDS = 60.0
"""For which a packet is kept after it was seen."""

MOST_OF_HOST = 16_384
"""Packets that are kept of one host: the newest of each flow and router."""

GONE_SECONDS = 8.0
"""Between two looks whether an agent that waits has disconnected."""

MOST_STRANGERS = 5
"""Unknown addresses of routers that are told."""

Key = tuple[str, int, str]
"""The address of the receiver, the UDP source port, and the name of the router."""


class HostSamples:
    """At which routers the packets of each host were seen last."""

    def __init__(self, runtime: Runtime, fabric: Fabric) -> None:
        """Begin without samples.

        Args:
            runtime: waiting and time.
            fabric: of the file: names of routers and hosts by their addresses.
        """
        self._runtime, self._changed = runtime, runtime.signal()
        # Samples are read of packets of IPv4.
        self._hosts = {int(IPv4Address(host.ip)): host for host in fabric.hosts if host.ip_version == 4}
        self._routers = {text: switch.name for switch in fabric.switches for text in switch.addresses}
        # Another run has given lower numbers, unless the clock was set back: then all is told again.
        self._number = int(runtime.now() * 1000)
        self._first = self._number
        self._packets: dict[str, dict[Key, tuple[int, float]]] = {}
        self._newest: dict[str, int] = {}
        self._one_in: int | None = None
        self._strangers: set[str] = set()

    def take(self, seen: SeenFlows) -> None:
        """Take what was sampled since the last call."""
        self._number += 1
        self._one_in = seen.one_in or self._one_in
        late = self._runtime.now() - self._runtime.clock()
        for flow, at in sorted(seen.at.items(), key=lambda item: item[1]):
            host, receiver, router = self._hosts.get(flow.src), self._hosts.get(flow.dst), self._routers.get(flow.agent)
            if host is None or receiver is None:
                continue
            if router is None:
                if len(self._strangers) < MOST_STRANGERS:
                    self._strangers.add(flow.agent)
                continue
            packets = self._packets.setdefault(host.name, {})
            key = receiver.ip, flow.port, router
            # The newest come last.
            packets.pop(key, None)
            packets[key] = self._number, at - late
            self._newest[host.name] = self._number
            while len(packets) > MOST_OF_HOST:
                del packets[next(iter(packets))]
        self._changed.set()
        self._changed = self._runtime.signal()

    def notices(self) -> Iterator[str]:
        """Yield what people should know of samples."""
        if self._strangers:
            yield (
                f"samples come from {', '.join(sorted(self._strangers))}, which no switch of the fabric file has among "
                "its addresses: they show no paths"
            )

    def news(self, host: str, after: int, seconds: float, gone: Callable[[], bool]) -> dict[str, Any] | None:
        """Return what was sampled of the packets of a host after a document; ``None``: nothing, within the time.

        Args:
            host: its name.
            after: number of that document; one of another run of the controller counts as none.
            seconds: how long to wait.
            gone: tells whether the agent has disconnected, which ends the wait.
        """
        end = self._runtime.clock() + seconds
        after = after if self._first <= after <= self._number else 0
        while self._newest.get(host, 0) <= after:
            left = end - self._runtime.clock()
            if left <= 0 or gone():
                return None
            self._changed.wait(min(left, GONE_SECONDS))
        now, packets = self._runtime.clock(), self._packets[host]
        for key in [key for key, (_, at) in packets.items() if now - at > KEPT_SECONDS]:
            del packets[key]
        return {
            "number": self._number,
            "one_in": self._one_in,
            "samples": [
                {"dst": dst, "port": port, "router": router, "seconds": round(max(now - at, 0.0), 3)}
                for (dst, port, router), (number, at) in packets.items()
                if number > after
            ],
        }
