"""What processes report of their QPs, as the agent reads it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

from agent.verbs.layout import (
    GIDS_BYTES,
    HEADER,
    PROCESS_LOCK,
    QP_RECORD,
    RING,
    RING_MAGIC,
    QpRecord,
    RecordFlag,
    RecordKind,
    address_of,
    packing,
)
from agent.verbs.shared_files import RowKind, SharedFile, is_locked

CAPACITY = 1 << 16
"""Records of the ring."""

WAIT_SECONDS = 1.0
"""For a record of which only the number is taken: its process may have ended."""

_RECORD, _HEADER = packing(QP_RECORD), packing(HEADER)


class QpRing:
    """The ring; it begins with the oldest record that it still has."""

    def __init__(self, folder: Path, capacity: int = CAPACITY) -> None:
        """Open or make the ring.

        Raises:
            HostAgentError: it cannot be made.
        """
        self._capacity = capacity
        self._file = SharedFile(folder / RING, 0o666, RowKind(RING_MAGIC, capacity, _RECORD.size))
        if self._file.word("newest") == 0:
            self._file.set_word("newest", 1)
        self._at = max(self._file.word("newest") - capacity, 1)
        self._waits_since: float | None = None
        self.lost = 0

    def read(self) -> Iterator[QpRecord]:
        """Yield the records since the last call; ``lost`` counts those that were overwritten or are damaged."""
        end = self._file.word("newest")
        if end < self._at:
            # The ring is not as this agent has left it.
            self._at = max(end - self._capacity, 1)
        if end - self._at > self._capacity:
            self.lost += end - self._capacity - self._at
            self._at = end - self._capacity
        while self._at < end:
            begin = _HEADER.size + self._at % self._capacity * _RECORD.size
            content = self._file.map[begin : begin + _RECORD.size]
            number = int.from_bytes(content[:8], "little")
            is_whole = number == self._at and crc32(content[:-4]) == int.from_bytes(content[-4:], "little")
            if not is_whole and number <= self._at and not self._is_overdue():
                return
            self._waits_since = None
            self._at += 1
            if not is_whole:
                self.lost += 1
            elif (record := _read(content)) is not None:
                yield record

    def runs(self, process: int) -> bool:
        """Return whether a process has not ended yet."""
        return is_locked(self._file.file, PROCESS_LOCK + process)

    def close(self) -> None:
        """Close the ring."""
        self._file.close()

    def _is_overdue(self) -> bool:
        now = time.monotonic()
        if self._waits_since is None:
            self._waits_since = now
        return now - self._waits_since >= WAIT_SECONDS


def _read(content: bytes) -> QpRecord | None:
    """Return a record; ``None``: it is not known what has happened."""
    _, at_ns, gids, process, pid, qp, remote_qp, kind, flags, port, number, device, _ = _RECORD.unpack(content)
    local, remote = (address_of(each) for each in (gids[: GIDS_BYTES // 2], gids[GIDS_BYTES // 2 :]))
    if kind not in list(RecordKind):
        return None
    return QpRecord(
        at_ns / 1e9,
        local,
        remote,
        process,
        pid,
        qp,
        remote_qp,
        RecordKind(kind),
        RecordFlag(flags),
        _derived_port(qp, remote_qp) if RecordFlag.PORT_DERIVED in RecordFlag(flags) else port,
        number,
        device.rstrip(b"\0").decode("ascii", "replace"),
    )


def _derived_port(local: int, remote: int) -> int:
    """Return the port that Linux 5.8 and later derive of both QP numbers (include/rdma/ib_verbs.h)."""
    product = local * remote
    product ^= product >> 20
    product ^= product >> 40
    label = product & 0xFFFFF
    return 0xC000 | ((label & 0x3FFF) ^ (label >> 14))
