"""Rings with ranks without a log, closed where the missing edges are within servers.

A rank with a log reports the rank to which it sends, and the rank from which it receives over the network. So of ranks
without a log, connections are known if the other end has a log. The result is pieces of the ring. If, on each server,
as many pieces end as begin, they are joined there: the order of these ranks within their server is arbitrary, and
does not affect any flow.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.workload.importers.nccl.communicators import Communicator


def closed(one: Communicator, following: Mapping[int, int]) -> tuple[int, ...] | None:
    """Return the ring from rank 0 on; ``None``: it is unknown.

    Args:
        one: the communicator.
        following: the next rank after each rank, where it is known.
    """
    n = one.n_ranks
    if len(set(following.values())) < len(following):
        return None
    pieces = _pieces(following, n)
    if pieces is None:
        return None
    # Pieces are edges between servers, and the ring is a closed walk over all of them (Hierholzer, 1873).
    leaving: dict[str, list[list[int]]] = {}
    balance: dict[str, int] = {}
    for piece in pieces:
        begin, end = one.server_of(piece[0]), one.server_of(piece[-1])
        if begin is None or end is None:
            return None
        leaving.setdefault(begin, []).append(piece)
        balance[begin] = balance.get(begin, 0) + 1
        balance[end] = balance.get(end, 0) - 1
    if any(balance.values()):
        return None
    walk: list[list[int]] = []
    under_way: list[list[int]] = [leaving[next(iter(leaving))].pop()]
    while under_way:
        there = one.server_of(under_way[-1][-1])
        if there is not None and leaving.get(there):
            under_way.append(leaving[there].pop())
        else:
            walk.append(under_way.pop())
    ring = [rank for piece in reversed(walk) for rank in piece]
    if len(ring) < n:
        return None
    start = ring.index(0)
    return tuple(ring[start:] + ring[:start])


def _pieces(following: Mapping[int, int], n: int) -> list[list[int]] | None:
    """Return the known parts of the ring, single ranks included; ``None``: one of them is closed."""
    entered = set(following.values())
    pieces = []
    for start in range(n):
        if start not in entered:
            piece = [start]
            while piece[-1] in following:
                piece.append(following[piece[-1]])
            pieces.append(piece)
    return pieces if sum(map(len, pieces)) == n and all(0 <= rank < n for piece in pieces for rank in piece) else None
