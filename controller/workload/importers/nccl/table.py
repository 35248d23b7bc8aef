"""The output of nccl-tests: the GPUs, the tested operation, and the time of each size.

``# Collective test starting: all_reduce_perf`` names the operation (from nccl-tests 2.17 on). Without that line the
columns determine it: a reduction has ``redop``, a rooted operation has ``root``, bus bandwidth is a known multiple of
algorithm bandwidth (doc/PERFORMANCE.md of nccl-tests), and an all-to-all is not checked in place. Times are those out
of place. A row may be spread over lines where other processes wrote in between.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.model.texts.byte_sizes import MAX_BYTES
from controller.model.units import MICROSECOND
from controller.workload.importers.base import Measured

OPS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "sendrecv": "send_recv",
}
"""Operations of jobs by the name of the test, without ``_perf``."""

MAX_ROWS = 100_000

_TAG = re.compile(r"\[\d+,\d+\]<std\w+>: ?|^\s*\d+: ")
_BEGINS_A_ROW = re.compile(r"(?:\[\d+,\d+\]<std\w+>:)?\s*(?:\d+: +)?\d+\s+\d+\s")
_STARTING = re.compile(r"# Collective test starting: (\w+?)(?:_perf)?\s*$")
_HEAD = re.compile(r"(?:# )?nThreads? \d+ nGpus \d+ minBytes \d+ maxBytes \d+")
_GPU = re.compile(
    r"(?:#|^)\s+Rank\s+(\d{1,6})(?:\s+Group\s+(\d{1,6}))?\s+Pid\s+(\d{1,9})\s+on\s+(\S+)\s+device\s+(\d{1,4})\b"
)
_LEFT = re.compile(r"^\s*(\d{1,18})\s+(\d{1,18})\s+(\w+)\s+(\w+)(?:\s+(-?\d{1,6}))?(?=\s|$|[A-Za-z])")
_NUMBER = r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_RIGHT = re.compile(
    rf"\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}\s+(\S+)\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}\s+(N/A|[\d.eE+-]+)"
)
_TYPES = "int8|uint8|int32|uint32|int64|uint64|half|float|double|bfloat16|f8e4m3|f8e5m2|fp8_e4m3|fp8_e5m2"
_TYPE = re.compile(_TYPES)


COLUMNS = re.compile(r"size\s+count(?:\(elements\))?\s+type\s+redop\s+.*\bbusbw\b")
"""The heading of a table."""


class Gpu(NamedTuple):
    """A GPU in the list of a test's output."""

    rank: int
    group: int
    pid: int
    host: str
    device: int


class SizeRow(NamedTuple):
    """A size: bytes, microseconds, GB/s of the algorithm and of the bus, and the root of a rooted operation."""

    bytes: int
    elements: int
    redop: str
    root: int
    micros: float
    algbw: float
    busbw: float
    in_place_checked: bool


@dataclass
class Table:
    """One run of one test.

    Attributes:
        where: ``file:line`` of its first line.
        test: name of the program, without ``_perf``; empty: unknown.
    """

    where: str
    test: str = ""
    gpus: list[Gpu] = field(default_factory=list)
    rows: list[SizeRow] = field(default_factory=list)

    @property
    def n_ranks(self) -> int:
        """Number of ranks of one group: in a test split into groups, each does the operation separately."""
        sizes = [sum(1 for gpu in self.gpus if gpu.group == group) for group in {gpu.group for gpu in self.gpus}]
        return max(sizes, default=0)

    def op(self) -> str:
        """Return the operation in jobs; empty: neither a line nor the columns determine it."""
        if self.test:
            return OPS.get(self.test, "")
        n, rows = self.n_ranks, [row for row in self.rows if row.algbw >= 1]
        if not rows or n < 2:
            return ""
        row = rows[-1]
        factor = row.busbw / row.algbw
        is_like = [name for name, value in _factors(n).items() if abs(factor - value) < 0.02]
        fitting = [name for name in is_like if _fits(name, row)]
        return fitting[0] if len(fitting) == 1 else ""

    def row(self, size: int | None) -> SizeRow | None:
        """Return the row of a size; without one, of the largest."""
        if size is None:
            return max(self.rows, key=lambda row: row.bytes, default=None)
        return next((row for row in self.rows if row.bytes == size), None)

    def measured(self) -> tuple[Measured, ...]:
        """Return the measured times of all sizes."""
        op = self.op()
        return tuple(
            Measured(op, self.n_ranks, row.bytes, row.micros * MICROSECOND, row.busbw * 8) for row in self.rows
        )


def _factors(n: int) -> dict[str, float]:
    part = (n - 1) / n
    return {
        "all_reduce": 2 * part,
        "all_gather": part,
        "reduce_scatter": part,
        "all_to_all": part,
        "gather": part,
        "scatter": part,
        "broadcast": 1.0,
        "reduce": 1.0,
        "send_recv": 1.0,
    }


def _fits(op: str, row: SizeRow) -> bool:
    if (op in ("all_reduce", "reduce_scatter", "reduce")) != (row.redop != "none"):
        return False
    if op in ("broadcast", "reduce", "gather", "scatter"):
        # Gather and scatter cannot be distinguished.
        return row.root >= 0 and op not in ("gather", "scatter")
    return row.root < 0 and (
        op not in ("all_gather", "all_to_all", "send_recv") or (op == "all_gather") == row.in_place_checked
    )


class Tables:
    """A collector of the tables of all files."""

    def __init__(self) -> None:
        """Create an empty collector."""
        self.tables: list[Table] = []
        self._left: re.Match[str] | None = None

    def add(self, where: str, line: str) -> bool:
        """Add a line; return whether nccl-tests wrote any part of it."""
        if "NCCL INFO" in line and not (self.tables and _BEGINS_A_ROW.match(line)):
            return False
        line = _TAG.sub("", line)
        if match := _STARTING.search(line):
            self.tables.append(Table(where, match[1]))
            return True
        if _HEAD.search(line):
            # The operation's name precedes this line, where there is one.
            if not self.tables or self.tables[-1].gpus or self.tables[-1].rows:
                self.tables.append(Table(where))
            return True
        gpu = _GPU.search(line)
        # Parts of an output may be all that was kept.
        if (gpu or COLUMNS.search(line)) and (not self.tables or (gpu and self.tables[-1].rows)):
            self.tables.append(Table(where))
        if not self.tables:
            return False
        table = self.tables[-1]
        if gpu:
            rank, group, pid, host, device = gpu.groups()
            table.gpus.append(Gpu(int(rank), int(group or 0), int(pid), host, int(device)))
            return True
        return self._row(table, line)

    def _row(self, table: Table, line: str) -> bool:
        left = _LEFT.match(line)
        if left is not None and _TYPE.fullmatch(left[3]):
            self._left = left
            rest = line[left.end() :]
        elif self._left is not None:
            rest = line
        else:
            return False
        right = _RIGHT.match(rest)
        if right is None or self._left is None:
            return left is not None
        size, elements, _, redop, root = self._left.groups()
        micros, algbw, busbw = (float(right[i]) for i in (1, 2, 3))
        if int(size) <= MAX_BYTES and len(table.rows) < MAX_ROWS:
            where_root = -1 if root is None else int(root)
            table.rows.append(
                SizeRow(int(size), int(elements), redop, where_root, micros, algbw, busbw, right[8] != "N/A")
            )
        self._left = None
        return True
