"""Tallies: what each connection has sent so far at some times, from operations and the edges that they use."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from controller.workload.importers.nccl.operations import OperationKey, RecordedOperation

STEPS = 8
"""Parts of an operation after each of which a tally is made: how a connection sends within one is not known."""

_NUMBERS = 2**24 - 1


class RankConnection(NamedTuple):
    """A connection between NICs that some operations of a rank use; all channels together.

    Attributes:
        src, dst: hosts of the fabric.
        keys: the operations.
        per_byte: bytes that it sends for each byte of such an operation.
    """

    src: str
    dst: str
    keys: tuple[OperationKey, ...]
    per_byte: float


class TallyQp(NamedTuple):
    """The connections of a rank in a communicator from one host to another, as one QP.

    ``number`` tells those of the same hosts apart, in this process and in others that read other records.
    """

    src: str
    dst: str
    number: int


class QpTally(NamedTuple):
    """Bytes that a QP has sent so far, at a time in seconds since 1970."""

    qp: TallyQp
    at: float
    bytes: int


class Tallies:
    """Adds up operations. All tallies begin with 0."""

    def __init__(self) -> None:
        """Begin without connections."""
        self._parts: dict[OperationKey, dict[TallyQp, float]] = {}
        self._sent: dict[TallyQp, float] = {}
        self._until: dict[tuple[int, int], float] = {}

    def connect(self, connections: Iterable[RankConnection]) -> None:
        """Replace the connections; what was sent so far stays."""
        self._parts = {}
        for one in connections:
            for key in one.keys:
                number = zlib.crc32(f"{key.communicator}:{key.rank}".encode()) & _NUMBERS
                parts = self._parts.setdefault(key, {})
                qp = TallyQp(one.src, one.dst, number)
                parts[qp] = parts.get(qp, 0.0) + one.per_byte

    def add(self, operation: RecordedOperation) -> list[QpTally]:
        """Return the tallies of an operation in order of time; operations of a rank come in the order of their ends.

        One that begins before the end of the one before, of the same rank and communicator, is cut: NCCL runs them one
        after the other, so times are inexact.
        """
        key = operation.key
        process = key.communicator, key.rank
        begin = max(operation.begin, self._until.get(process, operation.begin))
        end = max(operation.end, begin)
        self._until[process] = end
        tallies: list[QpTally] = []
        parts = self._parts.get(key, {})
        steps = STEPS if end > begin else 1
        for step in range(steps + 1) if end > begin else (1,):
            at = begin + (end - begin) * step / steps
            for qp, per_byte in parts.items():
                sent = self._sent.get(qp, 0.0) + per_byte * operation.bytes * step / steps
                tallies.append(QpTally(qp, at, round(sent)))
        for qp, per_byte in parts.items():
            self._sent[qp] = self._sent.get(qp, 0.0) + per_byte * operation.bytes
        return tallies


def sightings_of(tallies: Sequence[QpTally]) -> dict[str, object]:
    """Return the body of ``POST /v1/sightings``: QPs without source ports, which the Inspector does not know."""
    qps = {tally.qp: None for tally in tallies}
    number = {qp: i for i, qp in enumerate(qps)}
    return {
        "qps": [{"src": qp.src, "dst": qp.dst, "dst_qp": qp.number} for qp in qps],
        "qp": [number[tally.qp] for tally in tallies],
        "at": [tally.at for tally in tallies],
        "bytes": [tally.bytes for tally in tallies],
    }
