"""Tallies of sampled packets, gathered between two reports; memory is bounded, whatever arrives."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np

from controller.learning.sampling.sampled_tcp import SampledTcp, between
from controller.learning.sampling.seen_flows import NOTHING_SEEN, SeenAt, SeenFlows
from controller.learning.sampling.sflow import FlowSample, SflowDatagram, SflowError, parse_datagram
from controller.learning.sightings import QpKey, SightingBatch
from controller.model.fabric import FloatArray, IntArray
from controller.model.packets.roce_packet import KEY_BYTES, path_mtu, roce_packet
from controller.model.packets.tcp_packet import tcp_packet
from controller.model.traffic import Int64Array

PSN_WRAP = 1 << 24
MOST_TALLIES = 400_000
"""Sampled packets that are kept until they are asked for; further ones are counted and dropped."""
MOST_QPS = 1 << 17
MOST_SOURCES = 1 << 16
_SMALL_GAP = 1 << 16
"""A sequence number that rises by more belongs to an agent that has begun anew."""
_KEY = np.dtype([("src", ">u4"), ("dst", ">u4"), ("udp_src", ">u2"), ("high", "u1"), ("low", ">u2")])
assert _KEY.itemsize == KEY_BYTES


@dataclass
class SflowCounts:
    """Numbers since the last report.

    Attributes:
        datagrams: from agents that are allowed.
        refused: datagrams from others.
        malformed: datagrams that are no sFlow.
        lost: datagrams that are missing between others of their agent.
        samples: sampled packets, of any kind.
        dropped_by_switches: samples that switches report as dropped.
        dropped: sampled packets of QPs for which there was no room.
    """

    datagrams: int = 0
    refused: int = 0
    malformed: int = 0
    lost: int = 0
    samples: int = 0
    dropped_by_switches: int = 0
    dropped: int = 0


@dataclass(frozen=True, eq=False)
class SampledReport:
    """What was sampled since the last report.

    Attributes:
        counts: of datagrams and samples.
        keys: [K * KEY_BYTES] the QPs.
        mtu: [K] path MTU of each.
        qp: [N] index into the QPs.
        at: [N] seconds since 1970.
        psn: [N] packet sequence number.
        tcp: what TCP connections of all hosts have sent.
        seen: at which switches packets to the port of RoCEv2 were seen.
    """

    counts: SflowCounts
    keys: bytes
    mtu: IntArray
    qp: IntArray
    at: FloatArray
    psn: Int64Array
    tcp: SightingBatch
    seen: SeenFlows = NOTHING_SEEN

    def __len__(self) -> int:
        """Return the number of sampled packets."""
        return len(self.qp) + len(self.tcp.qp)

    def batches(self, known: Int64Array | None = None) -> list[SightingBatch]:
        """Return the sightings, a batch for each path MTU, and one for TCP.

        Args:
            known: addresses of hosts; QPs of other ones are left out. ``None``: of all.
        """
        rows = np.frombuffer(self.keys, dtype=_KEY)
        src, dst, port = (rows[name].astype(np.int64) for name in ("src", "dst", "udp_src"))
        number = rows["high"].astype(np.int64) << 16 | rows["low"]
        wanted = np.ones(len(rows), dtype=np.bool_)
        if known is not None:
            wanted = np.isin(src, known) & np.isin(dst, known)
        batches = []
        for mtu in np.unique(self.mtu[wanted]).tolist():
            mine = wanted & (self.mtu == mtu)
            place = np.cumsum(mine) - 1
            chosen = mine[self.qp]
            columns = (column[mine].tolist() for column in (src, dst, port, number))
            keys = tuple(map(QpKey, *columns))
            batches.append(
                SightingBatch(
                    keys,
                    place[self.qp[chosen]].astype(np.int32),
                    self.at[chosen],
                    self.psn[chosen],
                    mtu,
                    PSN_WRAP,
                    sampled=True,
                )
            )
        tcp = between(self.tcp, known)
        return [*batches, tcp] if len(tcp.qp) else batches


class SampledTallies:
    """Gathers sampled packets until they are reported."""

    def __init__(self, most: int = MOST_TALLIES, *, where: bool = False) -> None:
        """Begin with none; ``most`` are kept between two reports; ``where``: keep at which switches flows are seen."""
        self._most = most
        self._where = SeenAt() if where else None
        # The path MTU of each QP, also of earlier ones: a last packet alone does not show it.
        self._mtu: dict[bytes, int] = {}
        self._usual_mtu = 0
        self._sequence: dict[tuple[bytes, int], int] = {}
        self._drops: dict[tuple[bytes, int, int], int] = {}
        self._tcp = SampledTcp()
        self._clear()

    def _clear(self) -> None:
        self.counts = SflowCounts()
        self._index: dict[bytes, int] = {}
        self._qp, self._at, self._psn = array("i"), array("d"), array("q")

    def take_datagram(self, data: bytes, at: float) -> None:
        """Take a datagram of an agent that is allowed; ``at`` is the time of its arrival."""
        self.counts.datagrams += 1
        try:
            datagram = parse_datagram(data)
        except SflowError:
            self.counts.malformed += 1
            return
        self._count_lost(datagram)
        for sample in datagram.samples:
            self._count_drops(datagram, sample)
            if self._where is not None:
                self._where.take(datagram.agent, sample, at)
            self.take_frame(sample.frame, at)

    def take_frame(self, frame: bytes, at: float) -> None:
        """Take the first bytes of a packet that was seen at a time."""
        self.counts.samples += 1
        packet = roce_packet(frame)
        if packet is None:
            self._take_tcp(frame, at)
            return
        key = packet.key
        if len(self._qp) >= self._most or (key not in self._index and len(self._index) >= MOST_QPS):
            self.counts.dropped += 1
            return
        if packet.full:
            if len(self._mtu) >= MOST_QPS:
                self._mtu.clear()
            self._mtu[key] = self._usual_mtu = path_mtu(packet.payload)
        elif key not in self._mtu and not self._usual_mtu:
            self._usual_mtu = path_mtu(packet.payload)
        self._qp.append(self._index.setdefault(key, len(self._index)))
        self._at.append(at)
        self._psn.append(packet.psn)

    def _take_tcp(self, frame: bytes, at: float) -> None:
        packet = tcp_packet(frame)
        if packet is None:
            return
        if len(self._tcp) >= self._most:
            self.counts.dropped += 1
            return
        self._tcp.take(packet, at)

    def report(self) -> SampledReport:
        """Return what was gathered since the last report, and begin anew."""
        mtu = [self._mtu.get(key, self._usual_mtu) for key in self._index]
        report = SampledReport(
            self.counts,
            b"".join(self._index),
            np.array(mtu, dtype=np.int32),
            np.array(self._qp, dtype=np.int32),
            np.array(self._at, dtype=np.float64),
            np.array(self._psn, dtype=np.int64),
            self._tcp.report(),
            NOTHING_SEEN if self._where is None else self._where.report(),
        )
        self._clear()
        return report

    def _count_lost(self, datagram: SflowDatagram) -> None:
        sender = datagram.agent, datagram.sub_agent
        if sender in self._sequence:
            gap = (datagram.sequence - self._sequence[sender] - 1) % (1 << 32)
            if gap < _SMALL_GAP:
                self.counts.lost += gap
        elif len(self._sequence) >= MOST_SOURCES:
            self._sequence.clear()
        self._sequence[sender] = datagram.sequence

    def _count_drops(self, datagram: SflowDatagram, sample: FlowSample) -> None:
        source = datagram.agent, datagram.sub_agent, sample.source
        rise = (sample.drops - self._drops.get(source, sample.drops)) % (1 << 32)
        if rise < _SMALL_GAP:
            self.counts.dropped_by_switches += rise
        if source not in self._drops and len(self._drops) >= MOST_SOURCES:
            self._drops.clear()
        self._drops[source] = sample.drops
