"""What sampled packets say of ports: the routers at which packets of a port were seen leave the paths that pass these.

Routers that send no ICMP messages may still send the first bytes of some packets to a collector (sFlow). A sampled
packet has the addresses and ports of its flow, so its router is on the path of its source port, as a router is that
answers a hop-limited probe (``probe_task.py``). One seen at the right layer is enough in most fabrics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from agent.plans.flow_keys import Address
from agent.ports.probe_task import Answers, ProbeRoutes

MOST_PORTS = 16_384
"""Of a destination: those that were seen last."""

TOGETHER_SECONDS = 10.0
"""Packets of a port that were seen at most so long one after the other, in two layers, have taken one path."""

TURNS = 2
"""A port has moved when it is seen at another router of a layer, and takes both when it is at the former one again."""


class SeenPacket(NamedTuple):
    """A packet that a router has sampled: its destination, its source port, the router, and when it was told."""

    dst: Address
    port: int
    router: str
    at: float


class ShownPaths(NamedTuple):
    """What is known of a port.

    Attributes:
        paths: those that pass all routers at which packets were seen last, one of each layer.
        at: how new that is; ``-inf``: no packet was seen.
        both: packets were seen at two routers of one layer in turn: no path of the file is like that.
        routers: at which packets were seen last, in the order of hops.
    """

    paths: frozenset[int]
    at: float
    both: bool
    routers: Answers


@dataclass
class _Port:
    """For each hop, the router at which a packet was seen last, and when; how often the router has changed."""

    last: dict[int, tuple[str, float]] = field(default_factory=dict)
    turns: dict[int, int] = field(default_factory=dict)
    former: dict[int, str] = field(default_factory=dict)


class SampledPaths:
    """The ports of one destination, as far as samples show their paths. Times are seconds of one clock."""

    def __init__(self, routes: ProbeRoutes) -> None:
        """Begin without samples; ``routes``: the routers of each path."""
        self._all = routes.numbers
        self._through: dict[str, dict[int, frozenset[int]]] = {}
        for answers, path in routes.paths.items():
            for hop, router in enumerate(answers):
                of = self._through.setdefault(router, {})
                of[hop] = of.get(hop, frozenset()) | {path}
        self._ports: dict[int, _Port] = {}

    def take(self, packet: SeenPacket) -> None:
        """Take a sampled packet; of a router that tells nothing of paths, it is ignored."""
        hops = self._through.get(packet.router)
        if hops is None:
            return
        seen = self._ports[packet.port] = self._ports.pop(packet.port, _Port())
        # A router of two layers cannot tell at which of them a packet was.
        for hop in hops if len(hops) == 1 else ():
            router, at = seen.last.get(hop, (packet.router, packet.at))
            if at > packet.at:
                continue
            if router != packet.router:
                again = seen.former.get(hop) == packet.router
                seen.turns[hop] = seen.turns.get(hop, 0) + 1 if again else 1
                seen.former[hop] = router
            seen.last[hop] = packet.router, packet.at
        while len(self._ports) > MOST_PORTS:
            del self._ports[next(iter(self._ports))]

    def __iter__(self) -> Iterator[int]:
        """Yield the ports of which packets were seen."""
        return iter([*self._ports])

    def shown(self, port: int) -> ShownPaths:
        """Return what is known of a port."""
        seen = self._ports.get(port)
        if seen is None or not seen.last:
            return ShownPaths(self._all, float("-inf"), False, ())
        newest = max(at for _, at in seen.last.values())
        # A port that has moved is not seen any more where it was.
        recent = {hop: each for hop, each in seen.last.items() if newest - each[1] <= TOGETHER_SECONDS}
        every = [(self._through[router][hop], at) for hop, (router, at) in recent.items()]
        left = self._all.intersection(*(paths for paths, _ in every))
        # Where one router names the path, the others are not needed; else the oldest of all counts.
        naming = [at for paths, at in every if len(paths) == 1]
        at = max(naming) if naming else min(at for _, at in every)
        routers = tuple(router for _, (router, _) in sorted(recent.items()))
        both = any(turns >= TURNS for turns in seen.turns.values())
        return ShownPaths(left, at, both, routers)
