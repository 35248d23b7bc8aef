"""Importer ``aicb``: workload texts that AICB writes and SimAI reads.

The grammar is that of ``Workload::initialize_workload`` in SimAI's astra-sim/workload/Workload.cc: a head that names
the strategy, a number of rows, and as many rows of twelve columns, one a layer of one pipeline stage, repeated for
each micro-batch (AICB's workload_generator/SimAI_training_workload_generator.py):

    name  -1  forward: ns op bytes  input gradient: ns op bytes  weight gradient: ns op bytes  ns of the update

An operation's suffix is its group: none is the tensor-parallel group in the forward and input-gradient columns and
the data-parallel one in the weight-gradient column, ``_EP`` the expert-parallel group, ``_DP_EP`` the copies of an
expert. Bytes are those of the whole buffer for every operation. Broadcasts, which SimAI ignores, start at a group's
first rank.

Groups are SimAI's (system/MockNcclGroup.cc, within one pipeline stage): tp ranks next to each other, then dp, in which
ep is the fastest; stages one after the other, as Megatron has it. Operations of one kind on one group are one
collective with the bytes of all layers and micro-batches; each pass, group and operation is a phase of its own,
because a rank does them one at a time.

A stage sends the next one ``ga`` x ``pp_comm`` bytes forward, and gets as much back. SimAI's report also multiplies by
``vpp``; AICB writes the number of a stage's layers there, which is no count of messages, so it is not used.

SimAI goes backward through the rows, and waits for the operations of weight gradients only in the next forward pass
(they are ``Non_Blocking`` in Workload.cc). So most of their bytes overlap with computing if measured times of input and
weight gradients are in rows before theirs; then they are in the first phase of the backward pass.

A pass computes its columns' times, over all rows, before its first phase; the update's time is before the next
iteration. With pp stages and ga micro-batches this is extended by the time in which a stage waits for the others,
(pp - 1) / ga of it (D. Narayanan et al., arXiv 2104.04473, section 2.2). AICB without measured times writes 1 ns in
every row: such a workload has no computing times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from controller.model.errors import InputError, shorten
from controller.model.fabric import IntArray
from controller.model.job import CollectiveCall, Job, Op
from controller.model.texts.byte_sizes import MAX_BYTES
from controller.model.timing import JobTiming
from controller.model.units import NANOSECOND
from controller.model.waits import Waits
from controller.workload.importers.aicb.csv_form import read_csv
from controller.workload.importers.base import Imported, ImportRequest, Source, provisional_hosts
from controller.workload.importers.fields import MAX_RANKS, SourceLine, job_name
from controller.workload.importers.head import Head
from controller.workload.importers.streams import at_line, lines
from controller.workload.importers.times import computing
from controller.workload.strategy.parallelism import Parallelism

Group = Literal["tp", "dp", "ep", "dp_ep"]

COLUMNS = 12

_OPS: dict[str, Op] = {
    "ALLREDUCE": "all_reduce",
    "ALLGATHER": "all_gather",
    "REDUCESCATTER": "reduce_scatter",
    "ALLTOALL": "all_to_all",
    "BROADCAST": "broadcast",
}
_PASSES = (("fwd", "tp", 3), ("bwd", "tp", 6), ("grad", "dp", 9))
"""Name, group of operations without suffix, and column of the operation; its time is in the column before."""

_UPDATE = 11
"""Column of the time of the parameters' update."""

_EVERYONE = ("MICRO", "DATA")
"""Strategies whose weight-gradient column concerns all ranks and which have no other groups."""

_GROUPED = ("HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID_TRANSFORMER")

_FOR_GPUS = ("comm_type", "[rank")

_SIZES = {
    "model_parallel_npu_group": "tp",
    "ep": "ep",
    "expert_parallel_npu_group": "ep",
    "pp": "pp",
    "vpp": "vpp",
    "ga": "ga",
    "all_gpus": "all_gpus",
}
_LISTS = ("checkpoints", "checkpoint_initiates")


@dataclass(frozen=True)
class _Head:
    place: SourceLine
    sizes: dict[str, int]
    pp_comm: int
    unknown: tuple[str, ...]

    @property
    def tp(self) -> int:
        return self.sizes.get("tp", 1)

    @property
    def pp(self) -> int:
        return self.sizes.get("pp", 1)

    @property
    def ep(self) -> int:
        return self.sizes.get("ep", 1)


_Sums = dict[tuple[str, Group, Op], int]
"""Bytes by (pass, group, operation)."""

_NOT_MEASURED = 1.0
"""Nanoseconds of a row for which AICB has no measured time (``default_compute_time``)."""


@dataclass
class _Rows:
    """The totals of the rows.

    Attributes:
        seconds: computing time by pass; the update's counts as the forward pass of the next iteration.
        measured: whether some row has a measured time.
        backward: whether some row so far has a measured time of the backward pass.
        beside: of the bytes of weight gradients, those that are sent while such rows compute.
    """

    sums: _Sums = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys((name for name, _, _ in _PASSES), 0.0))
    measured: bool = False
    backward: bool = False
    beside: _Sums = field(default_factory=dict)

    def overlaps(self, key: tuple[str, Group, Op]) -> bool:
        """Return whether most bytes of an operation of a pass are sent while ranks compute."""
        return 2 * self.beside.get(key, 0) > self.sums[key]


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read one workload: a text for SimAI, or a CSV for real GPUs.

    Raises:
        InputError: a line is invalid, the number of rows is not the stated one, sizes of groups do not fit the number
            of ranks, or that number is not given.
    """
    if len(sources) != 1:
        raise InputError(
            f"{len(sources)} files are {len(sources)} workloads; import each one separately",
            source=sources[1].name if sources else "",
        )
    source = sources[0]
    first = next(_filled(source), None)
    if first is not None and first[1][0].startswith(_FOR_GPUS):
        return read_csv(source, request)
    head, rows = _read(source)
    ranks = _ranks(head, request)
    groups = _groups(head, ranks)
    calls = _until_the_end(tuple(_calls(head, rows, groups)))
    used = {call.ranks for call in calls}
    name = request.name or job_name(source, "aicb")
    job = Job(name, hosts=provisional_hosts(ranks), collectives=calls, timing=_timing(head, rows, calls))
    return Imported(job, False, ranks, len(used), len(calls), tuple(_notes(head, rows, groups)))


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    first = head.lines[0].split() if head.lines else [""]
    if first[0] in (*_EVERYONE, *_GROUPED):
        return "a workload for SimAI, as AICB writes it"
    if first[0].startswith(_FOR_GPUS) and "comm_type" in head.text:
        return "a workload of AICB for real GPUs (CSV)"
    return ""


def _read(source: Source) -> tuple[_Head, _Rows]:
    rows = _filled(source)
    first = next(rows, None)
    if first is None:
        raise InputError("is empty", source=source.name)
    head = _head(*first)
    second = next(rows, None)
    if second is None:
        raise head.place.error("there are no rows after the header")
    place, words = second
    if len(words) != 1:
        raise place.error("is not a number of rows", " ".join(words))
    promised = place.whole(words[0], "the number of rows", 0, 2**31 - 1)
    totals = _Rows()
    count = 0
    for row_place, row in rows:
        count += 1
        _add(totals, row_place, row)
    if count != promised:
        raise place.error(f"{promised} rows are announced, but there are {count}", words[0])
    return head, totals


def _filled(source: Source) -> Iterator[tuple[SourceLine, list[str]]]:
    """Yield the lines that are not empty, split into words."""
    for number, text in lines(source):
        words = text.split()
        if words:
            yield SourceLine(source, number), words


def _head(place: SourceLine, words: list[str]) -> _Head:
    policy = words[0]
    if policy not in (*_EVERYONE, *_GROUPED):
        raise _no_head(place, words)
    sizes: dict[str, int] = {}
    pp_comm = 0
    unknown: list[str] = []
    rest = iter(words[1:])
    for word in rest:
        key = word.removesuffix(":").lower()
        if key not in _SIZES and key not in _LISTS and key != "pp_comm":
            unknown.append(word)
            continue
        value = next(rest, None)
        if value is None:
            raise place.error(f"{key} has no value")
        if key in _LISTS:
            for _ in range(place.whole(value, key, 0, MAX_RANKS)):
                place.whole(next(rest, ""), f"a layer in {key}")
        elif key == "pp_comm":
            pp_comm = place.rounded_up(value, key, MAX_BYTES)
        elif _SIZES[key] in sizes:
            raise place.error(f"{key} is given twice")
        else:
            sizes[_SIZES[key]] = place.whole(value, key, 1, MAX_RANKS)
    if policy in _GROUPED and "tp" not in sizes:
        raise place.error("the header has no model_parallel_NPU_group")
    return _Head(place, sizes, pp_comm, tuple(unknown))


def _no_head(place: SourceLine, words: list[str]) -> InputError:
    known = ", ".join((*_GROUPED, *_EVERYONE))
    return place.error(f"a workload must begin with its strategy: {known}", words[0])


def _add(totals: _Rows, place: SourceLine, row: list[str]) -> None:
    if len(row) != COLUMNS:
        raise place.error(f"a row must have {COLUMNS} columns, not {len(row)}", " ".join(row))
    sums = totals.sums
    for name, column in (*((name, column - 1) for name, _, column in _PASSES), (_PASSES[0][0], _UPDATE)):
        nanoseconds = place.decimal(row[column], f"column {column + 1}, a time,", float(2**63))
        totals.seconds[name] += nanoseconds * NANOSECOND
        totals.measured |= nanoseconds > _NOT_MEASURED and column != _UPDATE
    for name, default, column in _PASSES:
        word = row[column]
        size = place.rounded_up(row[column + 1], f"column {column + 2}, bytes,", MAX_BYTES)
        if word == "NONE" or not size:
            continue
        kind, _, suffix = word.partition("_")
        group = _group(suffix, default)
        if kind not in _OPS or group is None:
            raise place.error(f"column {column + 1} has an unknown operation", word)
        key = (name, group, _OPS[kind])
        sums[key] = sums.get(key, 0) + size
        if sums[key] > MAX_BYTES:
            raise place.error(f"the bytes of all {word} up to this row are more than {MAX_BYTES}", row[column + 1])
        if name == "grad" and totals.backward:
            totals.beside[key] = totals.beside.get(key, 0) + size
    totals.backward |= any(float(row[column - 1]) > _NOT_MEASURED for name, _, column in _PASSES if name != "fwd")


def _group(suffix: str, default: str) -> Group | None:
    match suffix or default:
        case "tp":
            return "tp"
        case "dp":
            return "dp"
        case "EP":
            return "ep"
        case "DP_EP":
            return "dp_ep"
    return None


def _ranks(head: _Head, request: ImportRequest) -> int:
    if "all_gpus" in head.sizes:
        return head.sizes["all_gpus"]
    if request.fabric is None:
        raise head.place.error(
            "the header does not contain the number of ranks (all_gpus): give a fabric, whose hosts are then used"
        )
    return request.fabric.n_hosts


def _groups(head: _Head, ranks: int) -> dict[Group | Literal["pp"], IntArray]:
    """Return the ranks [groups, members] of the groups of each kind."""
    where = "hosts of the fabric" if "all_gpus" not in head.sizes else "all_gpus"
    dp, rest = divmod(ranks, head.tp * head.pp)
    if rest or not dp:
        raise head.place.error(
            f"tp {head.tp} x pp {head.pp} = {head.tp * head.pp} does not divide the number of ranks ({where})", ranks
        )
    if dp % head.ep:
        raise head.place.error(f"ep does not divide dp = {ranks} / (tp {head.tp} x pp {head.pp}) = {dp}", head.ep)
    shape = Parallelism(tp=head.tp, dp=dp, pp=head.pp, ep=head.ep, etp=head.tp)
    return {
        "tp": shape.groups("tp"),
        "dp": shape.groups("dp"),
        "ep": shape.expert_groups("ep"),
        "dp_ep": shape.expert_groups("dp"),
        "pp": shape.groups("pp"),
    }


def _calls(head: _Head, rows: _Rows, groups: dict[Group | Literal["pp"], IntArray]) -> Iterator[CollectiveCall]:
    order = [name for name, _, _ in _PASSES]
    phase = 0
    backward: int | None = None
    for key in sorted(rows.sums, key=lambda key: (order.index(key[0]), key[1:])):
        pass_, group, op = key
        if groups[group].shape[1] < 2:
            continue
        overlaps = rows.overlaps(key)
        if pass_ == "bwd" or overlaps:
            backward = phase if backward is None else backward
        its = phase if backward is None or not overlaps else backward
        for k, ranks in enumerate(groups[group].tolist()):
            name, waits = f"{pass_}.{group}{k}.{op}", Waits(computing=not overlaps)
            yield CollectiveCall(name, op, tuple(ranks), rows.sums[key], phase=its, waits=waits)
        # A phase of its own may also be that of the first operation that overlaps.
        phase += its == phase
    message = head.pp_comm * head.sizes.get("ga", 1)
    if head.pp < 2 or not message:
        return
    if message > MAX_BYTES:
        raise head.place.error(f"ga x pp_comm is more than {MAX_BYTES} bytes", message)
    for k, stages in enumerate(groups["pp"].tolist()):
        for s, (before, after) in enumerate(pairwise(stages)):
            yield CollectiveCall(f"pp{k}.f{s}", "send_recv", (before, after), message, phase=phase)
            yield CollectiveCall(f"pp{k}.b{s + 1}", "send_recv", (after, before), message, phase=phase)


def _until_the_end(calls: tuple[CollectiveCall, ...]) -> tuple[CollectiveCall, ...]:
    """Return the calls; the last phase awaits those that overlap, as SimAI does in the next forward pass."""
    last = max((call.phase for call in calls), default=0)
    return tuple(
        replace(call, waits=replace(call.waits, until=last)) if not call.waits.computing and call.phase < last else call
        for call in calls
    )


def _timing(head: _Head, rows: _Rows, calls: Sequence[CollectiveCall]) -> JobTiming | None:
    """Return the computing time before each phase; a pass without phases computes before the next one that has any."""
    if not rows.measured or not calls:
        return None
    first: dict[str, int] = {}
    for call in calls:
        first.setdefault(call.name.partition(".")[0], call.phase)
    waiting = 1.0 + (head.pp - 1) / head.sizes.get("ga", 1)
    phases = [first.get(name) for name in rows.seconds]
    by_phase: dict[int, float] = {}
    for i, seconds in enumerate(rows.seconds.values()):
        phase = next((phase for phase in phases[i:] if phase is not None), calls[0].phase)
        by_phase[phase] = by_phase.get(phase, 0.0) + seconds * waiting
    return computing(by_phase, head.place.source.name)


def _notes(head: _Head, rows: _Rows, groups: dict[Group | Literal["pp"], IntArray]) -> Iterator[str]:
    source = head.place.source
    where = at_line(source, head.place.line)
    if not rows.measured:
        yield f"{where}: no row has a measured time, so the job has no computing times"
    for group in sorted({group for _, group, _ in rows.sums}):
        if groups[group].shape[1] < 2:
            yield f"{where}: {group} groups have one rank, so their operations send nothing"
    if head.pp > 1 and not head.pp_comm:
        yield f"{where}: pp is {head.pp} and pp_comm has no bytes: stages send each other nothing"
    elif head.pp > 1 and "ga" not in head.sizes:
        yield f"{where}: the header does not contain ga (micro-batches); one is assumed"
    if "all_gpus" not in head.sizes:
        yield f"{where}: the header does not contain the number of ranks; the hosts of the fabric are used"
    if head.unknown:
        yield f"{where}: {len(head.unknown)} words of the header are unknown, the first is {shorten(head.unknown[0])}"
