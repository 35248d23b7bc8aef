"""Packets of watch windows that leaves send to the controller at a steady rate, whatever windows there are."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Address
from itertools import count, cycle

from controller.model.fabric import Fabric
from controller.model.packets.port_numbers import ROCE_PORT
from controller.model.traffic import FIRST_PORT
from controller.southbound.rollout.watch_rules import WINDOW_COOKIE
from tests.openflow_writer import in_port_match, packet_in

_ETHERNET, _IP, _UDP, _BTH = bytes(12) + b"\x08\x00", struct.Struct("!BBHHHBBH4s4s"), 8, 12
_LATEST = 0.1
"""Seconds of packets that are sent late, at most, after the process was held up."""


class Flood:
    """Sends packets until they are all sent.

    Attributes:
        sent: packets so far.
    """

    def __init__(self, fabric: Fabric, leaves: int, per_second: float, packets: int, size: int) -> None:
        """Prepare it.

        Args:
            fabric: whose first hosts of a leaf send to a host of the next leaf.
            leaves: how many of them send, from the first on.
            per_second: packets of all of them together.
            packets: in all; each is of a flow of its own, as long as there are source ports.
            size: bytes of a frame.
        """
        self.sent, self._rate, self._left, self._at = 0, per_second, packets, 0.0
        self._frames = _frames(fabric, leaves, size)

    @property
    def is_over(self) -> bool:
        """True if all packets are sent."""
        return not self._left

    def step(self, now: float, send: Callable[[str, bytes], None]) -> None:
        """Send what is due, by ``send(leaf, message)``; ``now`` is in seconds of a monotonic clock."""
        self._at = max(self._at, now - _LATEST)
        while self._left and self._at <= now:
            send(*next(self._frames))
            self._at += 1 / self._rate
            self.sent += 1
            self._left -= 1


def _frames(fabric: Fabric, leaves: int, size: int) -> Iterator[tuple[str, bytes]]:
    first = {host.leaf: host for host in reversed(fabric.hosts)}
    names: Sequence[str] = [leaf.name for leaf in fabric.leaves]
    turns = cycle((first[name], first[names[(i + 1) % len(names)]]) for i, name in enumerate(names[:leaves]))
    for number in count():
        src, dst = next(turns)
        ends = IPv4Address(src.ip).packed, IPv4Address(dst.ip).packed
        ip = _IP.pack(0x45, 0, size - len(_ETHERNET), 0, 0x4000, 64, 17, 0, *ends)
        port = FIRST_PORT + number // leaves % (0xFFFF - FIRST_PORT)
        udp = struct.pack("!HHHH", port, ROCE_PORT, size - len(_ETHERNET) - _IP.size, 0)
        bth = struct.pack("!BBHII", 0x07, 0, 0xFFFF, number & 0xFFFFFF, number & 0xFFFFFF)
        frame = (_ETHERNET + ip + udp + bth).ljust(size, b"\0")
        assert src.port is not None
        yield src.leaf, packet_in(frame, in_port_match(src.port), cookie=WINDOW_COOKIE)
