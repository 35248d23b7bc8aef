"""PyTorch's oldest traces: groups named by an address that differs on each rank, and files without their rank.

Schema 1.0.1 gives an operation's group as the address of its object in the process, and names the groups only if they
made while the trace was taken. The remaining information is the order in which each rank first uses its groups, and
its position in them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from controller.model.errors import InputError
from controller.workload.importers.chakra.trace import Key, RankTrace
from controller.workload.importers.notes import Notes

_LEAST_ADDRESS = 1 << 16
"""The lowest address of an object in memory; numbers of groups are smaller."""

_NUMBER = re.compile(r"(.*?)([0-9]{1,6})((?:\.[A-Za-z]+)+)")


def guessed_ranks(traces: Sequence[RankTrace]) -> dict[int, int]:
    """Return ranks by place in the sequence if no trace has its own, but positions or file names determine them.

    The positions of ranks in their groups are taken if they all differ; else the numbers at the ends of names
    that are otherwise equal, if they are below the number of files.
    """
    if len(traces) < 2 or any(trace.rank is not None for trace in traces):
        return {}
    positions = [next(iter(trace.positions)) for trace in traces if len(trace.positions) == 1]
    if len(set(positions)) == len(traces):
        return dict(enumerate(positions))
    named = [_NUMBER.fullmatch(trace.source.name.rpartition("/")[2]) for trace in traces]
    rows = [(match[1], match[3], int(match[2])) for match in named if match is not None]
    numbers = {number for _, _, number in rows}
    if len(numbers) == len(traces) and len({row[:2] for row in rows}) == 1 and max(numbers) < len(traces):
        return {place: number for place, (_, _, number) in enumerate(rows)}
    return {}


def name_by_position(by_rank: Mapping[int, RankTrace], given: Mapping[str, tuple[int, ...]], notes: Notes) -> None:
    """Rename groups that each rank calls by another address: ``group0`` for the first that each uses, and so on.

    Raises:
        InputError: the ranks' groups do not correspond.
    """
    unnamed = {rank: _addresses(trace, given) for rank, trace in by_rank.items()}
    shared = {name for names in unnamed.values() for name in names}
    if not shared or len(by_rank) < 2 or any(len(names) == 0 for names in unnamed.values()):
        return
    # One name on several ranks is not an address.
    if len(shared) < sum(len(names) for names in unnamed.values()):
        return
    first_rank = min(by_rank)
    for rank, names in unnamed.items():
        for i, name in enumerate(unnamed[first_rank]):
            expected = _operations(by_rank[first_rank], name)
            if len(names) != len(unnamed[first_rank]) or _operations(by_rank[rank], names[i]) != expected:
                raise InputError(
                    f"names its groups by addresses that differ on each rank, and uses them differently from "
                    f"{by_rank[first_rank].source.name}: equal groups cannot be identified",
                    source=by_rank[rank].source.name,
                )
    for rank, names in unnamed.items():
        for i, name in enumerate(names):
            _rename(by_rank[rank], name, f"group{i}")
    count = len(unnamed[first_rank])
    if count > 1:
        notes.warn(
            f"ranks name {count} groups by different addresses: groups are assumed to be equal in the order of their "
            f"first use, with all {len(by_rank)} ranks in each"
        )
    else:
        notes.once(f"each rank names the group by another address: it is assumed to have all {len(by_rank)} ranks")


def _addresses(trace: RankTrace, given: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Return the names that are addresses, in the order of their first use."""
    names = dict.fromkeys([key.group for key in trace.work] + [name for name, _ in (*trace.sent, *trace.taken)])
    return [
        name
        for name in names
        if name.isdigit() and int(name) >= _LEAST_ADDRESS and name not in trace.groups and name not in given
    ]


def _operations(trace: RankTrace, group: str) -> set[tuple[str, int]]:
    return {(key.op, key.root) for key in trace.work if key.group == group}


def _rename(trace: RankTrace, old: str, new: str) -> None:
    for key in [key for key in trace.work if key.group == old]:
        trace.work[Key(new, key.op, key.root)] = trace.work.pop(key)
    for table in (trace.sent, trace.taken):
        for name, peer in [row for row in table if row[0] == old]:
            table[new, peer] = table.pop((name, peer))
    if old in trace.sizes:
        trace.sizes[new] = trace.sizes.pop(old)
