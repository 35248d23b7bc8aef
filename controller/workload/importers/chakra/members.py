"""The members of groups, from all traces and a file of groups."""

from __future__ import annotations

import re
from collections.abc import Mapping

from controller.model.errors import InputError
from controller.workload.importers.chakra.trace import WORLD, Key, RankTrace
from controller.workload.importers.notes import Notes

_ALL = frozenset({WORLD, "0"})
"""Groups of all ranks by default: in ASTRA-sim and, as PyTorch's first group is named 0, there."""

_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9._]+")


def group_table(by_rank: Mapping[int, RankTrace], given: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Return the ranks of each group, none for all; traces take precedence over the file.

    Raises:
        InputError: traces of two ranks that are in a group contradict each other.
    """
    stated: dict[str, tuple[int, ...]] = {}
    everybody: dict[str, tuple[int, ...]] = {}
    for rank, trace in by_rank.items():
        for name, ranks in trace.groups.items():
            if not ranks:
                everybody[name] = ()
            # Different ranks may use one name for different groups, if each is only in its own.
            elif rank in ranks and stated.setdefault(name, ranks) != ranks:
                raise InputError(
                    f"group {name!r:.40} has other ranks here than in another trace", source=trace.source.name
                )
    return {**given, **everybody, **stated}


def world_size(by_rank: Mapping[int, RankTrace], known: Mapping[str, tuple[int, ...]]) -> int:
    """Return the number of ranks: the least that covers all groups, sizes and peers."""
    highest = max(by_rank)
    for ranks in known.values():
        highest = max(highest, *ranks, -1)
    for trace in by_rank.values():
        peers = (peer for table in (trace.sent, trace.taken) for _, peer in table)
        highest = max(highest, *(size - 1 for size in trace.sizes.values()), *peers, -1)
    return highest + 1


class Members:
    """The ranks of each group.

    Attributes:
        n: number of ranks of the job.
    """

    def __init__(
        self, n: int, known: Mapping[str, tuple[int, ...]], by_rank: Mapping[int, RankTrace], notes: Notes
    ) -> None:
        """Find the users of each group."""
        self.n = n
        self._known, self._by_rank, self._notes = known, by_rank, notes
        self._resolved: dict[str, tuple[int, ...]] = {}
        self._users: dict[str, list[int]] = {}
        for rank in sorted(by_rank):
            for group in by_rank[rank].used():
                self._users.setdefault(group, []).append(rank)

    def of(self, group: str) -> tuple[int, ...]:
        """Return the ranks in the order of their positions; a note says where it is a guess."""
        if group not in self._resolved:
            self._resolved[group] = self._known.get(group) or self._guessed(group)
        return self._resolved[group]

    def tellers(self, key: Key, ranks: tuple[int, ...]) -> list[int]:
        """Return the ranks whose traces have the collective."""
        return [rank for rank in ranks if rank in self._by_rank and key in self._by_rank[rank].work]

    def label(self, group: str) -> str:
        """Return the group as a part of collectives' names."""
        return _NOT_IN_LABELS.sub("_", group).strip("_")[:40] or "all"

    def _guessed(self, group: str) -> tuple[int, ...]:
        size = max((trace.sizes.get(group, 0) for trace in self._by_rank.values()), default=0)
        if group == WORLD or size == self.n or (not size and (group in self._known or group in _ALL)):
            return tuple(range(self.n))
        users = tuple(self._users.get(group, ()))
        complete = len(self._by_rank) == self.n and len(users) > 1
        if len(users) == size or (not size and complete):
            self._note(group, f"the {len(users)} ranks whose traces have it are used")
            return users
        if size:
            self._note(group, f"the first {size} ranks are used")
            return tuple(range(size))
        self._note(group, f"all {self.n} ranks are used")
        return tuple(range(self.n))

    def _note(self, group: str, taken: str) -> None:
        self._notes.add("groups", f"the ranks of group {group!r:.40} are unknown; {taken}")
