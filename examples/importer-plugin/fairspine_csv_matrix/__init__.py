"""An importer: rows ``sender,receiver,bytes`` below that head, ranks as whole numbers from 0."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import numpy as np

from controller.model.errors import InputError
from controller.model.job import FlowList, Job
from controller.workload.importers.base import Imported, ImportRequest, Source, provisional_hosts
from controller.workload.importers.head import Head

COLUMNS = ["sender", "receiver", "bytes"]
MOST_RANKS = 1 << 17


def looks_like(head: Head) -> str:
    """What such a file holds; empty: it is none."""
    return "a traffic matrix (CSV)" if head.lines and head.lines[0].strip().split(",") == COLUMNS else ""


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """A job with a flow for each row of all files.

    Raises:
        InputError: a row is not one of the format's.
    """
    rows: list[tuple[int, int, int]] = []
    for source in sources:
        with source.open() as stream:
            table = csv.reader(io.TextIOWrapper(stream, "utf-8-sig", errors="replace"))
            if next(table, None) != COLUMNS:
                raise InputError(f"does not begin with {','.join(COLUMNS)}", source=source.name, field="line 1")
            rows += [_row(row, source, table.line_num) for row in table if row]
    if not rows:
        raise InputError("has no row", source=sources[0].name if sources else "")
    ranks = 1 + max(max(src, dst) for src, dst, _ in rows)
    flows = FlowList(
        src=tuple(f"rank{src}" for src, _, _ in rows),
        dst=tuple(f"rank{dst}" for _, dst, _ in rows),
        bytes=np.array([size for _, _, size in rows], dtype=np.int64),
        collective=("matrix",) * len(rows),
        udp_src=np.zeros(len(rows), dtype=np.int32),
    )
    job = Job(request.name or "csv-matrix", hosts=provisional_hosts(ranks), flows=flows)
    return Imported(job, placed=False, ranks=ranks, groups=0, collectives=1)


def _row(row: list[str], source: Source, line: int) -> tuple[int, int, int]:
    if len(row) != len(COLUMNS) or not all(cell.strip().isascii() and cell.strip().isdigit() for cell in row):
        raise InputError("must be a sender, a receiver and bytes", source=source.name, field=f"line {line}", value=row)
    src, dst, size = (int(cell) for cell in row)
    if src == dst or max(src, dst) >= MOST_RANKS or not 0 < size <= 2**53:
        raise InputError("is not a flow between two ranks", source=source.name, field=f"line {line}", value=row)
    return src, dst, size
