"""What sampled TCP packets tell: the bytes that hosts have sent each other, over whatever connections.

The sequence number of a connection counts bytes modulo 2^32, so a connection must be sampled several times while it
sends 4 GiB. Memory is bounded, whatever arrives.
"""

from __future__ import annotations

from array import array

import numpy as np

from controller.learning.sightings import SightingBatch, tcp_key
from controller.model.packets.tcp_packet import TcpPacket
from controller.model.traffic import Int64Array

MOST_CONNECTIONS = 1 << 17
_WRAP = 1 << 32
_SENT_AGAIN = 1 << 30
"""The largest window of TCP (RFC 7323): a segment that is sent again is not farther behind than that."""


class SampledTcp:
    """Adds up what the connections of two hosts have sent, from the first sample of each on."""

    def __init__(self) -> None:
        """Begin without connections."""
        self._end: dict[bytes, int] = {}
        self._total: dict[bytes, int] = {}
        self._clear()

    def _clear(self) -> None:
        self._pair: dict[bytes, int] = {}
        self._row, self._at, self._sent = array("i"), array("d"), array("q")

    def __len__(self) -> int:
        """Return the number of samples that are kept."""
        return len(self._row)

    def take(self, packet: TcpPacket, at: float) -> None:
        """Take a segment that was seen at a time."""
        pair = packet.connection[:8]
        if packet.connection not in self._end and len(self._end) >= MOST_CONNECTIONS:
            self._end.clear()
            self._total = {each: self._total[each] for each in self._pair}
        before = self._end.get(packet.connection, packet.end)
        rise = (packet.end - before) % _WRAP
        if rise > _WRAP - _SENT_AGAIN:
            return
        self._end[packet.connection] = packet.end
        self._total[pair] = self._total.get(pair, 0) + rise
        self._row.append(self._pair.setdefault(pair, len(self._pair)))
        self._at.append(at)
        self._sent.append(self._total[pair])

    def report(self) -> SightingBatch:
        """Return what was gathered since the last report, and begin anew."""
        ends = [(int.from_bytes(pair[:4], "big"), int.from_bytes(pair[4:], "big")) for pair in self._pair]
        batch = SightingBatch(
            tuple(tcp_key(src, dst) for src, dst in ends),
            np.array(self._row, dtype=np.int32),
            np.array(self._at, dtype=np.float64),
            np.array(self._sent, dtype=np.int64),
            sampled=True,
        )
        self._clear()
        return batch


def between(batch: SightingBatch, known: Int64Array | None) -> SightingBatch:
    """Return the sightings of keys whose hosts have known addresses; ``None``: of all."""
    if known is None or not batch.keys:
        return batch
    hosts = set(known.tolist())
    wanted = np.array([key.src in hosts and key.dst in hosts for key in batch.keys], dtype=np.bool_)
    place = (np.cumsum(wanted) - 1).astype(np.int32)
    chosen = wanted[batch.qp]
    return batch._replace(
        keys=tuple(key for key, is_wanted in zip(batch.keys, wanted.tolist(), strict=True) if is_wanted),
        qp=place[batch.qp[chosen]],
        at=batch.at[chosen],
        sent=batch.sent[chosen],
    )
