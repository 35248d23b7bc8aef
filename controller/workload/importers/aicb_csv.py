"""AICB's workloads for real GPUs (``workload/physical``, CSV): a row an operation, with its group and its bytes.

The first line names the ranks (``[rank0 ~ rank127]``), the second the columns. Sizes of groups follow from the rows: tp
ranks next to each other, then dp (in which ep is the fastest), then pp, as Megatron has them. ``msg_size`` is the whole
buffer of an operation; ``count`` repeats a row. Each ``epoch_end`` ends an iteration, the first one the initialisation,
which is left out. Sends between pipeline stages name ranks that the file does not contain: they are left out, with
a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from controller.model.job import CollectiveCall, Job, Op
from controller.workload.flow_form import MAX_BYTES
from controller.workload.importers.base import Imported, ImportRequest, Source, provisional_hosts
from controller.workload.importers.fields import MAX_RANKS, SourceLine, job_name
from controller.workload.importers.notes import Notes
from controller.workload.importers.streams import lines
from controller.workload.parallelism import Parallelism

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
_SILENT = ("barrier", "computation", "wait")
_PAIRS = ("isend", "irecv", "send", "recv", "batch_isend_irecv")
_GROUPS = {"all": "all", "tp_group": "tp", "dp_group": "dp", "ep_group": "ep", "ep_dp_group": "edp"}


@dataclass
class _Csv:
    """Bytes by (group, operation) in each epoch, and the groups' sizes."""

    ranks: int
    place: SourceLine
    notes: Notes = field(default_factory=Notes)
    epochs: list[dict[tuple[str, Op], int]] = field(default_factory=lambda: [{}])
    sizes: dict[str, tuple[int, SourceLine]] = field(default_factory=dict)
    ended: int = 0


def read_csv(source: Source, request: ImportRequest) -> Imported:
    """Read one workload.

    Raises:
        InputError: a row is invalid, or groups do not fit the number of ranks.
    """
    table = _read(source)
    kept = table.epochs[1 : table.ended] if table.ended > 1 else table.epochs
    if table.ended > 1:
        table.notes.once(f"{source.name}: what precedes the first epoch_end is initialisation, and left out")
    iterations = request.iterations if request.iterations > 1 else max(1, len(kept))
    sums: dict[tuple[str, Op], int] = {}
    for epoch in kept:
        for key, size in epoch.items():
            sums[key] = sums.get(key, 0) + size
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
    job = Job(request.name or job_name(source, "aicb"), hosts=provisional_hosts(table.ranks), collectives=tuple(calls))
    notes, warnings = table.notes.sentences(), table.notes.warnings()
    return Imported(job, False, table.ranks, len(used), len(calls), notes, warnings=warnings)


def _read(source: Source) -> _Csv:
    rows = _filled(source)
    place, text = next(rows)
    found = _RANKS.fullmatch(text)
    if found is None:
        raise place.error("a workload for real GPUs begins with its ranks, [rank0 ~ rank127]", text)
    ranks = int(found[2]) - int(found[1]) + 1
    if int(found[1]) != 0 or not 1 <= ranks <= MAX_RANKS:
        raise place.error(f"ranks are 0 .. N-1, at most {MAX_RANKS}", text)
    table = _Csv(ranks, place)
    place, text = next(rows, (place, ""))
    columns = text.split(",")
    missing = [name for name in _NEEDED if name not in columns]
    if missing:
        raise place.error(f"there is no column {missing[0]}", text)
    for place, text in rows:
        values = text.split(",")
        if len(values) < len(columns):
            raise place.error(f"a row has {len(columns)} columns, this one has {len(values)}", text)
        _add(table, place, dict(zip(columns, values, strict=False)))
    return table


def _filled(source: Source) -> Iterator[tuple[SourceLine, str]]:
    for number, text in lines(source):
        if text.strip():
            yield SourceLine(source, number), text.strip()


def _add(table: _Csv, place: SourceLine, row: dict[str, str]) -> None:
    kind = row["comm_type"].removeprefix("CommType.")
    if kind == "epoch_end":
        table.epochs.append({})
        table.ended += 1
        return
    if kind in _SILENT:
        return
    group = row["comm_group"].removeprefix("CommGroup.")
    if kind in _PAIRS:
        table.notes.warn("sends between pipeline stages are left out: the file does not tell which ranks are meant")
        return
    if kind not in _OPS:
        raise place.error("is no operation that is known", row["comm_type"])
    if group not in _GROUPS:
        table.notes.warn(f"operations in {group} are left out: the file does not tell its ranks")
        return
    name = _GROUPS[group]
    size = place.whole(row["comm_group_size"], "comm_group_size", 1, MAX_RANKS)
    said, where = table.sizes.setdefault(name, (size, place))
    if said != size:
        raise place.error(f"{group} has {said} ranks in line {where.line}", size)
    times = place.whole(row["count"], "count", 0, 2**31) if row.get("count", "").strip() else 1
    whole = place.rounded_up(row["msg_size"], "msg_size", MAX_BYTES) * times
    key = name, _OPS[kind]
    epoch = table.epochs[-1]
    epoch[key] = epoch.get(key, 0) + whole
    if epoch[key] > MAX_BYTES:
        raise place.error(f"there are more than {MAX_BYTES} bytes")


def _groups(table: _Csv) -> dict[str, list[list[int]]]:
    """Return the ranks of the groups of each kind."""
    sizes = {name: size for name, (size, _) in table.sizes.items()}
    tp, ep = sizes.get("tp", 1), sizes.get("ep", 1)
    if sizes.get("all", table.ranks) != table.ranks:
        raise table.sizes["all"][1].error(f"there are {table.ranks} ranks, and all of them are", sizes["all"])
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
