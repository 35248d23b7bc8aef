"""Sightings: what a feeder reports of QPs, in the same form whether hosts, sFlow or OpenFlow counters feed it.

A sighting says how much a QP had sent at a time. The unit of ``sent`` is the feeder's: bytes of a host's tally, or the
packet sequence number of the BTH (InfiniBand Architecture 1.4, section 9.2), which rises by one with each packet and
wraps at 2^24. So two sightings tell what was sent between them, whatever was lost in between.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from controller.model.fabric import FloatArray, IntArray
from controller.model.traffic import Int64Array

PSN_WRAP = 1 << 24


class QpKey(NamedTuple):
    """What identifies a QP in packets: IPv4 addresses as integers, UDP source port, destination QP number."""

    src: int
    dst: int
    udp_src: int
    dst_qp: int


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
    """

    keys: tuple[QpKey, ...]
    qp: IntArray
    at: FloatArray
    sent: Int64Array
    unit_bytes: int = 1
    wrap: int = 1 << 62
    sampled: bool = False

    @staticmethod
    def of_packets(rows: list[tuple[QpKey, float, int]], mtu: int) -> SightingBatch:
        """Return the batch of sampled packets (QP, time, PSN)."""
        keys = tuple(dict.fromkeys(key for key, _, _ in rows))
        index = {key: i for i, key in enumerate(keys)}
        return SightingBatch(
            keys, np.array([index[key] for key, _, _ in rows], dtype=np.int32),
            np.array([at for _, at, _ in rows], dtype=np.float64),
            np.array([psn for _, _, psn in rows], dtype=np.int64),
            mtu, PSN_WRAP, sampled=True,
        )  # fmt: skip

    @staticmethod
    def of_tallies(rows: list[tuple[QpKey, float, int]]) -> SightingBatch:
        """Return the batch of polled counters (QP, time, bytes)."""
        packets = SightingBatch.of_packets(rows, 1)
        return packets._replace(wrap=1 << 62, sampled=False)
