"""Probe packets of planned flows, and checks of the links that counted them and the hosts that received them."""

from __future__ import annotations

import random
import socket
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType

from controller.model.fabric import Fabric
from controller.model.packets.port_numbers import ROCE_PORT
from emulation.lab import Lab
from emulation.netns import socket_in_netns_of
from tests.campaigns.faults.state import ExpectedPiece

UNKNOWN_PORT = 4242
"""Sent from where the controller does not know the port: any one will do."""
PAYLOAD = bytes(4000)
FRAME_BYTES = len(PAYLOAD) + 42
FEWEST, MOST = 4, 16
"""Packets of one flow: no two flows are likely to have the same number, so that two that swapped their paths show."""
GAP_SECONDS = 0.0004
"""Between two packets: a burst would overrun the switches' receive queues."""
LATE_SECONDS = 5.0
"""For packets that a busy machine delays; a packet that is lost costs this time."""
NOISE_BYTES = FRAME_BYTES // 2
"""Bytes of other traffic on a link meanwhile: discovery and ARP."""

Delivery = tuple[str, str, int]
"""Source, destination and UDP source port."""


class Probes:
    """Sockets in all hosts: one that receives RoCE packets, and one for each source port."""

    def __init__(self, lab: Lab, fabric: Fabric) -> None:
        """Open the receiving sockets."""
        self._lab, self._fabric = lab, fabric
        self._address = {host.name: host.ip for host in fabric.hosts}
        planes = fabric.planes
        networks = planes.network_of_plane[planes.of_host].tolist()
        self._network = dict(zip(fabric.host_names, networks, strict=True))
        self._name = {(network, host.ip): host.name for network, host in zip(networks, fabric.hosts, strict=True)}
        self._pid = {host.name: lab.host(host.name).pid for host in fabric.hosts}
        self._sinks = {host.name: self._socket(host.name, ROCE_PORT) for host in fabric.hosts}
        self._senders: dict[tuple[str, int], socket.socket] = {}

    def __enter__(self) -> Probes:
        """Return the probes."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close all sockets."""
        for made in (*self._sinks.values(), *self._senders.values()):
            made.close()

    def trickle(self, pieces: Iterable[ExpectedPiece]) -> None:
        """Send one small packet of each flow, without a check of its arrival."""
        for piece in pieces:
            self._send(piece, b"trickle")
        self._receive(Counter())

    def check(self, pieces: Sequence[ExpectedPiece], switches: Iterable[str], rng: random.Random) -> list[str]:
        """Send some packets of every flow; return the losses and the deviations from planned links.

        Args:
            pieces: the flows and their planned links.
            switches: switches that have power, whose counters are read.
            rng: draws the number of packets.
        """
        switches = list(switches)
        self._forget(pieces)
        amount = {number: rng.randint(FEWEST, MOST) for number in range(len(pieces))}
        wanted: Counter[Delivery] = Counter()
        planned: Counter[str] = Counter()
        for number, piece in enumerate(pieces):
            wanted[_delivery(piece)] += amount[number]
            planned.update(dict.fromkeys(piece.links[1:-1], amount[number] * FRAME_BYTES))
        self._receive(Counter())
        before = self._received_bytes(switches)
        received: Counter[Delivery] = Counter()
        for turn in range(MOST):
            for number, piece in enumerate(pieces):
                if turn < amount[number]:
                    self._send(piece, PAYLOAD)
                    time.sleep(GAP_SECONDS)
                    self._receive(received)
        deadline = time.monotonic() + LATE_SECONDS
        while received != wanted and time.monotonic() < deadline:
            time.sleep(GAP_SECONDS)
            self._receive(received)
        found = [
            f"{src} to {dst} from port {port}: {count} packets sent, {received[src, dst, port]} received"
            for (src, dst, port), count in wanted.items()
            if received[src, dst, port] != count
        ]
        found += [f"received but never sent: {delivery}" for delivery in received if delivery not in wanted]
        if any(not piece.links for piece in pieces):
            return found  # spread by the switches: nobody knows where
        after = self._received_bytes(switches)
        for link, count in after.items():
            extra = count - before.get(link, 0) - planned[link]
            if abs(extra) > NOISE_BYTES:
                found.append(f"{link} carried {extra:+d} bytes more than the planned {planned[link]}")
        return found

    def _send(self, piece: ExpectedPiece, data: bytes) -> None:
        key = piece.src, _port(piece)
        if key not in self._senders:
            self._senders[key] = self._socket(*key)
        try:
            self._senders[key].sendto(data, (self._address[piece.dst], ROCE_PORT))
        except OSError:
            # The host's link is down, or its neighbour does not answer: the check reports the missing packet.
            return

    def _receive(self, received: Counter[Delivery]) -> None:
        """Count the large packets that have come; small ones only trickle."""
        for name, sink in self._sinks.items():
            while True:
                try:
                    data, (ip, port) = sink.recvfrom(len(PAYLOAD))
                except OSError:
                    break
                if len(data) == len(PAYLOAD):
                    received[self._name[self._network[name], ip], name, port] += 1

    def _received_bytes(self, switches: Iterable[str]) -> Mapping[str, int]:
        """Return, for each link between switches, the bytes that the switch at its end has received."""
        ports = {switch: self._lab.port_counters(switch) for switch in switches}
        found = {}
        for cable, number in zip(self._fabric.cables, self._fabric.cable_number.tolist(), strict=True):
            suffix = f":{number}" if number else ""
            ends = (cable.upper, cable.upper_port, cable.lower), (cable.lower, cable.lower_port, cable.upper)
            for end, port, source in ends:
                if end in ports and port in ports[end]:
                    found[f"{source}->{end}{suffix}"] = ports[end][port].rx_bytes
        return found

    def _forget(self, pieces: Iterable[ExpectedPiece]) -> None:
        """Close the sockets of source ports that are no longer used."""
        needed = {(piece.src, _port(piece)) for piece in pieces}
        for key in self._senders.keys() - needed:
            self._senders.pop(key).close()

    def _socket(self, host: str, port: int) -> socket.socket:
        made = socket_in_netns_of(self._pid[host], socket.AF_INET, socket.SOCK_DGRAM)
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        made.bind((self._address[host], port))
        return made


def _port(piece: ExpectedPiece) -> int:
    return UNKNOWN_PORT if piece.udp_src is None else piece.udp_src


def _delivery(piece: ExpectedPiece) -> Delivery:
    return piece.src, piece.dst, _port(piece)
