"""What one rank's trace comes to, whatever its format: totals, not events."""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.model.errors import InputError
from controller.workload.importers.base import Source
from controller.workload.importers.fields import MAX_RANKS

MAX_BYTES = 2**53
MAX_GROUPS = 100_000
WORLD = ""
"""The group of all ranks, where a trace names none."""

NAMES = {
    "allreduce": "all_reduce",
    "allreducecoalesced": "all_reduce",
    "allgather": "all_gather",
    "allgatherbase": "all_gather",
    "allgathercoalesced": "all_gather",
    "allgatherintotensorcoalesced": "all_gather",
    "reducescatter": "reduce_scatter",
    "reducescatterbase": "reduce_scatter",
    "reducescatterblock": "reduce_scatter",
    "reducescattertensorcoalesced": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoallbase": "all_to_all",
    "alltoallv": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "send": "send",
    "recv": "recv",
    "receive": "recv",
}
"""Operations by their names in traces, in small letters and without underscores."""

IGNORED = frozenset({"wait", "barrier", "init", "allreducebarrier"})


def op_of(name: str) -> str | None:
    """The operation that a trace calls so; ``None``: it is none that moves bytes.

    >>> op_of("_allgather_base"), op_of("ALL_TO_ALL"), op_of("wait")
    ('all_gather', 'all_to_all', None)
    """
    return NAMES.get(name.lower().replace("_", "").removeprefix("c10d::").removeprefix("nccl:"))


@dataclass(frozen=True)
class Key:
    """One collective of a job: ``root`` is the position in the group of a broadcast's, reduce's, gather's root."""

    group: str
    op: str
    root: int = 0


@dataclass
class Total:
    """How often, and bytes of this rank's buffer in all; ``to``: bytes by position in the group, where it is told."""

    count: int = 0
    bytes: int = 0
    to: dict[int, int] = field(default_factory=dict)


@dataclass
class RankTrace:
    """What one file says.

    Attributes:
        rank: ``None`` where the file does not say.
        groups: ranks of each group; empty: all there are.
        sizes: how many ranks a group has, where its ranks are not told.
        sent, taken: bytes by (group, peer) of point-to-point operations.
    """

    source: Source
    rank: int | None
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    work: dict[Key, Total] = field(default_factory=dict)
    sent: dict[tuple[str, int], int] = field(default_factory=dict)
    taken: dict[tuple[str, int], int] = field(default_factory=dict)

    def add(self, key: Key, size: int, where: str, to: dict[int, int] | None = None) -> None:
        """One run of a collective."""
        self._check(size, where)
        total = self.work.setdefault(key, Total())
        total.count += 1
        total.bytes += size
        for peer, part in (to or {}).items():
            total.to[peer] = total.to.get(peer, 0) + part
        if total.bytes > MAX_BYTES or len(self.work) > MAX_GROUPS:
            raise self.error("more than any job has", where)

    def pass_on(self, sends: bool, group: str, peer: int, size: int, where: str) -> None:
        """One send, or one receive."""
        self._check(size, where)
        if not 0 <= peer < MAX_RANKS:
            raise self.error(f"rank {peer} is not in 0 .. {MAX_RANKS - 1}", where)
        table = self.sent if sends else self.taken
        table[group, peer] = table.get((group, peer), 0) + size
        if table[group, peer] > MAX_BYTES or len(table) > 64 * MAX_GROUPS:
            raise self.error("more than any job has", where)

    def member(self, name: str, ranks: tuple[int, ...], where: str) -> None:
        """A group and its ranks."""
        if any(not 0 <= rank < MAX_RANKS for rank in ranks) or len(set(ranks)) < len(ranks):
            raise self.error(f"the ranks of group {name!r:.40} are no ranks, or not distinct", where)
        if self.groups.setdefault(name, ranks) != ranks:
            raise self.error(f"group {name!r:.40} has other ranks than before", where)
        if len(self.groups) > MAX_GROUPS:
            raise self.error("more groups than any job has", where)

    def sized(self, name: str, size: int, where: str) -> None:
        """How many ranks a group has."""
        if not 1 <= size <= MAX_RANKS:
            raise self.error(f"{size} ranks are not in 1 .. {MAX_RANKS}", where)
        if self.sizes.setdefault(name, size) != size:
            raise self.error(f"group {name!r:.40} has {size} ranks here and {self.sizes[name]} before", where)

    def error(self, reason: str, where: str) -> InputError:
        return InputError(reason, source=self.source.name, field=where)

    def _check(self, size: int, where: str) -> None:
        if not 0 <= size <= MAX_BYTES:
            raise self.error(f"{size} bytes are not in 0 .. 2^53", where)
