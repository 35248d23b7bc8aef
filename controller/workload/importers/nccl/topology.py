"""Valid rings and trees of a communicator, from its ranks' lines."""

from __future__ import annotations

from dataclasses import dataclass

from controller.workload.importers.nccl.communicators import Communicator
from controller.workload.importers.nccl.gaps import closed
from controller.workload.importers.nccl.lines import NOBODY
from controller.workload.importers.notes import Notes


@dataclass(frozen=True)
class NcclTopology:
    """Rings and trees by channel.

    Attributes:
        rings: ranks in ring order.
        trees: parent of each rank, ``NOBODY`` for the root.
    """

    rings: dict[int, tuple[int, ...]]
    trees: dict[int, tuple[int, ...]]


def topology(one: Communicator, notes: Notes, *, with_trees: bool) -> NcclTopology:
    """Return rings and, if required, trees; incomplete or impossible ones are left out with a note."""
    trees: dict[int, tuple[int, ...]] = {}
    logged = {channel for member in one.members.values() for channel in (*member.rings, *member.orders)}
    # Channels that no ring line names may serve sends and receives instead of rings.
    channels = logged or {c for member in one.members.values() for c in (*member.first_sends, *member.first_receives)}
    ring_of = {channel: _ring(one, channel, notes) for channel in sorted(channels)}
    rings = {channel: ring for channel, ring in ring_of.items() if ring is not None}
    for channel in sorted({channel for member in one.members.values() for channel in member.trees if with_trees}):
        tree = _tree(one, channel, notes)
        if tree is not None:
            trees[channel] = tree
    return NcclTopology(rings, trees)


def _ring(one: Communicator, channel: int, notes: Notes) -> tuple[int, ...] | None:
    """Return a channel's ring: as its ranks logged it, else as rank 0 did, else as its first connections are."""
    following: dict[int, int] = {}
    teller: dict[int, str] = {}
    for rank, member in one.members.items():
        if channel not in member.rings:
            continue
        prev, after = member.rings[channel]
        for src, dst in ((rank, after), (prev, rank)):
            if following.setdefault(src, dst) != dst:
                notes.add(
                    "rings that contradict themselves",
                    f"{one.name} ring {channel}: after {src} comes {following[src]} ({teller[src]}) and {dst} "
                    f"({member.where}); left out",
                )
                return None
            teller.setdefault(src, member.where)
    if len(following) == one.n_ranks:
        ring = _cycle(following, one.n_ranks)
        if ring is None:
            notes.add(
                "rings that are not a permutation",
                f"{one.name} ring {channel} is not a permutation of its {one.n_ranks} ranks, see {one.first.where}; "
                "left out",
            )
        return ring
    # Rank 0 prints the whole ring, if it is short enough.
    for member in one.members.values():
        order = member.orders.get(channel, ())
        if sorted(order) == list(range(one.n_ranks)):
            return order
    ring = _closed(one, following, notes) or _from_connections(one, channel, following, notes)
    if ring is None and following:
        absent = next(rank for rank in range(one.n_ranks) if rank not in following)
        notes.add("rings with a gap", f"{one.name} ring {channel}: the successor of rank {absent} is unknown; left out")
    return ring


def _closed(one: Communicator, following: dict[int, int], notes: Notes) -> tuple[int, ...] | None:
    """Return the ring if it can be closed within the servers of ranks without a log."""
    ring = closed(one, following) if one.missing else None
    if ring is not None and len(following) < one.n_ranks:
        notes.once(
            f"{one.name}: rings are closed within the servers of the {len(one.missing)} ranks without a log; the order "
            "of those ranks there is assumed, and causes no flow"
        )
    return ring


def _cycle(following: dict[int, int], n: int) -> tuple[int, ...] | None:
    """Return the ring from rank 0 on, if it is closed and has all ranks."""
    ring = [0]
    while (after := following.get(ring[-1], NOBODY)) != 0:
        if not 0 <= after < n or len(ring) == n:
            return None
        ring.append(after)
    return tuple(ring) if len(ring) == n else None


def _from_connections(one: Communicator, channel: int, logged: dict[int, int], notes: Notes) -> tuple[int, ...] | None:
    """Return the ring of the first connections on a channel that agree with the logged edges.

    Rings are connected before trees.
    """
    following = dict(logged)
    for rank, member in one.members.items():
        if channel in member.first_sends:
            following.setdefault(rank, member.first_sends[channel])
    for rank, member in one.members.items():
        if channel in member.first_receives and member.first_receives[channel] not in one.members:
            following.setdefault(member.first_receives[channel], rank)
    return _closed(one, following, notes) if one.missing else _cycle(following, one.n_ranks)


def _tree(one: Communicator, channel: int, notes: Notes) -> tuple[int, ...] | None:
    parent: dict[int, int] = {}
    for rank, member in one.members.items():
        if channel not in member.trees:
            continue
        up, down = member.trees[channel]
        for child, above in ((rank, up), *((child, rank) for child in down if child != NOBODY)):
            if parent.setdefault(child, above) != above:
                notes.add(
                    "trees that contradict themselves",
                    f"{one.name} tree {channel}: {parent[child]} and {above} are above {child} "
                    f"({member.where}); left out",
                )
                return None
    absent = [rank for rank in range(one.n_ranks) if rank not in parent]
    if len(absent) > 1:
        notes.add("trees with a gap", f"{one.name} tree {channel}: the parent of rank {absent[0]} is unknown; left out")
        return None
    # The parent of a rank is also reported by the parent: a single rank without one is the root, or this is not a tree.
    parent |= dict.fromkeys(absent, NOBODY)
    if not _is_tree(parent, one.n_ranks):
        what = "is incomplete, because logs are missing" if one.missing else f"is not a tree of its {one.n_ranks} ranks"
        notes.add("invalid trees", f"{one.name} tree {channel} {what}, see {one.first.where}; left out")
        return None
    return tuple(parent[rank] for rank in range(one.n_ranks))


def _is_tree(parent: dict[int, int], n: int) -> bool:
    """Return whether all ranks are below one root."""
    if len(parent) != n or any(above != NOBODY and not 0 <= above < n for above in parent.values()):
        return False
    below: dict[int, list[int]] = {}
    for child, above in parent.items():
        below.setdefault(above, []).append(child)
    reached = below.get(NOBODY, [])
    if len(reached) != 1:
        return False
    for rank in reached:  # grows as it is walked
        reached.extend(below.get(rank, ()))
    return len(reached) == n
