"""Construction of task graphs from other tools' files, and of the job with their messages."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.model.dag import NO_PEER, Dag
from controller.model.errors import InputError
from controller.model.job import CollectiveCall, FlowList, Job
from controller.model.texts.byte_sizes import MAX_BYTES
from controller.workload.importers.base import Imported, provisional_hosts

MAX_TASKS = 20_000_000
_SHOWN = 8
MESSAGES = "messages"
"""The name of the collective of a graph's messages."""

FLATTENED = (
    "the job has the sum of the messages of each pair, all at once; 'fairspine replay' uses their order and the "
    "computations"
)


@dataclass
class DagBuilder:
    """A builder that collects tasks and edges."""

    rank: array[int] = field(default_factory=lambda: array("i"))
    peer: array[int] = field(default_factory=lambda: array("i"))
    bytes: array[int] = field(default_factory=lambda: array("q"))
    seconds: array[float] = field(default_factory=lambda: array("d"))
    lane: array[int] = field(default_factory=lambda: array("i"))
    before: array[int] = field(default_factory=lambda: array("i"))
    after: array[int] = field(default_factory=lambda: array("i"))

    def __len__(self) -> int:
        """Return the number of tasks so far."""
        return len(self.rank)

    def computation(self, rank: int, seconds: float, lane: int = 0) -> int:
        """Add a computation and return its number; one of zero seconds is only a dependency."""
        return self._add(rank, NO_PEER, 0, seconds, lane)

    def message(self, src: int, dst: int, size: int) -> int:
        """Add a message and return its number; one from a rank to itself becomes a computation of zero seconds."""
        return self._add(src, NO_PEER if src == dst else dst, 0 if src == dst else size, 0.0, 0)

    def edge(self, before: int, after: int) -> None:
        """Add a dependency: task ``after`` begins when task ``before`` has ended."""
        self.before.append(before)
        self.after.append(after)

    def dag(self, n_ranks: int) -> Dag:
        """Return the graph of all tasks and edges so far."""

        def column(values: array[int] | array[float], kind: type[np.generic]) -> Any:
            return np.array(values, dtype=kind)

        return Dag(
            n_ranks,
            column(self.rank, np.int32),
            column(self.peer, np.int32),
            column(self.bytes, np.int64),
            column(self.seconds, np.float64),
            column(self.lane, np.int32),
            column(self.before, np.int32),
            column(self.after, np.int32),
        )

    def _add(self, rank: int, peer: int, size: int, seconds: float, lane: int) -> int:
        if len(self.rank) == MAX_TASKS:
            raise InputError(f"has more than {MAX_TASKS} tasks")
        self.rank.append(rank)
        self.peer.append(peer)
        self.bytes.append(size)
        self.seconds.append(seconds)
        self.lane.append(lane)
        return len(self.rank) - 1


def check_acyclic(dag: Dag, source: str) -> None:
    """Check that every task can begin (A. B. Kahn, CACM 5(11), 1962).

    Raises:
        InputError: tasks wait for each other; names their ranks.
    """
    waits = np.bincount(dag.after, minlength=dag.n_tasks)
    ready = np.flatnonzero(waits == 0).tolist()
    order = np.argsort(dag.before, kind="stable")
    first = np.searchsorted(dag.before[order], np.arange(dag.n_tasks + 1)).tolist()
    following, left = dag.after[order].tolist(), waits.tolist()
    for task in ready:  # grows as it is walked
        for other in following[first[task] : first[task + 1]]:
            left[other] -= 1
            if not left[other]:
                ready.append(other)
    if len(ready) == dag.n_tasks:
        return
    # Each task that is left waits for another one that is left, so a walk backwards ends in a circle.
    waiting = np.array(left) > 0
    both = waiting[dag.before] & waiting[dag.after]
    held_by = dict(zip(dag.after[both].tolist(), dag.before[both].tolist(), strict=True))
    place: dict[int, int] = {}
    task = next(iter(held_by))
    while task not in place:
        place[task] = len(place)
        task = held_by[task]
    circle = list(place)[place[task] :]
    ranks = sorted({int(dag.rank[task]) for task in circle})
    who = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks[:_SHOWN]))}"
    raise InputError(
        f"{len(circle)} tasks of {who}{' ..' * (len(ranks) > _SHOWN)} wait for each other, so {int(waiting.sum())} "
        "never begin",
        source=source,
    )


def imported(
    dag: Dag,
    name: str,
    source: str,
    groups: int = 0,
    warnings: tuple[str, ...] = (),
    collectives: tuple[CollectiveCall, ...] = (),
    of_collectives: NDArray[np.bool_] | None = None,
) -> Imported:
    """Return the graph, and the job of its messages: a flow for each ordered pair of ranks.

    Args:
        dag: the graph.
        name: of the job.
        source: the file, for errors.
        groups: the number of groups in the input.
        warnings: what the job lacks.
        collectives: those that the job has beside the messages.
        of_collectives: [T] tasks that are messages of these, and no messages of the job.

    Raises:
        InputError: tasks wait for each other, or a pair sends more bytes than any job has.
    """
    check_acyclic(dag, source)
    sends = dag.is_message & (dag.bytes > 0)
    if of_collectives is not None:
        sends &= ~of_collectives
    pair = dag.rank[sends].astype(np.int64) * dag.n_ranks + dag.peer[sends]
    pairs, index = np.unique(pair, return_inverse=True)
    total = np.zeros(len(pairs), dtype=np.float64)
    np.add.at(total, index, dag.bytes[sends].astype(np.float64))
    if len(total) and total.max() > MAX_BYTES:
        raise InputError("a pair of ranks sends too many bytes", source=source, value=int(total.max()))
    flows = FlowList(
        src=tuple(f"rank{p // dag.n_ranks}" for p in pairs.tolist()),
        dst=tuple(f"rank{p % dag.n_ranks}" for p in pairs.tolist()),
        bytes=total.astype(np.int64),
        collective=(MESSAGES,) * len(pairs),
        udp_src=np.zeros(len(pairs), dtype=np.int32),
    )
    job = Job(name, hosts=provisional_hosts(dag.n_ranks), collectives=collectives, flows=flows)
    note = f"{int(dag.is_message.sum())} messages and {int((dag.seconds > 0).sum())} computations; {FLATTENED}"
    n_collectives = len(collectives) + int(len(pairs) > 0)
    return Imported(job, False, dag.n_ranks, groups, n_collectives, (note,), warnings=warnings, dag=dag)
