"""The observed state of the network: switches, ports, links that carry discovery packets, hosts that sent packets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from controller.model.switch_key import SwitchKey, in_order


class PortId(NamedTuple):
    """A port of a switch, by the switch's key and the number of the port."""

    switch: SwitchKey
    port: int


def port_ids(switches: Iterable[SwitchKey], ports: Iterable[int]) -> list[PortId]:
    """Return many ports at once, in a third of the time: a large fabric has half a million."""
    # What the constructor of a named tuple does, without a call of a function for each.
    return list(map(partial(tuple.__new__, PortId), zip(switches, ports, strict=True)))


class Location(NamedTuple):
    """The observed location of a host: its MAC address and its edge port."""

    mac: str
    at: PortId


class Clash(NamedTuple):
    """A claim to an address that was rejected, or could not be followed.

    Attributes:
        kind: ``clash``: another host holds it; ``misplaced``: the host answers there, and the fabric file does not
            allow it there; ``full``: the port (or the table) has as many hosts as are allowed.
        ip: the address that is claimed, as in ``NetworkState.hosts``, with ``mac``, at the port ``at``.
        against: IPv4 address of the host that keeps its place (the same one, or one that has the MAC address); empty
            if there is none.
        kept_at: that place.
    """

    kind: str
    ip: str
    mac: str
    at: PortId
    against: str
    kept_at: PortId | None


class PortlessPath(NamedTuple):
    """A path that no source port leads over, by the hashes of routers.

    Attributes:
        host: name of the sending host.
        dst: IPv4 address of the receiver.
        map: the state of the cables in which this holds (``controller.southbound.probed_ports.port_maps.map_name``).
        path: number of the path.
    """

    host: str
    dst: str
    map: str
    path: int


@dataclass(frozen=True)
class NetworkState:
    """One snapshot of the observed state.

    Attributes:
        ports: whether each port of each connected switch is up.
        links: directed: discovery packets sent from the key arrive at the value.
        silent: ports that are up and whose discovery packets are certainly lost. Of a port that is neither here nor in
            ``links``, it is unknown whether it leads anywhere.
        hosts: by IPv4 address, with its zone (``controller.model.texts.zones``).
        starting: switches have only just begun to connect: unseen parts may still appear.
        lost: switches whose connection ended a moment ago and may be restored soon.
        clashes: claims to hosts' addresses that were rejected.
        flapping: ports that change state so often that they count as down in ``ports``.
        unobserved: switches of the fabric file that the observer cannot see: nothing follows from their absence.
        gbps: the speed of each port that is up and reports it.
        shown_cables: what others than the observer have shown of cables (BGP of routers, agents of hosts), by number of
            the cable in the fabric file: why it is down, or an empty text if it works.
        passed_cables: those of which they have shown no more than that probes come back over them, or beside them.
        portless: what the agents of hosts have shown of paths that no source port leads over.
    """

    ports: Mapping[PortId, bool] = field(default_factory=dict)
    switches: frozenset[SwitchKey] = frozenset()
    links: Mapping[PortId, PortId] = field(default_factory=dict)
    hosts: Mapping[str, Location] = field(default_factory=dict)
    starting: bool = False
    lost: frozenset[SwitchKey] = frozenset()
    silent: frozenset[PortId] = frozenset()
    clashes: frozenset[Clash] = frozenset()
    flapping: frozenset[PortId] = frozenset()
    gbps: Mapping[PortId, float] = field(default_factory=dict)
    unobserved: frozenset[SwitchKey] = frozenset()
    shown_cables: Mapping[int, str] = field(default_factory=dict)
    passed_cables: Set[int] = frozenset()
    portless: frozenset[PortlessPath] = frozenset()

    def cables(self, links: Mapping[PortId, PortId] | None = None) -> list[tuple[PortId, PortId]]:
        """Return links seen in both directions between two ports that are up, each once, lower end first, in order.

        Args:
            links: only these; ``None``: all.
        """
        ends = [
            (a, b)
            for a, b in (self.links if links is None else links).items()
            if self.links.get(b) == a and self.ports.get(a, False) and self.ports.get(b, False)
        ]
        if not ends or all(isinstance(a.switch, int) for a, _ in ends):
            return sorted((a, b) for a, b in ends if a < b)
        return sorted(((a, b) for a, b in ends if _order(a) < _order(b)), key=lambda each: tuple(map(_order, each)))


def _order(port: PortId) -> tuple[tuple[int, str], int]:
    return in_order(port.switch), port.port
