"""The ports of planned flows for programs that use RDMA, and what these have made of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from agent.plans.flow_keys import Address
from agent.verbs.layout import PortRow, QpRecord, RecordFlag, RecordKind
from agent.verbs.port_file import PortFile
from agent.verbs.qp_ring import QpRing

NO_PACES: Mapping[tuple[Address, int], int] = MappingProxyType({})
MOST_KBPS = (1 << 32) - 1

LOG = logging.getLogger("fairspine.agent")


class QpCounts(NamedTuple):
    """How many QPs are open, and where their ports come from.

    Attributes:
        planned: of these have the port of a flow; ``shared``: which other QPs have, too, as there are more than flows.
        own: have a port that their program has chosen.
        hashed: have a port that nobody has chosen.
        waiting: keep a port that is not that of their flow any more, until they connect again.
        lost: reports that were overwritten before they were read.
        paced: have a pace that the device keeps.
    """

    open: int
    planned: int
    shared: int
    own: int
    hashed: int
    waiting: int
    lost: int
    paced: int = 0

    def line(self) -> str:
        """Return it as a line of the log."""
        text = f"{self.open} QPs of programs: {self.planned} have ports of planned flows"
        if self.shared:
            text += f" ({self.shared} share one, as there are more QPs than flows)"
        if self.own:
            text += f", {self.own} have ports of their programs"
        if self.hashed:
            text += f", {self.hashed} have ports that nobody has chosen"
        if self.waiting:
            text += f", {self.waiting} get their new ports when they connect again"
        if self.paced:
            text += f", {self.paced} are paced by their devices"
        if self.lost:
            text += f"; {self.lost} reports were lost"
        return text


class ProgramPorts:
    """The files of one host that its programs share with the agent. One thread uses it."""

    def __init__(self, folder: Path) -> None:
        """Open or make the files.

        Raises:
            HostAgentError: they cannot be made, or another agent has them.
        """
        self._ports, self._ring = PortFile(folder), QpRing(folder)
        self._open: dict[tuple[int, int], QpRecord] = {}
        self._of_row: dict[tuple[Address, Address, int], int] = {}
        self._pairs: set[tuple[Address, Address]] = set()
        self._counts = QpCounts(0, 0, 0, 0, 0, 0, 0)
        self._reported: tuple[Address, list[dict[str, Any]]] | None = None

    def report(self, source: Address) -> list[dict[str, Any]]:
        """Return the open QPs from an address, as reports have them."""
        if self._reported is None or self._reported[0] != source:
            self._reported = source, self._rows(source)
        return self._reported[1]

    def _rows(self, source: Address) -> list[dict[str, Any]]:
        return [
            {
                "dst": str(each.remote),
                "qp": each.qp,
                "remote_qp": each.remote_qp,
                "port": each.port,
                "number": each.number if RecordFlag.PORT_PLANNED in each.flags else None,
            }
            for each in self._open.values()
            if each.local == source
        ]

    @property
    def open(self) -> list[QpRecord]:
        """What was reported last of each QP that is open."""
        return [*self._open.values()]

    def publish(
        self,
        source: Address,
        ports: Mapping[tuple[Address, int], int],
        paces: Mapping[tuple[Address, int], int] = NO_PACES,
    ) -> None:
        """Give QPs from an address the ports of flows.

        Args:
            source: the address.
            ports: by receiver and number of the flow.
            paces: bit/s on the link, of flows that have one.

        Raises:
            HostAgentError: there are more than have room.
        """
        # Devices have rates in thousands of bits, and 0 is none.
        rates = {key: min(max(round(pace / 1000), 1), MOST_KBPS) for key, pace in paces.items()}
        rows = [PortRow(source, *key, port, rates.get(key, 0)) for key, port in ports.items()]
        self._ports.write(rows)
        self._of_row = {(row.local, row.remote, row.number): row.port for row in rows}
        self._pairs = {(row.local, row.remote) for row in rows}

    def look(self) -> QpCounts:
        """Read what programs have reported since the last look; what is new of the numbers is logged."""
        for record in self._ring.read():
            key = record.process, record.qp
            self._reported = None
            match record.kind:
                case RecordKind.CONNECTED | RecordKind.MOVED:
                    self._open[key] = record
                case RecordKind.CLOSED:
                    self._open.pop(key, None)
        ended = {process for process in {process for process, _ in self._open} if not self._ring.runs(process)}
        if ended:
            self._open = {key: record for key, record in self._open.items() if key[0] not in ended}
            self._reported = None
        counts = self._counted()
        if counts != self._counts:
            self._counts = counts
            LOG.info("%s", counts.line())
        return counts

    def _counted(self) -> QpCounts:
        flags = [record.flags for record in self._open.values()]
        return QpCounts(
            len(flags),
            sum(RecordFlag.PORT_PLANNED in each for each in flags),
            sum(RecordFlag.PORT_SHARED in each for each in flags),
            sum(RecordFlag.PORT_OWN in each for each in flags),
            sum(RecordFlag.PORT_DERIVED in each for each in flags),
            sum(self._waits(record) for record in self._open.values()),
            self._ring.lost,
            sum(RecordFlag.QP_PACED in each for each in flags),
        )

    def _waits(self, record: QpRecord) -> bool:
        if RecordFlag.PORT_DERIVED in record.flags:
            return (record.local, record.remote) in self._pairs
        wanted = self._of_row.get((record.local, record.remote, record.number))
        return wanted not in (None, record.port)

    def close(self) -> None:
        """Close the files: programs connect as if there were no agent."""
        self._ports.close()
        self._ring.close()
