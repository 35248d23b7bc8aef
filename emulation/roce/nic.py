"""A NIC: an endpoint for each of its addresses, served by one loop in one process.

One process has all ports of a NIC, since a message of a connection is cut into stripes that leave by different ports,
from one memory and into one memory. Each port has its own pacer, as each has its own link.

Requests of a queue pair leave by the port that it was given, and ``move`` gives it another one, to another address of
the same peer: the stripe of a plane that failed goes on in a plane that lives (as InfiniBand's automatic path migration
does, volume 1, chapter 17.2.8). A responder takes the packets of a queue pair at any of its addresses, from any address
of its peer, and answers by the way that they came: so only the requester has to know of a move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from controller.model.errors import InputError
from controller.model.texts.zones import plain
from emulation.roce.loop import EndpointLoop
from emulation.roce.receiver import Receiver
from emulation.roce.sender import Sender
from emulation.roce.udp import EndpointCounters, UdpEndpoint


class QpPath(NamedTuple):
    """The way of a queue pair's packets: own address, the peer's (both with zones), UDP source port, and DSCP."""

    src: str
    dst: str
    udp_src: int
    dscp: int = 0


@dataclass(slots=True)
class _Outgoing:
    path: QpPath
    sender: Sender
    done: Callable[[Any], None]


class NicEndpoint:
    """Queue pairs of a host with one or several addresses. Close it, or use it in a ``with`` statement.

    Args:
        addresses: its own IPv4 addresses, one for each port. Those of a bond differ in their zones
            (``controller.model.texts.zones``).
        port: UDP port of RoCE.
        line_rate: bit/s that each port sends at most.
        namespaces: by address: a process in whose network namespace the port is; other ports are in this one's.

    Raises:
        InputError: an address that is no host address, or a port that is taken.
    """

    def __init__(
        self, addresses: Sequence[str], *, port: int, line_rate: float, namespaces: Mapping[str, int] = {}
    ) -> None:
        """Open an endpoint for each address."""
        self.loop = EndpointLoop()
        self._endpoints: dict[str, UdpEndpoint] = {}
        self._outgoing: dict[int, _Outgoing] = {}
        try:
            for address in addresses:
                self._endpoints[address] = UdpEndpoint(
                    plain(address), port=port, line_rate=line_rate, loop=self.loop, netns_of=namespaces.get(address)
                )
        except InputError:
            self.close()
            raise

    def __enter__(self) -> NicEndpoint:
        """Return the NIC."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the NIC."""
        self.close()

    def close(self) -> None:
        """Close all endpoints."""
        for endpoint in self._endpoints.values():
            endpoint.close()
        self.loop.close()

    @property
    def counters(self) -> EndpointCounters:
        """The counters of all endpoints together."""
        every = [endpoint.counters for endpoint in self._endpoints.values()]
        return EndpointCounters(*(sum(getattr(one, field.name) for one in every) for field in fields(EndpointCounters)))

    def add_sender(self, qp: int, sender: Sender, path: QpPath, done: Callable[[Any], None] = lambda tag: None) -> None:
        """Attach a requester as queue pair ``qp``; ``done(tag)`` is called for each completed message."""
        self._endpoint(path.src).add_sender(qp, sender, plain(path.dst), path.udp_src, done, dscp=path.dscp)
        self._outgoing[qp] = _Outgoing(path, sender, done)

    def add_receiver(
        self, qp: int, receiver: Receiver, peers: Iterable[str], arrived: Callable[[int, int], None]
    ) -> None:
        """Attach a responder as queue pair ``qp`` of a peer with these addresses, at each own address."""
        peers = tuple(map(plain, peers))
        for endpoint in self._endpoints.values():
            endpoint.add_receiver(qp, receiver, peers, arrived)

    def path(self, qp: int) -> QpPath:
        """Return the present path of a requester's queue pair."""
        return self._outgoing[qp].path

    def move(self, qp: int, path: QpPath) -> None:
        """Give a requester's queue pair another path, and send again what the old one may have lost."""
        moved = self._outgoing[qp]
        if path == moved.path:
            return
        self._endpoint(moved.path.src).remove_sender(qp)
        at = self._endpoint(path.src)
        at.add_sender(qp, moved.sender, plain(path.dst), path.udp_src, moved.done, dscp=path.dscp)
        moved.path = path
        moved.sender.resend()

    def pace(self, qp: int, pace: float | None) -> None:
        """Make a requester's queue pair keep a pace in bit/s of payload; ``None``: any longer none."""
        self._outgoing[qp].sender.pace = pace

    def _endpoint(self, address: str) -> UdpEndpoint:
        if address not in self._endpoints:
            raise InputError("the host does not have this address", field="src", value=address)
        return self._endpoints[address]
