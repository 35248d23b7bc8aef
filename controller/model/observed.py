"""What the network shows of itself: switches, ports, links that carry discovery packets, hosts that spoke."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class PortId(NamedTuple):
    """A port of a switch, by datapath id and OpenFlow port number."""

    dpid: int
    port: int


class Location(NamedTuple):
    """Where a host was heard: its MAC address and the edge port it speaks from."""

    mac: str
    at: PortId


@dataclass(frozen=True)
class Observed:
    """One snapshot.

    Attributes:
        ports: whether each port of each connected switch is up.
        links: directed: discovery packets sent out of the key arrive at the value.
        hosts: by IPv4 address.
        starting: switches have only just begun to connect: what is not seen yet may still turn up.
        young: connected switches of which the same is true one by one.
        lost: switches whose connection ended a moment ago and may be back in the next.
        duplicates: addresses that a second MAC address claims while the first still holds: (ip, first, second).
        flapping: ports that come and go so often that they count as down in ``ports``.
        gbps: the speed of each port that is up and says it.
    """

    ports: Mapping[PortId, bool] = field(default_factory=dict)
    switches: frozenset[int] = frozenset()
    links: Mapping[PortId, PortId] = field(default_factory=dict)
    hosts: Mapping[str, Location] = field(default_factory=dict)
    starting: bool = False
    young: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()
    duplicates: frozenset[tuple[str, str, str]] = frozenset()
    flapping: frozenset[PortId] = frozenset()
    gbps: Mapping[PortId, float] = field(default_factory=dict)

    def cables(self) -> list[tuple[PortId, PortId]]:
        """Links seen in both directions between two ports that are up, each once, lower end first, in order."""
        return sorted(
            (a, b)
            for a, b in self.links.items()
            if a < b and self.links.get(b) == a and self.ports.get(a, False) and self.ports.get(b, False)
        )
