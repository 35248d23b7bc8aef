"""The bytes that each communicator moves by each algorithm in one iteration.

Sizes come from ``opCount`` lines (or from NCCL Inspector where a communicator has none): all operations of a kind that
the log holds, added up and divided by the iterations that it covers. They are S as nccl-tests define it: for AllGather
and ReduceScatter a line counts one rank's elements, and S is that times the ranks (nccl.h: ``sendcount`` and
``recvcount``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from controller.model.errors import InputError
from controller.model.texts.byte_sizes import MAX_BYTES
from controller.workload.importers.nccl.communicators import Communicator
from controller.workload.importers.nccl.log import Log, Member, Use
from controller.workload.importers.nccl.table import Table
from controller.workload.importers.notes import Notes

# Operation as NCCL spells it: ours, and whether a line counts one rank's part of the whole.
OPERATIONS = {
    "AllReduce": ("all_reduce", False),
    "AllGather": ("all_gather", True),
    "ReduceScatter": ("reduce_scatter", True),
    "Broadcast": ("broadcast", False),
    "Reduce": ("reduce", False),
    "AlltoAll": ("all_to_all", True),
    "AllToAll": ("all_to_all", True),
    "Gather": ("gather", True),
    "Scatter": ("scatter", True),
}
_PAIRS = ("Send", "Recv")


@dataclass(frozen=True)
class OperationKind:
    """Operations that use the same edges.

    Attributes:
        op: ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``broadcast``, ``reduce``, ``all_to_all``, ``gather`` or
            ``scatter``.
        algorithm: ``ring`` or ``tree``.
        channels: the first and the last channel, ``None`` for all.
    """

    op: str
    algorithm: str
    root: int
    channels: tuple[int, int] | None


@dataclass
class CommunicatorWork:
    """One communicator's work in one iteration: bytes S by kind of operation, bytes by (sender, receiver)."""

    collectives: dict[OperationKind, Fraction] = field(default_factory=dict)
    pairs: dict[tuple[int, int], Fraction] = field(default_factory=dict)


def work_of(
    log: Log, communicators: list[Communicator], given: int | None, iterations: int, tables: Sequence[Table] = ()
) -> list[CommunicatorWork]:
    """Compute the work of each communicator.

    Args:
        log: the log.
        communicators: the communicators of the log.
        given: bytes of one operation on each communicator of several servers, if no size is known.
        iterations: number of iterations that the log covers.
        tables: tables of nccl-tests: if no line of NCCL has a size, their operation and their largest size are taken.

    Raises:
        InputError: no size is known and none is given, or a size is more than any buffer holds.
    """
    default = _default_algorithm(log)
    guessed = False
    works = []
    for one in communicators:
        work = CommunicatorWork()
        if one.n_ranks > 1:
            guessed |= _collectives(log, one, work, default)
            _pairs(one, work, log.notes)
        works.append(work)
    if not any(one.uses or one.pairs or any(m.uses for m in one.members.values()) for one in communicators):
        return _from_tables(log, communicators, given, default, tables)
    if given is not None:
        log.notes.once("the input contains sizes, so the given bytes are ignored")
    if guessed and log.only not in ({"ring"}, {"tree"}):
        log.notes.once(
            f"the algorithm of an all-reduce is unknown (log NCCL_DEBUG_SUBSYS=TUNING); counted as {default}",
        )
    for one, work in zip(communicators, works, strict=True):
        largest = max((*work.collectives.values(), *work.pairs.values()), default=Fraction(0))
        if largest > MAX_BYTES:
            raise InputError("the number of bytes is too large", source=one.first.where, value=int(largest))
    return [
        CommunicatorWork(
            {kind: size / iterations for kind, size in work.collectives.items()},
            {pair: size / iterations for pair, size in work.pairs.items()},
        )
        for work in works
    ]


def _from_tables(
    log: Log, communicators: list[Communicator], given: int | None, algorithm: str, tables: Sequence[Table]
) -> list[CommunicatorWork]:
    """Return one operation of the given size, or of the largest size that nccl-tests measured."""
    ops = {op: table for table in tables if (op := table.op())}
    if len(ops) > 1:
        raise InputError(
            f"nccl-tests ran {', '.join(ops)}, but NCCL's lines do not assign bytes to them: import each run "
            "separately",
            source=tables[0].where,
        )
    if tables and not ops:
        raise InputError(
            "the operation that nccl-tests ran is unknown, and its columns fit several: log NCCL_DEBUG_SUBSYS=COLL",
            source=tables[0].where,
            value=tables[0].test or None,
        )
    op, root, size = "all_reduce", 0, given
    for named, table in ops.items():
        op = named
        if (row := table.row(given)) is not None:
            size, root = row.bytes, max(0, row.root)
            if given is None:
                log.notes.once(
                    f"{table.where}: of the sizes that nccl-tests ran, only the largest is used, once: {size} bytes"
                )
        elif given is None:
            log.notes.warn(f"{table.where}: nccl-tests' table has no row")
    if size is None:
        raise InputError(
            "the number of bytes is unknown: log NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET,COLL, or give --bytes",
            field="bytes",
        )
    if not ops:
        log.notes.warn(f"the operation is unknown: --bytes is used as one all-reduce of {size} bytes")
    return [_given(one, size, op, root, algorithm) for one in communicators]


def _given(one: Communicator, size: int, op: str, root: int, algorithm: str) -> CommunicatorWork:
    hosts = {member.host for member in one.members.values()}
    if one.n_ranks < 2 or (len(hosts) < 2 and not one.missing):
        return CommunicatorWork()
    if op == "send_recv":
        # sendrecv_perf: each rank sends all bytes to the next one.
        return CommunicatorWork(pairs={(rank, (rank + 1) % one.n_ranks): Fraction(size) for rank in range(one.n_ranks)})
    return CommunicatorWork(
        {OperationKind(op, algorithm if op == "all_reduce" else "ring", root, None): Fraction(size)}
    )


def _default_algorithm(log: Log) -> str:
    return "tree" if log.only == {"tree"} else "ring"


def _collectives(log: Log, one: Communicator, work: CommunicatorWork, default: str) -> bool:
    """Add the collectives; return whether an algorithm had to be guessed."""
    teller = _teller(one, log.notes)
    if teller is None:
        rows = [(key, algorithm, use) for key, (algorithm, use) in one.uses.items()]
    else:
        rows = [(key, "", use) for key, use in teller.uses.items() if key[0] not in _PAIRS]
    guessed = False
    for (name, root, size), algorithm, use in rows:
        if name not in OPERATIONS:
            log.notes.add("kinds of operations left out", f"{one.name}: {use.times} {name} are left out")
            continue
        op, is_part = OPERATIONS[name]
        factor = one.n_ranks if is_part else 1
        chosen, channels = algorithm, None
        if size >= 0 and not chosen:
            chosen, channels = _choice(log, one, name, size * factor)
        if op != "all_reduce":
            chosen = chosen or "ring"
        elif not chosen:
            guessed, chosen = True, default
        kind = OperationKind(op, _followed(one, name, chosen, log.notes), root, channels)
        work.collectives[kind] = work.collectives.get(kind, Fraction(0)) + use.bytes * factor
    return guessed


def _teller(one: Communicator, notes: Notes) -> Member | None:
    """Return the rank with the longest log, which represents all, as all ranks take part in each collective."""
    counts = {
        rank: sum(use.times for key, use in member.uses.items() if key[0] not in _PAIRS)
        for rank, member in one.members.items()
    }
    if not any(counts.values()):
        return None
    best = max(counts, key=lambda rank: (counts[rank], -rank))
    for rank, count in counts.items():
        if 0 < count < counts[best]:
            notes.add(
                "ranks with fewer operations",
                f"{one.name}: rank {rank} logged {count} operations and rank {best} {counts[best]}, which is used",
            )
    return one.members[best]


def _choice(log: Log, one: Communicator, name: str, size: int) -> tuple[str, tuple[int, int] | None]:
    """Return NCCL's choice for an operation of this size, if a rank of the communicator printed it (rank 0 does)."""
    for member in one.members.values():
        choices = log.choices.get(member.process, {})
        for key in ((name, size), ("", size)):
            if key in choices:
                return choices[key]
    return "", None


def _followed(one: Communicator, name: str, algorithm: str, notes: Notes) -> str:
    """Return the algorithm whose edges are used for this one."""
    if algorithm in ("ring", "tree"):
        return algorithm if name == "AllReduce" else "ring"
    as_what = "tree" if algorithm == "nvlstree" and name == "AllReduce" else "ring"
    notes.add(
        "algorithms without edges in the log",
        f"{one.name}: {name} by {algorithm} is counted as {as_what}",
    )
    return as_what


def _pairs(one: Communicator, work: CommunicatorWork, notes: Notes) -> None:
    """Add the bytes of pairs from the senders; where a sender has no log, from the receivers."""
    sent: dict[tuple[int, int], Use] = {}
    for rank, member in one.members.items():
        for (name, peer, _), use in member.uses.items():
            if name not in _PAIRS or peer == rank:
                continue
            if not 0 <= peer < one.n_ranks:
                notes.add(
                    "peers that do not exist",
                    f"{one.name}: rank {rank} of {one.n_ranks} has a peer {peer}, see {member.where}; left out",
                )
            elif name == "Send":
                sent[rank, peer] = use
            elif peer not in one.members:
                sent[peer, rank] = use
    for pair, use in (sent or one.pairs).items():
        if pair[0] != pair[1]:
            work.pairs[pair] = Fraction(use.bytes)
