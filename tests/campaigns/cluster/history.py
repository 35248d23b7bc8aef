"""Decide whether what clients were told of jobs could have come from one controller that never failed.

Each job name is a register: PUT and DELETE write it, GET reads it. A history is linearizable if every operation can be
given one moment between its begin and its end so that each read returns what was written last before it (Herlihy and
Wing, "Linearizability", ACM TOPLAS 1990). The history of several registers is, if that of each register is.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType


@dataclass(frozen=True)
class JobOperation:
    """One request for one job.

    Attributes:
        name: of the job.
        writes: whether it is a PUT or DELETE.
        value: what was written or read; ``None``: no job of this name.
        begin: seconds, when the request was sent.
        end: when the response had arrived; infinite: nobody knows whether the write took place, or when.
        session: of the client that sent it (``tests.campaigns.cluster.sessions``).
        by_follower: whether a replica may have answered that does not lead.
    """

    name: str
    writes: bool
    value: int | None
    begin: float
    end: float = math.inf
    session: int = 0
    by_follower: bool = False

    @property
    def is_acknowledged(self) -> bool:
        """Whether the client was told that it took place."""
        return math.isfinite(self.end)


LATE_SECONDS = 180.0
"""After a request was sent: later it changes nothing. A follower waits for the leader's answer for 120 s, and a lock or
a disk holds up the leader for some 30 s."""

Contents = Mapping[str, int | None]
"""What each job name held at a moment; a name that is missing held nothing."""


def wrong_registers(operations: Iterable[JobOperation], before: Contents = MappingProxyType({})) -> list[str]:
    """Return the names of the jobs whose history is not linearizable. ``before``: what they held at the beginning."""
    by_name: dict[str, list[JobOperation]] = defaultdict(list)
    for operation in operations:
        by_name[operation.name].append(operation)
    return sorted(name for name, history in by_name.items() if not linearizable(history, before.get(name)))


def open_writes(operations: Iterable[JobOperation], now: float) -> list[JobOperation]:
    """Return the writes that may still take place after a history: those of unknown outcome that are recent.

    ``operations``: the reads at the end of the history among them. A number that was read has been written, and no
    request is carried out twice.
    """
    history = list(operations)
    read = {(op.name, op.value) for op in history if not op.writes and op.value is not None}
    return [
        op
        for op in history
        if op.writes and not op.is_acknowledged and (op.name, op.value) not in read and now - op.begin <= LATE_SECONDS
    ]


def linearizable(history: Sequence[JobOperation], before: int | None = None) -> bool:
    """Return whether one register can have had this history; ``before``: what it held at the beginning.

    Depth-first search over the orders of operations (Wing and Gong, J. Parallel and Distributed Computing 1993). A set
    of placed operations with the same content of the register is visited once (Lowe, "Testing for linearizability",
    2017). An operation can be the next one if none that is left ended before it began.
    """
    read = {operation.value for operation in history if not operation.writes}
    # A number of unknown outcome that nobody has read need not have been written.
    possible = (op for op in history if op.is_acknowledged or op.value is None or op.value in read)
    ordered = sorted(possible, key=lambda operation: operation.begin)
    needed = sum(1 << n for n, operation in enumerate(ordered) if math.isfinite(operation.end))
    start = (0, before)
    stack, seen = [start], {start}
    while stack:
        placed, content = stack.pop()
        if placed & needed == needed:
            return True
        for n in _next(ordered, placed):
            operation = ordered[n]
            if not operation.writes and operation.value != content:
                continue
            reached = placed | 1 << n, operation.value
            if reached not in seen:
                seen.add(reached)
                stack.append(reached)
    return False


def _next(ordered: Sequence[JobOperation], placed: int) -> list[int]:
    """Return the numbers of the operations that can come next."""
    found: list[int] = []
    first_end = math.inf
    # The lowest operation that is not placed; all before it are.
    n = (~placed & placed + 1).bit_length() - 1
    while n < len(ordered) and ordered[n].begin <= first_end:
        if not placed >> n & 1:
            found.append(n)
            first_end = min(first_end, ordered[n].end)
        n += 1
    return [n for n in found if ordered[n].begin <= first_end]


def with_lost_write(operations: Sequence[JobOperation], rng: random.Random) -> list[JobOperation] | None:
    """Return the history as if an acknowledged write had been lost: reads of it return what was written before.

    Every written number is different, so no other order of the operations explains such a read. ``None``: no write
    comes after another one and is read later.
    """
    candidates = []
    for lost in operations:
        if (
            lost.writes
            and lost.value is not None
            and any(_is_of(op, lost) and op.begin > lost.end for op in operations)
        ):
            earlier = [op for op in operations if op.writes and op.name == lost.name and op.end < lost.begin]
            before = max(earlier, key=lambda op: op.end).value if earlier else None
            if before is not None:
                candidates.append((lost, before))
    if not candidates:
        return None
    lost, before = rng.choice(candidates)
    return [replace(op, value=before) if _is_of(op, lost) else op for op in operations]


def with_stale_read(operations: Sequence[JobOperation], rng: random.Random) -> list[JobOperation] | None:
    """Return the history as if one read had returned what had been replaced before the read began.

    ``None``: no read comes after two writes, one after the other.
    """
    return _with_stale(operations, rng, [n for n, op in enumerate(operations) if not op.writes])


def with_stale_session_read(operations: Sequence[JobOperation], rng: random.Random) -> list[JobOperation] | None:
    """Return the same for a read that a follower answered; ``None``: there is none of that kind."""
    return _with_stale(operations, rng, [n for n, op in enumerate(operations) if op.by_follower])


def _with_stale(
    operations: Sequence[JobOperation], rng: random.Random, reads: Sequence[int]
) -> list[JobOperation] | None:
    candidates = []
    for n in reads:
        read = operations[n]
        if not read.writes:
            done = [op for op in operations if op.writes and op.name == read.name and op.end < read.begin]
            last = max(done, key=lambda op: op.begin, default=None)
            replaced = [op.value for op in done if last is not None and op.end < last.begin]
            candidates += [(n, value) for value in replaced if value not in (read.value, None)]
    if not candidates:
        return None
    n, old = rng.choice(candidates)
    return [*operations[:n], replace(operations[n], value=old), *operations[n + 1 :]]


def _is_of(read: JobOperation, write: JobOperation) -> bool:
    """Return whether this is a read of what that write wrote."""
    return not read.writes and (read.name, read.value) == (write.name, write.value)
