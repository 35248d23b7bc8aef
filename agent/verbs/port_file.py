"""The table of ports: which port each QP of the host gets when it connects."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

from agent.errors import HostAgentError
from agent.verbs.layout import AGENT_LOCK, HEADER, PORT_ROW, PORTS, PORTS_MAGIC, PortRow, gid_of, packing
from agent.verbs.shared_files import RowKind, SharedFile, lock

CAPACITY = 1 << 16
"""Rows of the table."""

_ROW = packing(PORT_ROW)
_HEADER = packing(HEADER)


class PortFile:
    """The table, for as long as this agent runs; without its agent, nobody uses it."""

    def __init__(self, folder: Path, capacity: int = CAPACITY) -> None:
        """Open or make the table; it has no rows until they are written.

        Raises:
            HostAgentError: it cannot be made, or another agent has it.
        """
        path = folder / PORTS
        self._capacity = capacity
        self._file = SharedFile(path, 0o644, RowKind(PORTS_MAGIC, capacity, _ROW.size, copies=2))
        if not lock(self._file.file, AGENT_LOCK):
            self._file.close()
            raise HostAgentError(f"--verbs {path}: another agent has it", exit_code=2)
        self._rows: list[PortRow] | None = None
        self.write(())

    def write(self, rows: Iterable[PortRow]) -> bool:
        """Replace all rows at once; return whether they are others than before.

        Raises:
            HostAgentError: there are more than have room.
        """
        new = sorted(rows)
        if new == self._rows:
            return False
        if len(new) > self._capacity:
            raise HostAgentError(f"--verbs: {len(new)} QPs have ports, and {self._capacity} have room")
        generation = self._file.word("newest") + 1
        half = generation & 1
        last = struct.pack("<Q", generation)
        content = bytearray()
        for row in new:
            start = gid_of(row.local) + gid_of(row.remote)
            start += struct.pack("<HHI", row.number, row.port, row.kbps)
            content += start + struct.pack("<I", crc32(start + last))
        begin = _HEADER.size + half * self._capacity * _ROW.size
        self._file.set_word("rows", len(new), half)
        self._file.map[begin : begin + len(content)] = bytes(content)
        self._file.set_word("newest", generation)
        self._rows = new
        return True

    def close(self) -> None:
        """Give the table up: programs connect as if there were none."""
        self._file.close()
