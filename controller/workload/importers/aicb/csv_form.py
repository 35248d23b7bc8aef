"""AICB's workloads for real GPUs (``workload/physical``, CSV): a row an operation, with its group and its bytes.

The first line names the ranks (``[rank0 ~ rank127]``), the second the columns. Sizes of groups follow from the rows: tp
ranks next to each other, then dp (in which ep is the fastest), then pp, as Megatron has them. ``msg_size`` is the whole
buffer of an operation; ``count`` repeats a row. Each ``epoch_end`` ends an iteration, the first one the initialisation,
which is left out. Sends between pipeline stages name ranks that the file does not contain: they are left out, with
a warning.

A workload that AICB generated with measured computing times (``--aiob_enable``) has rows of type ``computation``, whose
``_elapsed_time`` is in nanoseconds (``WorkloadApplyer._apply_computation``): they are computed before the phase of the
operation that follows. The log of a run on GPUs (``results/comm_logs``) is refused: it does not contain the ranks, and
its times are milliseconds of operations on that network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from controller.model.job import CollectiveCall, Job, Op
from controller.model.texts.byte_sizes import MAX_BYTES
from controller.model.units import NANOSECOND
from controller.workload.importers.base import Imported, ImportRequest, Source, provisional_hosts
from controller.workload.importers.fields import MAX_RANKS, SourceLine, job_name
from controller.workload.importers.notes import Notes
from controller.workload.importers.streams import lines
from controller.workload.importers.times import MAX_NANOSECONDS, computing
from controller.workload.strategy.parallelism import Parallelism

_RANKS = re.compile(r"\[rank(\d{1,6})\s*~\s*rank(\d{1,6})\]")
_NEEDED = ("comm_type", "comm_group", "comm_group_size", "msg_size")
_OPS: dict[str, Op] = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all": "all_to_all",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
}
_SILENT = ("barrier", "wait")
_SHAPES_BEFORE = "msg_size"
"""The column that is not one field in a row of type ``computation``: the shapes of its matrices have commas."""

_PAIRS = ("isend", "irecv", "send", "recv", "batch_isend_irecv")
_GROUPS = {"all": "all", "tp_group": "tp", "dp_group": "dp", "ep_group": "ep", "ep_dp_group": "edp"}


@dataclass
class _Csv:
    """Bytes and computing nanoseconds by (group, operation) in each epoch, and the groups' sizes.

    Attributes:
        ended: number of epochs that have ended.
        pending: nanoseconds of computing since the last operation.
    """

    ranks: int
    place: SourceLine
    notes: Notes = field(default_factory=Notes)
    epochs: list[dict[tuple[str, Op], int]] = field(default_factory=lambda: [{}])
    computing: list[dict[tuple[str, Op], float]] = field(default_factory=lambda: [{}])
    sizes: dict[str, tuple[int, SourceLine]] = field(default_factory=dict)
    ended: int = 0
    pending: float = 0.0


def read_csv(source: Source, request: ImportRequest) -> Imported:
    """Read one workload.

    Raises:
        InputError: a row is invalid, or groups do not fit the number of ranks.
    """
    table = _read(source)
    rows = slice(1, table.ended) if table.ended > 1 else slice(None)
    kept = table.epochs[rows]
    if table.ended > 1:
        table.notes.once(f"{source.name}: rows before the first epoch_end are initialisation and are left out")
    iterations = request.iterations if request.iterations > 1 else max(1, len(kept))
    sums: dict[tuple[str, Op], int] = {}
    for epoch in kept:
        for key, size in epoch.items():
            sums[key] = sums.get(key, 0) + size
    nanoseconds: dict[int, float] = {}
    phases = {key: phase for phase, key in enumerate(sums)}
    for epoch_times in table.computing[rows]:
        for key, value in epoch_times.items():
            nanoseconds[phases[key]] = nanoseconds.get(phases[key], 0.0) + value
    timing = computing({phase: value * NANOSECOND / iterations for phase, value in nanoseconds.items()}, source.name)
    groups = _groups(table)
    calls = []
    for phase, ((group, op), size) in enumerate(sums.items()):
        if size > MAX_BYTES * iterations:
            raise table.place.error(f"{op} in {group} has more than {MAX_BYTES} bytes")
        calls += [
            CollectiveCall(f"{group}{k}.{op}", op, tuple(ranks), -(-size // iterations), phase=phase)
            for k, ranks in enumerate(groups[group])
            if len(ranks) > 1
        ]
    used = {call.ranks for call in calls}
    name = request.name or job_name(source, "aicb")
    job = Job(name, hosts=provisional_hosts(table.ranks), collectives=tuple(calls), timing=timing)
    notes, warnings = table.notes.sentences(), table.notes.warnings()
    return Imported(job, False, table.ranks, len(used), len(calls), notes, warnings=warnings)


def _read(source: Source) -> _Csv:
    rows = _filled(source)
    place, text = next(rows)
    match = _RANKS.fullmatch(text)
    if match is None:
        raise place.error(
            "a workload for real GPUs must begin with its ranks, such as [rank0 ~ rank127]; the log of a run does not "
            "contain them: import the workload that was run",
            text,
        )
    ranks = int(match[2]) - int(match[1]) + 1
    if int(match[1]) != 0 or not 1 <= ranks <= MAX_RANKS:
        raise place.error(f"ranks must be 0 .. N-1, at most {MAX_RANKS}", text)
    table = _Csv(ranks, place)
    place, text = next(rows, (place, ""))
    columns = text.split(",")
    missing = [name for name in _NEEDED if name not in columns]
    if missing:
        raise place.error(f"the column {missing[0]} is missing", text)
    for place, text in rows:
        values = text.split(",")
        if len(values) < len(columns):
            raise place.error(f"a row must have {len(columns)} columns, not {len(values)}", text)
        if values[0].endswith("computation"):
            at = columns.index(_SHAPES_BEFORE)
            values[at : len(values) - len(columns) + at + 1] = [""]
        _add(table, place, dict(zip(columns, values, strict=False)))
    return table


def _filled(source: Source) -> Iterator[tuple[SourceLine, str]]:
    for number, text in lines(source):
        if text.strip():
            yield SourceLine(source, number), text.strip()


def _add(table: _Csv, place: SourceLine, row: dict[str, str]) -> None:
    kind = row["comm_type"].removeprefix("CommType.")
    if kind == "epoch_end":
        _compute_in_first_phase(table)
        table.epochs.append({})
        table.computing.append({})
        table.ended += 1
        return
    if kind == "computation":
        if (text := row.get("_elapsed_time", "None")) != "None":
            table.pending += place.decimal(text, "_elapsed_time", MAX_NANOSECONDS)
        return
    if kind in _SILENT:
        return
    group = row["comm_group"].removeprefix("CommGroup.")
    if kind in _PAIRS:
        table.notes.warn("sends between pipeline stages are left out, because the file does not contain their ranks")
        return
    if kind not in _OPS:
        raise place.error("is an unknown operation", row["comm_type"])
    if group not in _GROUPS:
        table.notes.warn(f"operations in {group} are left out, because the file does not contain its ranks")
        return
    name = _GROUPS[group]
    size = place.whole(row["comm_group_size"], "comm_group_size", 1, MAX_RANKS)
    said, where = table.sizes.setdefault(name, (size, place))
    if said != size:
        raise place.error(f"{group} has {said} ranks in line {where.line}", size)
    times = place.whole(row["count"], "count", 0, 2**31) if row.get("count", "").strip() else 1
    whole = place.rounded_up(row["msg_size"], "msg_size", MAX_BYTES) * times
    key = name, _OPS[kind]
    epoch, before = table.epochs[-1], table.computing[-1]
    epoch[key] = epoch.get(key, 0) + whole
    if size > 1:  # a group of one rank has no phase
        before[key] = before.get(key, 0.0) + table.pending
        table.pending = 0.0
    if epoch[key] > MAX_BYTES:
        raise place.error(f"there are more than {MAX_BYTES} bytes")


def _compute_in_first_phase(table: _Csv) -> None:
    """Add the computing at the end of an epoch to that before the first phase of the next one."""
    for key in list(table.computing[-1])[:1]:
        table.computing[-1][key] += table.pending
    table.pending = 0.0


def _groups(table: _Csv) -> dict[str, list[list[int]]]:
    """Return the ranks of the groups of each kind."""
    sizes = {name: size for name, (size, _) in table.sizes.items()}
    tp, ep = sizes.get("tp", 1), sizes.get("ep", 1)
    if sizes.get("all", table.ranks) != table.ranks:
        raise table.sizes["all"][1].error(f"this group must have all {table.ranks} ranks", sizes["all"])
    dp = sizes.get("dp") or table.ranks // tp
    if table.ranks % (tp * dp):
        raise table.place.error(f"tp {tp} x dp {dp} does not divide the number of ranks", table.ranks)
    if dp % ep or sizes.get("edp", dp // ep) != dp // ep:
        raise table.place.error(f"ep {ep} x its copies {sizes.get('edp', dp // ep)} is not dp", dp)
    shape = Parallelism(tp=tp, dp=dp, pp=table.ranks // (tp * dp), ep=ep, etp=tp)
    return {
        "all": [list(range(table.ranks))],
        "tp": shape.groups("tp").tolist(),
        "dp": shape.groups("dp").tolist(),
        "ep": shape.expert_groups("ep").tolist(),
        "edp": shape.expert_groups("dp").tolist(),
    }
