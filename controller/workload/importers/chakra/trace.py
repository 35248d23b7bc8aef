"""The totals of one rank's trace, independent of its format."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from controller.model.errors import InputError
from controller.model.texts.byte_sizes import MAX_BYTES
from controller.workload.importers.base import Source
from controller.workload.importers.chakra.computing import Computing
from controller.workload.importers.fields import MAX_RANKS

MAX_GROUPS = 100_000
WORLD = ""
"""The group of all ranks, where a trace names none."""

PASSED_ON = "p2p"
"""The operation of sends and receives."""

NAMES = {
    "allreduce": "all_reduce",
    "allreducecoalesced": "all_reduce",
    "allreducesparse": "all_reduce",
    "allgather": "all_gather",
    "allgatherbase": "all_gather",
    "allgathercoalesced": "all_gather",
    "allgatherintotensorcoalesced": "all_gather",
    "reducescatter": "reduce_scatter",
    "reducescatterbase": "reduce_scatter",
    "reducescatterblock": "reduce_scatter",
    "reducescattertensorcoalesced": "reduce_scatter",
    "reducescattercoalesced": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoallsingle": "all_to_all",
    "alltoallbase": "all_to_all",
    "alltoallv": "all_to_all",
    "broadcast": "broadcast",
    "broadcastoop": "broadcast",
    "reduce": "reduce",
    "reduceoop": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "send": "send",
    "recv": "recv",
    "receive": "recv",
}
"""Operations by their names in traces, in lower case and without underscores."""

IGNORED = frozenset({"wait", "barrier", "init", "allreducebarrier"})

ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter"})

_MAX_KINDS = 100


def op_of(name: str) -> str | None:
    """Return the operation of a name in traces; ``None``: it moves no bytes.

    >>> op_of("_allgather_base"), op_of("ALL_TO_ALL"), op_of("wait")
    ('all_gather', 'all_to_all', None)
    """
    return NAMES.get(_plain(name))


def is_known(name: str) -> bool:
    """Return whether the name is that of an operation."""
    plain = _plain(name)
    return plain in NAMES or plain in IGNORED


def _plain(name: str) -> str:
    return name.lower().replace("_", "").removeprefix("c10d::").removeprefix("nccl:")


@dataclass(frozen=True)
class Key:
    """One collective of a job: ``root`` is the position in the group of a broadcast's, reduce's, gather's root."""

    group: str
    op: str
    root: int = 0


@dataclass
class Total:
    """Bytes of this rank's buffer in all runs of a collective.

    Attributes:
        even: bytes of the runs without the parts for each receiver.
        to: bytes of the other runs, by position in the group.
    """

    bytes: int = 0
    even: int = 0
    to: dict[int, int] = field(default_factory=dict)


@dataclass
class RankTrace:
    """The contents of one file.

    Attributes:
        rank: ``None`` where neither the file nor its name has it.
        rank_is_stated: whether the file itself has it.
        groups: ranks of each group; empty: all ranks.
        aliases: other names of a group in operations.
        sizes: number of ranks of a group whose ranks are unknown.
        sent: bytes sent by (group, peer) in point-to-point operations.
        taken: bytes received by (group, peer) in point-to-point operations.
        peers_in_group: whether these peers are positions in the group, not ranks of the job.
        left_out: ignored parts, and how often each occurred.
        has_graph: whether its nodes have dependencies (Chakra's ``.et``).
        positions: the positions of this rank in groups whose ranks are unknown.
        computing: times of computations.
        overlap: of each collective, the part in which the rank computed meanwhile, and all of it: in seconds where they
            were measured (Kineto), else in bytes (Chakra).
    """

    source: Source
    rank: int | None
    rank_is_stated: bool = False
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    work: dict[Key, Total] = field(default_factory=dict)
    sent: dict[tuple[str, int], int] = field(default_factory=dict)
    taken: dict[tuple[str, int], int] = field(default_factory=dict)
    peers_in_group: bool = False
    left_out: Counter[str] = field(default_factory=Counter)
    has_graph: bool = False
    positions: set[int] = field(default_factory=set)
    computing: Computing = field(default_factory=Computing)
    overlap: dict[Key, tuple[float, float]] = field(default_factory=dict)

    def name_of(self, group: str) -> str:
        """Return the name that all ranks have for a group."""
        return group if group in self.groups else self.aliases.get(group, group)

    def is_at(self, group: str, position: int) -> None:
        """Record this rank's position in a group; if the group's ranks are known, it determines the rank."""
        ranks = self.groups.get(group)
        if ranks is None:
            self.positions.add(position)
        if self.rank_is_stated or ranks is None or not 0 <= position < (len(ranks) or self.sizes.get(group, 0)):
            return
        self.rank, self.rank_is_stated = ranks[position] if ranks else position, True

    def used(self) -> set[str]:
        """Return the groups that have any operation of this rank."""
        return {key.group for key in self.work} | {name for table in (self.sent, self.taken) for name, _ in table}

    def add(self, key: Key, size: int, where: str, to: dict[int, int] | None = None) -> None:
        """Add one run of a collective; ``to`` is bytes by position in the group, where the run has them."""
        self._check(size, where)
        self.computing.reach((key.group, key.op))
        total = self.work.setdefault(key, Total())
        total.bytes += size
        if to is None:
            total.even += size
        for peer, part in (to or {}).items():
            total.to[peer] = total.to.get(peer, 0) + part
        if total.bytes > MAX_BYTES or len(self.work) > MAX_GROUPS or len(total.to) > MAX_RANKS:
            raise self.error("too large", where)

    def pass_on(self, sends: bool, group: str, peer: int, size: int, where: str) -> None:
        """Add one send or one receive."""
        self._check(size, where)
        if not 0 <= peer < MAX_RANKS:
            raise self.error(f"rank {peer} is not in 0 .. {MAX_RANKS - 1}", where)
        self.computing.reach((group, PASSED_ON))
        table = self.sent if sends else self.taken
        table[group, peer] = table.get((group, peer), 0) + size
        if table[group, peer] > MAX_BYTES or len(table) > 64 * MAX_GROUPS:
            raise self.error("too large", where)

    def member(self, name: str, ranks: tuple[int, ...], where: str) -> None:
        """Add a group and its ranks, which have been checked; none: all ranks."""
        if self.groups.setdefault(name, ranks) != ranks:
            raise self.error(f"group {name!r:.40} has other ranks than before", where)
        if len(self.groups) > MAX_GROUPS:
            raise self.error("too many groups", where)

    def sized(self, name: str, size: int, where: str) -> None:
        """Record the number of ranks of a group."""
        if not 1 <= size <= MAX_RANKS:
            raise self.error(f"{size} ranks are not in 1 .. {MAX_RANKS}", where)
        if self.sizes.setdefault(name, size) != size:
            raise self.error(f"group {name!r:.40} has {size} ranks here and {self.sizes[name]} before", where)
        if len(self.sizes) > MAX_GROUPS:
            raise self.error("too many groups", where)

    def leave_out(self, what: str) -> None:
        """Count an ignored part, described by a noun phrase."""
        if what in self.left_out or len(self.left_out) < _MAX_KINDS:
            self.left_out[what] += 1

    def error(self, reason: str, where: str) -> InputError:
        """Return an error for a place in this file."""
        return InputError(reason, source=self.source.name, field=where)

    def _check(self, size: int, where: str) -> None:
        if not 0 <= size <= MAX_BYTES:
            raise self.error(f"{size} bytes are not in 0 .. 2^53", where)
