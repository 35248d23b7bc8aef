"""Sightings: what a feeder reports of QPs, in the same form whether hosts, sFlow or OpenFlow counters feed it.

All TCP connections from one host to another are like one QP here: which ports they have is chance, and a job that
starts again has others.

A sighting says how much a QP had sent at a time. The unit of ``sent`` is the feeder's: bytes of a host's tally, or the
packet sequence number of the BTH (InfiniBand Architecture 1.4, section 9.2), which rises by one with each packet and
wraps at 2^24. So two sightings tell what was sent between them, whatever was lost in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from controller.model.choices.protocol import Protocol
from controller.model.fabric import FloatArray, IntArray
from controller.model.packets.flow_ports import ALL_TCP
from controller.model.traffic import Int64Array


class QpKey(NamedTuple):
    """The key of a QP, as packets show it: IPv4 addresses as integers, UDP source port, destination QP number.

    The port is ``ANY_PORT`` if the feeder does not know it, and ``ALL_TCP`` of the TCP connections of two hosts.
    Addresses of ports of a bond are greater numbers (``views.learned.address_finder``).
    """

    src: int
    dst: int
    udp_src: int
    dst_qp: int

    @property
    def protocol(self) -> Protocol:
        """The protocol of its packets."""
        return "tcp" if self.udp_src == ALL_TCP else "roce"


def tcp_key(src: int, dst: int) -> QpKey:
    """Return the key of all TCP connections from one host to another, by their addresses."""
    return QpKey(src, dst, ALL_TCP, 0)


class SightingBatch(NamedTuple):
    """N sightings of one feeder.

    Attributes:
        keys: the QPs that ``qp`` refers to.
        qp: [N] index into ``keys``.
        at: [N] seconds on the feeder's clock, in any order.
        sent: [N] counter of what the QP has sent, modulo ``wrap``.
        unit_bytes: payload bytes of one step of the counter: 1 for bytes, the path MTU for packets.
        wrap: the modulus of the counter.
        sampled: whether a sighting exists because the QP sent a packet at that time; else the counter was polled.
        open: of QPs of which the feeder knows it, whether they are there, sending or not; ``None``: of none.
    """

    keys: tuple[QpKey, ...]
    qp: IntArray
    at: FloatArray
    sent: Int64Array
    unit_bytes: int = 1
    wrap: int = 1 << 62
    sampled: bool = False
    open: Mapping[QpKey, bool] | None = None
