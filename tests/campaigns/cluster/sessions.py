"""Clients' sessions: what one client was told never goes back, whichever replica told it.

A client sends the number of the last change that it was told with each further read (``Fairspine-At-Least``), and any
replica may answer. Such a read is a *session read*: it may miss what others have written meanwhile, but neither what
the client has written itself, nor what it has read before (Terry et al., "Session guarantees for weakly consistent
replicated data", PDIS 1994).

In a history (``history.py``), a session read begins when the request began that gave the session its
last certain answer: it may return what a register held at any moment since then. What remains to be checked is the
order of the reads of one session.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tests.campaigns.cluster.history import JobOperation


@dataclass
class ClientSession:
    """What one client was told.

    Attributes:
        number: of the client.
        change: the number of the last change that its answers contain; empty: it was told none since ``forget``.
        since: when the last request began that a leader has answered.
    """

    number: int
    change: str = ""
    since: float = 0.0

    def told(self, change: str | None, begin: float, *, certain: bool) -> None:
        """Take the number of an answer to a request that began then; ``certain``: it was no session read."""
        if change is None:
            return
        if not self.change or _order(change) > _order(self.change):
            self.change = change
        if certain:
            self.since = begin

    def forget(self) -> None:
        """Begin anew."""
        self.change = ""


def _order(change: str) -> tuple[int, ...]:
    return tuple(int(part) for part in change.split("-"))


def sessions_that_went_back(operations: Iterable[JobOperation]) -> list[str]:
    """Return the jobs of which a session read something older than what it had read or written before, by name.

    Something is older if its write had ended before the write of the other began. ``operations``: in the order of their
    ends; every written number is different. Reads of a missing job are not compared, since deletions cannot be told
    apart.
    """
    history = list(operations)
    writes = _writes(history)
    return sorted({later.name for earlier, later in _pairs(history) if _older(later, earlier, writes)})


def with_swapped_reads(operations: Sequence[JobOperation], rng: random.Random) -> list[JobOperation] | None:
    """Return the history as if a session had read two numbers of a job in the other order.

    ``None``: no session has read two numbers of which one was written after the other.
    """
    writes = _writes(operations)
    found = [
        (earlier, later)
        for earlier, later in _pairs(operations)
        if not earlier.writes and _older(earlier, later, writes)
    ]
    if not found:
        return None
    earlier, later = rng.choice(found)
    swapped = {id(earlier): replace(earlier, value=later.value), id(later): replace(later, value=earlier.value)}
    return [swapped.get(id(op), op) for op in operations]


def _writes(operations: Sequence[JobOperation]) -> dict[tuple[str, int | None], JobOperation]:
    return {(op.name, op.value): op for op in operations if op.writes and op.value is not None}


def _pairs(operations: Sequence[JobOperation]) -> Iterator[tuple[JobOperation, JobOperation]]:
    """Yield each read of a number with what its session was told of the job last before it."""
    last: dict[tuple[int, str], JobOperation] = {}
    by_session: dict[int, list[JobOperation]] = defaultdict(list)
    for op in operations:
        by_session[op.session].append(op)
    for session, own in by_session.items():
        for op in own:
            if op.value is None:
                continue
            before = last.get((session, op.name))
            if before is not None and not op.writes:
                yield before, op
            if not op.writes or op.is_acknowledged:
                last[session, op.name] = op


def _older(one: JobOperation, other: JobOperation, writes: dict[tuple[str, int | None], JobOperation]) -> bool:
    """Return whether what one operation read or wrote was replaced before the other's was written.

    What a job held at the beginning was written before all else.
    """
    if one.value == other.value:
        return False
    first, second = writes.get((one.name, one.value)), writes.get((other.name, other.value))
    return second is not None and (first is None or first.end < second.begin)
