"""Merging of several ranks' traces to one job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from controller.model.errors import InputError
from controller.model.job import CollectiveCall, FlowList, Job, Op
from controller.model.texts.byte_sizes import MAX_BYTES
from controller.model.timing import JobTiming
from controller.model.waits import FOR_COMPUTING, Waits
from controller.workload.importers.base import Imported, ImportRequest, provisional_hosts
from controller.workload.importers.chakra.addresses import guessed_ranks, name_by_position
from controller.workload.importers.chakra.computing import Operation, by_phase
from controller.workload.importers.chakra.graph import graph_of
from controller.workload.importers.chakra.members import Members, group_table, world_size
from controller.workload.importers.chakra.trace import PASSED_ON, ROOTED, Key, RankTrace, Total
from controller.workload.importers.dags import check_acyclic
from controller.workload.importers.fields import MAX_RANKS, job_name
from controller.workload.importers.notes import Notes
from controller.workload.importers.times import computing, period

MAX_FLOWS = 5_000_000


def merge(
    traces: Sequence[RankTrace],
    groups: Mapping[str, tuple[int, ...]],
    request: ImportRequest,
    *,
    passed_over: int = 0,
    more: Sequence[str] = (),
    measured_seconds: float = 0.0,
    lacking: str = "or a file of groups",
    falling: bool = False,
) -> Imported:
    """Build the job that the ranks of these traces run.

    Args:
        traces: one trace for each rank.
        groups: groups from a file of groups; a trace's own groups take precedence.
        request: the options of the import.
        passed_over: number of ignored files, which are not traces.
        more: further notes of the reader of the format.
        measured_seconds: of all iterations together, where they were measured.
        lacking: what could take the place of further traces where one rank is described.
        falling: whether rings lead from each rank to the one before it, as those of Gloo do.

    Raises:
        InputError: two files are of one rank, groups differ, or no rank sends anything.
    """
    notes = Notes()
    for sentence in more:
        notes.once(sentence)
    if passed_over:
        notes.once(f"{passed_over} files of code beside the traces are left out")
    by_rank = _by_rank(traces, notes)
    name_by_position(by_rank, groups, notes)
    known = group_table(by_rank, groups)
    n = world_size(by_rank, known)
    first = traces[0].source
    if n > MAX_RANKS:
        raise InputError(f"{n} ranks are more than {MAX_RANKS}", source=first.name)
    members = Members(n, known, by_rank, notes)
    _find_roots(by_rank, members, notes)
    job = _Builder(members, by_rank, notes, request.iterations, falling=falling)
    job.measured_seconds = measured_seconds
    for key in sorted({key for trace in by_rank.values() for key in trace.work}, key=lambda k: (k.group, k.op, k.root)):
        job.collective(key)
    job.passed_on()
    left_out = [f"{count} x {what}" for trace in traces for what, count in trace.left_out.items()]
    if n < 2 and any(trace.work for trace in traces):
        raise InputError(
            f"describes only one rank: give the traces of all ranks, a file each, {lacking}",
            source=first.name,
        )
    if not job.calls and not job.src:
        reason = "has no communication" if len(traces) == 1 else "and the others have no communication"
        raise InputError(f"{reason}; left out: {left_out[0]}" if left_out else reason, source=first.name)
    for trace in traces:
        for what, count in trace.left_out.items():
            notes.warn(f"{_short(trace)}: left out, {count} x {what}")
    missing = n - len(by_rank)
    if missing:
        notes.warn(f"traces of {missing} of {n} ranks are missing; those of the others are used for them")
    imported = job.imported(request.name or job_name(first, "trace"))
    if not request.graph or not all(trace.has_graph for trace in traces):
        return imported
    dag, warnings = graph_of(by_rank, members)
    check_acyclic(dag, first.name)
    return replace(imported, dag=dag, warnings=(*imported.warnings, *warnings))


def _by_rank(traces: Sequence[RankTrace], notes: Notes) -> dict[int, RankTrace]:
    by_rank: dict[int, RankTrace] = {}
    guessed = guessed_ranks(traces)
    for position, trace in enumerate(traces):
        rank = guessed.get(position, position) if trace.rank is None else trace.rank
        if rank in by_rank:
            raise InputError(f"is of rank {rank}, as is {by_rank[rank].source.name}", source=trace.source.name)
        if not 0 <= rank < MAX_RANKS:
            raise InputError("is not a rank", source=trace.source.name, field="rank", value=rank)
        if trace.rank is None and position not in guessed and len(traces) > 1:
            notes.add(
                "files taken in their order", f"{_short(trace)} does not contain its rank: by its position it is {rank}"
            )
        by_rank[rank] = trace
    return by_rank


def _short(trace: RankTrace) -> str:
    return trace.source.name.rpartition("/")[2]


def _find_roots(by_rank: Mapping[int, RankTrace], members: Members, notes: Notes) -> None:
    """Correct roots of PyTorch's older traces, which have the rank itself in place of the root.

    Each rank then names another root, and no other rank does.
    """
    tellers: dict[tuple[str, str], dict[int, list[int]]] = {}
    for rank, trace in by_rank.items():
        for key in trace.work:
            if key.op in ROOTED:
                tellers.setdefault((key.group, key.op), {}).setdefault(key.root, []).append(rank)
    for (group, op), by_root in tellers.items():
        ranks = members.of(group)
        if len(by_root) < 2 or any(
            len(who) > 1 or ranks[root : root + 1] != (who[0],) for root, who in by_root.items()
        ):
            continue
        notes.add(
            "roots", f"{members.label(group)}: no trace contains the root of {op}; the first rank of the group is used"
        )
        for root, who in by_root.items():
            work = by_rank[who[0]].work
            work[Key(group, op)] = work.pop(Key(group, op, root))


class _Builder:
    """A builder that collects calls and flows."""

    def __init__(
        self, members: Members, by_rank: Mapping[int, RankTrace], notes: Notes, iterations: int, *, falling: bool
    ) -> None:
        self.falling = falling
        self.members, self.by_rank = members, by_rank
        self.notes, self.iterations = notes, iterations
        self.calls: list[CollectiveCall] = []
        self.src: list[str] = []
        self.dst: list[str] = []
        self.sizes: list[int] = []
        self.of: list[str] = []
        self.names: set[str] = set()
        self.groups: set[str] = set()
        self.operations: dict[Operation, str] = {}
        self.overlapping: set[str] = set()
        self.measured_seconds = 0.0

    def collective(self, key: Key) -> None:
        """Add one operation of one group, from the ranks that ran it."""
        ranks = self.members.of(key.group)
        totals = {rank: self.by_rank[rank].work[key] for rank in self.members.tellers(key, ranks)}
        if not totals or len(ranks) < 2:
            return
        self.groups.add(key.group)
        root = key.root % len(ranks)
        most = max(totals, key=lambda rank: totals[rank].bytes)
        name = self._name(f"{self.members.label(key.group)}-{key.op}" + (f"-root{key.root}" if key.root else ""))
        self.operations.setdefault((key.group, key.op), name)
        computes = self.measured_seconds or any(trace.computing.seconds for trace in self.by_rank.values())
        if computes and self._overlaps(key):
            self.overlapping.add(name)
        if key.op == "all_to_all" and any(total.to for total in totals.values()):
            self._exchange(ranks, totals, name)
            return
        if key.op in ("gather", "scatter"):
            for rank in ranks:
                if rank == ranks[root]:
                    continue
                if key.op == "gather":
                    self._flow(rank, ranks[root], totals.get(rank, totals[most]).bytes, name)
                else:
                    self._flow(ranks[root], rank, -(-totals[most].bytes // len(ranks)), name)
            return
        if key.op != "all_to_all":
            self._compare(key, totals, most)
        size = totals[most].bytes * (len(ranks) if key.op == "all_gather" else 1)
        if size > MAX_BYTES:
            raise InputError(f"{name} has {size} bytes, which is too much", source=self.by_rank[most].source.name)
        if key.op in ROOTED:
            ranks = ranks[root:] + ranks[:root]
        elif self.falling:
            self.notes.once("Gloo's rings send from rank r to rank r - 1: ranks of collectives are in falling order")
            ranks = ranks[::-1]
        self.calls.append(CollectiveCall(name, cast(Op, key.op), ranks, -(-size // self.iterations)))

    def _overlaps(self, key: Key) -> bool:
        """Return whether ranks compute during most of a collective."""
        rows = [trace.overlap[key] for trace in self.by_rank.values() if key in trace.overlap]
        return 2.0 * sum(beside for beside, _ in rows) > sum(every for _, every in rows)

    def _compare(self, key: Key, totals: Mapping[int, Total], most: int) -> None:
        least = min(totals, key=lambda rank: totals[rank].bytes)
        if totals[most].bytes != totals[least].bytes:
            self.notes.add(
                "collectives with different sizes on different ranks",
                f"{self.members.label(key.group)}: {key.op} is {totals[most].bytes} bytes by "
                f"{_short(self.by_rank[most])} and {totals[least].bytes} by {_short(self.by_rank[least])}; "
                "the larger value is used",
            )

    def _exchange(self, ranks: tuple[int, ...], totals: Mapping[int, Total], name: str) -> None:
        """Add an all-to-all of which at least some runs have the bytes for each receiver."""
        for rank, total in totals.items():
            share = -(-total.even // len(ranks))
            for position, peer in enumerate(ranks):
                size = total.to.get(position, 0) + share
                if size and peer != rank:
                    self._flow(rank, peer, size, name)
        if len(totals) < len(ranks):
            self.notes.add(
                "incomplete uneven all-to-alls",
                f"{name}: what {len(ranks) - len(totals)} of {len(ranks)} ranks send is unknown and left out",
            )

    def passed_on(self) -> None:
        """Add sends, and receives without a recorded send."""
        sent = {rank: self._peers(trace, trace.sent) for rank, trace in self.by_rank.items()}
        taken = {rank: self._peers(trace, trace.taken) for rank, trace in self.by_rank.items()}
        for rank in self.by_rank:
            for (group, peer), size in sorted(sent[rank].items()):
                self._pass(rank, peer, size, group)
                took = taken[peer].get((group, rank), 0) if peer in taken else size
                if took != size:
                    self.notes.add(
                        "pairs whose sends and receives differ",
                        f"rank {rank} sends rank {peer} {size} bytes, of which {took} are received",
                    )
            for (group, peer), size in sorted(taken[rank].items()):
                if peer not in sent:
                    self._pass(peer, rank, size, group)
                elif (group, rank) not in sent[peer]:
                    self.notes.add(
                        "pairs whose sends and receives differ",
                        f"rank {rank} receives {size} bytes from rank {peer}, which sends none",
                    )

    def _peers(self, trace: RankTrace, table: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Return the table with ranks of the job as peers."""
        if not trace.peers_in_group:
            return dict(table)
        peers = {}
        for (group, position), size in table.items():
            ranks = self.members.of(group)
            if position >= len(ranks):
                raise InputError(
                    f"sends to or receives from rank {position} of a group of {len(ranks)}", source=trace.source.name
                )
            peers[group, ranks[position]] = size
        return peers

    def imported(self, name: str) -> Imported:
        names = [call.name for call in self.calls] + list(dict.fromkeys(self.of))
        in_turn = [name for name in names if name not in self.overlapping] if len(self.groups) == 1 else []
        # The first phase is that which computes.
        phase = dict.fromkeys(names, 0) | {name: i for i, name in enumerate(in_turn)}
        waits = dict.fromkeys(self.overlapping, Waits(computing=False))
        flows = FlowList(
            tuple(self.src),
            tuple(self.dst),
            np.array(self.sizes, dtype=np.int64),
            tuple(self.of),
            np.zeros(len(self.src), dtype=np.int32),
        )
        calls = tuple(
            replace(call, phase=phase[call.name], waits=waits.get(call.name, FOR_COMPUTING)) for call in self.calls
        )
        phases = {name: phase[name] for name in dict.fromkeys(self.of) if phase[name]}
        n = self.members.n
        timing = self._timing({operation: phase.get(its, 0) for operation, its in self.operations.items()})
        job = Job(
            name,
            hosts=provisional_hosts(n),
            collectives=calls,
            flows=flows,
            phases=phases,
            timing=timing,
            waits={name: waits[name] for name in dict.fromkeys(self.of) if name in waits},
        )
        return Imported(
            job, False, n, len(self.groups), len(names), self.notes.sentences(), warnings=self.notes.warnings()
        )

    def _timing(self, phases: Mapping[Operation, int]) -> JobTiming | None:
        """Return the measured time of an iteration, or else the computing times."""
        source = next(iter(self.by_rank.values())).source.name
        if self.measured_seconds:
            return period(self.measured_seconds / self.iterations, source)
        ranks = [trace.computing for trace in self.by_rank.values()]
        return computing(by_phase(ranks, phases, self.iterations), source)

    def _pass(self, src: int, dst: int, size: int, group: str) -> None:
        if src != dst:
            self.groups.add(group)
            name = self.operations.setdefault((group, PASSED_ON), f"{self.members.label(group)}-{PASSED_ON}")
            self._flow(src, dst, size, name)

    def _flow(self, src: int, dst: int, size: int, name: str) -> None:
        if len(self.src) == MAX_FLOWS:
            raise InputError(f"has more than {MAX_FLOWS} flows", source=next(iter(self.by_rank.values())).source.name)
        self.src.append(f"rank{src}")
        self.dst.append(f"rank{dst}")
        self.sizes.append(-(-size // self.iterations))
        self.of.append(name)

    def _name(self, name: str) -> str:
        """Return a unique name: names that differ only in removed characters get a number."""
        wanted, number = name, 1
        while name in self.names:
            number += 1
            name = f"{wanted}.{number}"
        self.names.add(name)
        return name
