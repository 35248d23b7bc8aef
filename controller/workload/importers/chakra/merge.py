"""Several ranks' traces as one job."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from controller.model.errors import InputError
from controller.model.job import CollectiveCall, FlowList, Job
from controller.workload.importers.base import Imported, ImportRequest, provisional_hosts
from controller.workload.importers.chakra.trace import MAX_BYTES, WORLD, Key, RankTrace
from controller.workload.importers.fields import MAX_RANKS, job_name
from controller.workload.importers.notes import Notes

PASSED_ON = "p2p"
MAX_FLOWS = 5_000_000


def merge(traces: Sequence[RankTrace], groups: Mapping[str, tuple[int, ...]], request: ImportRequest) -> Imported:
    """The job that the ranks of these traces run.

    Args:
        groups: from a file of groups; what a trace itself says wins.

    Raises:
        InputError: two files are of one rank, groups differ, or nobody sends anybody anything.
    """
    notes = Notes()
    by_rank = _by_rank(traces)
    known = _groups(by_rank, groups)
    n = _world(by_rank, known)
    if n > MAX_RANKS:
        raise InputError(f"{n} ranks are more than {MAX_RANKS}", source=traces[0].source.name)
    job = _Builder(n, known, by_rank, notes, request.iterations)
    for key in sorted({key for trace in by_rank.values() for key in trace.work}, key=lambda k: (k.group, k.op, k.root)):
        job.collective(key)
    job.passed_on()
    if n < 2 and any(trace.work for trace in traces):
        raise InputError(
            "tells of one rank alone: all ranks' traces, or a file of groups, would say who takes part",
            source=traces[0].source.name,
        )
    if not job.calls and not job.src:
        raise InputError(
            "has no communication" if len(traces) == 1 else "and the others have no communication",
            source=traces[0].source.name,
        )
    missing = n - len(by_rank)
    if missing:
        notes.add("ranks", f"traces of {missing} of {n} ranks are missing; what the others say counts for them")
    return job.imported(request.name or job_name(traces[0].source, "trace"))


def _by_rank(traces: Sequence[RankTrace]) -> dict[int, RankTrace]:
    by_rank: dict[int, RankTrace] = {}
    for position, trace in enumerate(traces):
        rank = position if trace.rank is None else trace.rank
        if rank in by_rank:
            raise InputError(f"is of rank {rank}, as {by_rank[rank].source.name} is", source=trace.source.name)
        if not 0 <= rank < MAX_RANKS:
            raise InputError("is no rank", source=trace.source.name, field="rank", value=rank)
        by_rank[rank] = trace
    return by_rank


def _groups(by_rank: Mapping[int, RankTrace], given: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    known = dict(given)
    told: dict[str, tuple[int, ...]] = {}
    for rank, trace in by_rank.items():
        for name, ranks in trace.groups.items():
            # Different ranks may give different groups one name, if each is in its own alone.
            if rank not in ranks and ranks:
                continue
            if ranks and told.setdefault(name, ranks) != ranks:
                raise InputError(
                    f"group {name!r:.40} has other ranks here than in another trace", source=trace.source.name
                )
    known.update(told)
    return known


def _world(by_rank: Mapping[int, RankTrace], known: Mapping[str, tuple[int, ...]]) -> int:
    """How many ranks there are."""
    highest = max(by_rank)
    for ranks in known.values():
        highest = max(highest, *ranks)
    for trace in by_rank.values():
        highest = max(highest, *(size - 1 for size in trace.sizes.values()), *(peer for _, peer in trace.sent), -1)
        highest = max(highest, *(peer for _, peer in trace.taken), -1)
    return highest + 1


class _Builder:
    """Collects calls and flows."""

    def __init__(
        self,
        n: int,
        groups: Mapping[str, tuple[int, ...]],
        by_rank: Mapping[int, RankTrace],
        notes: Notes,
        iterations: int,
    ) -> None:
        self.n, self.groups, self.by_rank = n, groups, by_rank
        self.notes, self.iterations = notes, iterations
        self.calls: list[CollectiveCall] = []
        self.src: list[str] = []
        self.dst: list[str] = []
        self.sizes: list[int] = []
        self.of: list[str] = []
        self.used: set[str] = set()

    def collective(self, key: Key) -> None:
        """One operation of one group, as the ranks that ran it tell."""
        ranks = self._members(key.group)
        tellers = [rank for rank in ranks if rank in self.by_rank and key in self.by_rank[rank].work]
        if not tellers or len(ranks) < 2:
            return
        totals = {rank: self.by_rank[rank].work[key] for rank in tellers}
        most = max(tellers, key=lambda rank: totals[rank].bytes)
        least = min(tellers, key=lambda rank: totals[rank].bytes)
        even = key.op not in ("all_to_all", "gather", "scatter")
        if even and totals[most].bytes != totals[least].bytes:
            self.notes.add(
                "collectives that ranks tell differently",
                f"{self._label(key.group)}: {key.op} is {totals[most].bytes} bytes by {self._file(most)} and "
                f"{totals[least].bytes} by {self._file(least)}; the larger counts",
            )
        name = self._name(f"{self._label(key.group)}-{key.op}" + (f"-root{key.root}" if key.root else ""))
        if key.op == "all_to_all" and any(total.to for total in totals.values()):
            for rank, total in totals.items():
                for position, size in total.to.items():
                    if position < len(ranks) and ranks[position] != rank:
                        self._flow(rank, ranks[position], size, name)
            return
        if key.op in ("gather", "scatter"):
            root = ranks[key.root % len(ranks)]
            for rank in ranks:
                size = totals.get(rank, totals[most]).bytes
                if rank != root and key.op == "gather":
                    self._flow(rank, root, size, name)
                elif rank != root:
                    self._flow(root, rank, -(-totals[most].bytes // len(ranks)), name)
            return
        size = totals[most].bytes * (len(ranks) if key.op == "all_gather" else 1)
        if size > MAX_BYTES:
            raise InputError(f"{name} has {size} bytes, more than any job has", source=self.by_rank[most].source.name)
        if key.op in ("broadcast", "reduce"):
            start = key.root % len(ranks)
            ranks = ranks[start:] + ranks[:start]
        self.calls.append(CollectiveCall(name, key.op, ranks, -(-size // self.iterations)))  # type: ignore[arg-type]

    def passed_on(self) -> None:
        """Sends, and receives that nobody tells of as sends."""
        for rank, trace in self.by_rank.items():
            for (group, peer), size in sorted(trace.sent.items()):
                self._pass(rank, peer, size, group)
                other = self.by_rank.get(peer)
                took = other.taken.get((group, rank), 0) if other else size
                if took != size:
                    self.notes.add(
                        "pairs whose sends and receives differ",
                        f"rank {rank} sends rank {peer} {size} bytes, of which {took} are received",
                    )
            for (group, peer), size in sorted(trace.taken.items()):
                if peer not in self.by_rank:
                    self._pass(peer, rank, size, group)
                elif (group, rank) not in self.by_rank[peer].sent:
                    self.notes.add(
                        "pairs whose sends and receives differ",
                        f"rank {rank} receives {size} bytes from rank {peer}, which sends none",
                    )

    def imported(self, name: str) -> Imported:
        names = [call.name for call in self.calls] + list(dict.fromkeys(self.of))
        groups = {name.rpartition("-")[0] for name in names}
        phase = {name: i if len(groups) == 1 else 0 for i, name in enumerate(names)}
        flows = FlowList(
            tuple(self.src),
            tuple(self.dst),
            np.array(self.sizes, dtype=np.int64),
            tuple(self.of),
            np.zeros(len(self.src), dtype=np.int32),
        )
        calls = tuple(
            CollectiveCall(call.name, call.op, call.ranks, call.bytes, phase=phase[call.name]) for call in self.calls
        )
        phases = {name: phase[name] for name in dict.fromkeys(self.of) if phase[name]}
        job = Job(name, hosts=provisional_hosts(self.n), collectives=calls, flows=flows, phases=phases)
        return Imported(job, False, self.n, max(1, len(groups)), len(names), self.notes.sentences())

    def _members(self, group: str) -> tuple[int, ...]:
        ranks = self.groups.get(group, ())
        if ranks:
            return ranks
        size = max((trace.sizes.get(group, 0) for trace in self.by_rank.values()), default=0)
        if group != WORLD and 0 < size < self.n:
            self.notes.add("groups", f"the ranks of group {group!r:.40} are not told; the first {size} are taken")
            return tuple(range(size))
        return tuple(range(self.n))

    def _pass(self, src: int, dst: int, size: int, group: str) -> None:
        if src != dst:
            self._flow(src, dst, size, f"{self._label(group)}-{PASSED_ON}")

    def _flow(self, src: int, dst: int, size: int, name: str) -> None:
        if len(self.src) == MAX_FLOWS:
            raise InputError(f"has more than {MAX_FLOWS} flows", source=next(iter(self.by_rank.values())).source.name)
        self.src.append(f"rank{src}")
        self.dst.append(f"rank{dst}")
        self.sizes.append(-(-size // self.iterations))
        self.of.append(name)

    def _label(self, group: str) -> str:
        return re.sub(r"[^A-Za-z0-9._]+", "_", group).strip("_")[:40] or "all"

    def _name(self, name: str) -> str:
        """Names that were different stay so when what a name may not have is gone."""
        wanted, number = name, 1
        while name in self.used:
            number += 1
            name = f"{wanted}.{number}"
        self.used.add(name)
        return name

    def _file(self, rank: int) -> str:
        return self.by_rank[rank].source.name.rpartition("/")[2]
