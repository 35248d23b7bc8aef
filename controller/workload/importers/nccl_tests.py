"""Importer ``nccl-tests``: output of nccl-tests (``all_reduce_perf``, ..), also as JSON (``-J``) or with NCCL's log.

The job has one operation for each run of a test, and for each group where the test was split: of the size given by
``--bytes``, else of the largest size measured. Each run is a separate phase. Measured times are kept, so that a
plan can be compared with them. Where NCCL's log is in the same file, ``nccl`` reads also rings and NICs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.job import CollectiveCall, Job, Op
from controller.workload.importers import streams
from controller.workload.importers.base import Imported, ImportRequest, Measured, Source, provisional_hosts
from controller.workload.importers.fields import MAX_RANKS, job_name
from controller.workload.importers.head import Head, head_of
from controller.workload.importers.nccl.table import COLUMNS, Gpu, SizeRow, Table, Tables
from controller.workload.importers.nccl.table_json import is_table, read_table

_GATHERED = ("gather", "scatter")


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    if is_table(head):
        return "output of nccl-tests as JSON: operations, sizes and times"
    if any(COLUMNS.search(line) for line in head.lines) or ("nThread" in head.text and "minBytes" in head.text):
        if "Init COMPLETE" in head.text:
            return ""  # NCCL's log is there too, and tells more
        return "output of nccl-tests: operations, sizes and times"
    return ""


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read a job from tests' output.

    Raises:
        InputError: there is no table, an operation is unknown, or two runs are on different GPUs.
    """
    tables = Tables()
    has_log = False
    for source in sources:
        if is_table(head_of(source)):
            tables.tables.append(read_table(source))
            continue
        for number, line in streams.lines(source, cut=True):
            tables.add(streams.at_line(source, number), line)
            has_log |= "Init COMPLETE" in line
    runs = [table for table in tables.tables if table.rows]
    if not runs:
        raise InputError("has no table of nccl-tests with a row in it", source=sources[0].name if sources else "")
    gpus = _gpus(runs)
    groups = _groups(gpus)
    calls: list[CollectiveCall] = []
    measured: list[Measured] = []
    notes: list[str] = []
    for phase, table in enumerate(runs):
        op, row = _chosen(table, request.bytes)
        measured += table.measured()
        notes.append(f"{table.where}: {op} of {row.bytes} bytes took {row.micros:g} us, {row.busbw:g} GB/s of the bus")
        for k, ranks in enumerate(groups):
            calls += _calls(f"run{phase}.{op}" + (f".{k}" if len(groups) > 1 else ""), op, ranks, row, phase)
    if has_log:
        notes.append("NCCL's log is among the lines: 'fairspine import nccl' also reads its rings and NICs")
    hosts, placed = _hosts(gpus, request.fabric)
    return Imported(
        job=Job(request.name or job_name(sources[0], "nccl-tests"), hosts=hosts, collectives=tuple(calls)),
        placed=placed,
        ranks=len(gpus),
        groups=len(groups),
        collectives=len(calls),
        notes=tuple(notes),
        measured=tuple(measured),
    )


def _gpus(runs: list[Table]) -> list[Gpu]:
    gpus = sorted(runs[0].gpus)
    if not gpus or [gpu.rank for gpu in gpus] != list(range(len(gpus))) or len(gpus) > MAX_RANKS:
        raise InputError(
            "does not list its GPUs, one per rank from 0 on: keep the lines '# Rank 0 Group 0 Pid ..' above the table",
            source=runs[0].where,
        )
    for table in runs[1:]:
        if [gpu[:2] + gpu[3:] for gpu in sorted(table.gpus)] != [gpu[:2] + gpu[3:] for gpu in gpus]:
            raise InputError(
                f"this run is on other GPUs than that of {runs[0].where}: import each one separately",
                source=table.where,
            )
    return gpus


def _groups(gpus: list[Gpu]) -> list[tuple[int, ...]]:
    by_group: dict[int, list[int]] = {}
    for gpu in gpus:
        by_group.setdefault(gpu.group, []).append(gpu.rank)
    return [tuple(ranks) for ranks in by_group.values()]


def _chosen(table: Table, size: int | None) -> tuple[str, SizeRow]:
    op = table.op()
    if not op:
        raise InputError(
            "the operation is unknown, and the columns fit several (nccl-tests names it from 2.17 on)",
            source=table.where,
            value=table.test or None,
        )
    row = table.row(size)
    if row is None:
        sizes = [other.bytes for other in table.rows]
        raise InputError(
            f"{table.where}: no row has this size; there are {len(sizes)} from {min(sizes)} to {max(sizes)}",
            field="bytes",
            value=size,
        )
    return op, row


def _calls(name: str, op: str, ranks: tuple[int, ...], row: SizeRow, phase: int) -> list[CollectiveCall]:
    n = len(ranks)
    if n < 2:
        return []
    if op == "send_recv":
        # Each rank sends to the next one, all at once.
        pairs = [(ranks[i], ranks[(i + 1) % n]) for i in range(n)]
        return [CollectiveCall(f"{name}.{a}", "send_recv", (a, b), row.bytes, phase=phase) for a, b in pairs]
    root = max(0, row.root) % n
    if op in _GATHERED:
        part = -(-row.bytes // n)
        ends = [(rank, ranks[root]) if op == "gather" else (ranks[root], rank) for rank in ranks if rank != ranks[root]]
        return [CollectiveCall(f"{name}.{a}-{b}", "send_recv", (a, b), part, phase=phase) for a, b in ends]
    if op in ("broadcast", "reduce"):
        ranks = ranks[root:] + ranks[:root]
    return [CollectiveCall(name, cast(Op, op), ranks, row.bytes, phase=phase)]


def _hosts(gpus: list[Gpu], fabric: Fabric | None) -> tuple[tuple[str, ...], bool]:
    """Return the hosts if the fabric has the output's servers: the i-th GPU of a server on its i-th rail."""
    rails: dict[str, list[str]] = {}
    for host in sorted(fabric.hosts, key=lambda host: host.rail) if fabric is not None else ():
        rails.setdefault(host.server, []).append(host.name)
    used: dict[str, int] = {}
    hosts = []
    for gpu in gpus:
        place = used.setdefault(gpu.host, 0)
        used[gpu.host] += 1
        if place >= len(rails.get(gpu.host, [])):
            return provisional_hosts(len(gpus)), False
        hosts.append(rails[gpu.host][place])
    return tuple(hosts), True
