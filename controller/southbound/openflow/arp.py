"""ARP that reaches the controller: it answers only where no rule can, and finds hosts whose port is not known.

A leaf delivers ARP for known hosts by rules. What is left comes here: requests for unknown targets, and answers to
our probes. A probe has sender address 0.0.0.0 (RFC 5227, section 2.1.1), so its answer has target address 0.0.0.0,
which one rule a leaf sends here. Probes and answers go out on edge ports only, never more per second than allowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ryu.lib.packet import arp, ethernet, packet
from ryu.lib.packet.ether_types import ETH_TYPE_ARP

from controller.model.observed import Location, PortId

BROADCAST = "ff:ff:ff:ff:ff:ff"
NOBODY = "0.0.0.0"
NOBODY_MAC = "00:00:00:00:00:00"
PROBE_MAC = "02:00:00:00:fa:15"
"""Source of our probes: locally administered, no host's."""


class Heard(NamedTuple):
    """An ARP packet: who says so, about whom, and whether it is a request."""

    ip: str
    mac: str
    target: str
    request: bool


def parse(data: bytes) -> Heard | None:
    """The ARP packet in a frame, ``None`` if there is none (or a broken one)."""
    try:
        found = packet.Packet(data).get_protocol(arp.arp)
    except Exception:  # Ryu's parsers raise whatever they stumble over: struct.error, AssertionError, ...
        return None
    if found is None or found.opcode not in (arp.ARP_REQUEST, arp.ARP_REPLY):
        return None
    return Heard(found.src_ip, found.src_mac, found.dst_ip, found.opcode == arp.ARP_REQUEST)


def probe(target: str) -> bytes:
    """A probe for an address."""
    return _frame(BROADCAST, arp.ARP_REQUEST, PROBE_MAC, NOBODY, NOBODY_MAC, target)


def answer(heard: Heard, owner: Location) -> bytes:
    """The reply that the owner of the requested address would give."""
    return _frame(heard.mac, arp.ARP_REPLY, owner.mac, heard.target, heard.mac, heard.ip)


def _frame(to: str, opcode: int, mac: str, ip: str, target_mac: str, target_ip: str) -> bytes:
    frame = packet.Packet()
    frame.add_protocol(ethernet.ethernet(dst=to, src=mac, ethertype=ETH_TYPE_ARP))
    frame.add_protocol(arp.arp(opcode=opcode, src_mac=mac, src_ip=ip, dst_mac=target_mac, dst_ip=target_ip))
    frame.serialize()
    return bytes(frame.data)


class Allowance:
    """A token bucket: at most ``per_second`` on average, at most that many at once."""

    def __init__(self, per_second: float, now: float) -> None:
        self._rate = per_second
        self._tokens = per_second
        self._at = now

    def take(self, now: float) -> bool:
        """Whether one more is allowed now."""
        self._tokens = min(self._rate, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class Probes:
    """Which ports are asked for which address next."""

    def __init__(self, per_second: float, now: float) -> None:
        self._allowance = Allowance(per_second, now)
        self._queue: dict[tuple[str, PortId], None] = {}

    def want(self, ip: str, ports: Iterable[PortId]) -> None:
        """Ask for an address on these ports (what already waits is not asked twice)."""
        for port in ports:
            self._queue.setdefault((ip, port))

    def found(self, ip: str) -> None:
        """The address has answered: ask no more."""
        self._queue = {key: None for key in self._queue if key[0] != ip}

    def due(self, now: float) -> list[tuple[str, PortId]]:
        """The probes to be sent now, oldest first."""
        out = []
        while self._queue and self._allowance.take(now):
            key = next(iter(self._queue))
            del self._queue[key]
            out.append(key)
        return out

    def __len__(self) -> int:
        return len(self._queue)
