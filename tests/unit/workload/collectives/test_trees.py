"""Trees, played on real buffers; the players build their trees from the root, the formulas from below."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.workload.collectives.double_tree import _trees
from tests.unit.workload.collectives.wire import ITEM, Wire, buffers, counted, flows, summed

RANKS = st.integers(1, 40)


def children(m: int) -> dict[int, list[int]]:
    """Children of each server in the first tree: a number's lowest bit is halved, then subtracted or added.

    Where adding leads beyond the end, it is halved on. The root is 0 and has one child, the largest power of two.
    """
    below: dict[int, list[int]] = {server: [] for server in range(m)}
    if m > 1:
        below[0].append(1 << ((m - 1).bit_length() - 1))
    for server in range(1, m):
        half = (server & -server) // 2
        if half:
            below[server].append(server - half)
        while half and server + half >= m:
            half //= 2
        if half:
            below[server].append(server + half)
    return below


def double_tree(m: int) -> list[tuple[int, dict[int, list[int]]]]:
    """Root and children of both trees."""
    first = children(m)

    def twin(server: int) -> int:
        return (server + 1) % m if m % 2 else m - 1 - server

    return [(0, first), (twin(0), {twin(server): [twin(child) for child in below] for server, below in first.items()})]


def play_tree(buffer: np.ndarray, wire: Wire, root: int, below: dict[int, list[int]]) -> None:
    """[rank, word]: reduce to the root, then broadcast from it."""

    def collect(rank: int) -> None:
        for child in below[rank]:
            collect(child)
            buffer[rank] += wire.carry(child, rank, buffer[child])

    def spread(rank: int) -> None:
        for child in below[rank]:
            buffer[child] = wire.carry(rank, child, buffer[rank])
            spread(child)

    collect(root)
    spread(root)


def with_chains(root: int, below: dict[int, list[int]], server: list[int]) -> tuple[int, dict[int, list[int]]]:
    """The same tree over ranks: first ranks stand for their servers, the others hang from them one behind the other."""
    order = list(dict.fromkeys(server))
    members = [[rank for rank, own in enumerate(server) if own == name] for name in order]
    ranks: dict[int, list[int]] = {rank: [] for rank in range(len(server))}
    for mine in members:
        for upper, lower in pairwise(mine):
            ranks[upper].append(lower)
    for s, others in below.items():
        ranks[members[s][0]] += [members[child][0] for child in others]
    return members[root][0], ranks


@given(st.lists(st.integers(0, 11), min_size=1, max_size=30), st.integers(1, 3))
def test_a_double_tree_over_servers_sends_what_the_algorithm_sends(server: list[int], half: int) -> None:
    n = len(server)
    buffer, wire = buffers(n, 2 * half), Wire()
    total = buffer.sum(axis=0)
    for t, (root, below) in enumerate(double_tree(len(set(server)))):
        play_tree(buffer[:, t * half : (t + 1) * half], wire, *with_chains(root, below, server))
    assert (buffer == total).all()
    assert summed(flows("all_reduce", "tree", n, 2 * half * ITEM, server)) == dict(wire.bytes)


@given(RANKS)
def test_without_servers_every_rank_is_one(n: int) -> None:
    assert flows("all_reduce", "tree", n, 64) == flows("all_reduce", "tree", n, 64, list(range(n)))


@given(st.integers(2, 200), st.integers(0, 2**53))
def test_each_edge_of_each_tree_carries_half_up_and_half_down(n: int, size: int) -> None:
    found = flows("all_reduce", "tree", n, size)
    assert {each for _, _, each in found} == {-(-size // 2)}
    assert len(found) == 2 * 2 * (n - 1)
    assert sorted((src, dst) for src, dst, _ in found) == sorted((dst, src) for src, dst, _ in found)


@given(st.integers(2, 500))
def test_who_has_two_children_in_one_tree_has_none_in_the_other(m: int) -> None:
    """So nobody sends more than S up and down two trees: half up, one up and two down."""
    first, second = (np.bincount(tree[tree >= 0], minlength=m) for tree in _trees(m))
    assert max(first.max(), second.max()) <= 2
    assert not ((first == 2) & (second > 0)).any()
    assert not ((second == 2) & (first > 0)).any()


# (server, its parent): of 3 servers as a log of NCCL's tells it (rank 2: tree 0 has child 1 and parent 0, tree 1 parent
# 0 alone); of 12 (mirrored) and 13 (shifted) as the comments in NCCL's src/graph/trees.cc draw them.
DRAWN = [
    (3, 0, [(2, 0), (1, 2)]),
    (3, 1, [(2, 0), (0, 1)]),
    (12, 0, [(8, 0), (4, 8), (10, 8), (2, 4), (6, 4), (1, 2), (3, 2), (5, 6), (7, 6), (9, 10), (11, 10)]),
    (12, 1, [(3, 11), (7, 3), (1, 3), (5, 7), (9, 7), (0, 1), (2, 1), (4, 5), (6, 5), (8, 9), (10, 9)]),
    (13, 0, [(8, 0), (4, 8), (12, 8), (2, 4), (6, 4), (10, 12), (1, 2), (3, 2), (5, 6), (7, 6), (9, 10), (11, 10)]),
    (13, 1, [(9, 1), (5, 9), (0, 9), (3, 5), (7, 5), (11, 0), (2, 3), (4, 3), (6, 7), (8, 7), (10, 11), (12, 11)]),
]


@pytest.mark.parametrize(("m", "tree", "edges"), DRAWN)
def test_the_trees_are_those_of_nccl(m: int, tree: int, edges: list[tuple[int, int]]) -> None:
    parent = _trees(m)[tree].tolist()
    assert {(server, above) for server, above in enumerate(parent) if above >= 0} == set(edges)


@given(RANKS, st.integers(1, 4))
def test_a_binomial_broadcast_sends_what_the_algorithm_sends(n: int, words: int) -> None:
    """In each step, whoever has the data sends it as far ahead as the step's bit."""
    buffer, wire = buffers(n, words), Wire()
    sent = buffer[0].copy()
    has = {0}
    for bit in reversed(range(n.bit_length())):
        for rank in sorted(has):
            if rank + (1 << bit) < n:
                buffer[rank + (1 << bit)] = wire.carry(rank, rank + (1 << bit), buffer[rank])
                has.add(rank + (1 << bit))
    assert (buffer == sent).all()
    assert counted("broadcast", "tree", n, words * ITEM) == dict(wire.bytes)


@given(RANKS, st.integers(1, 4))
def test_a_binomial_reduction_sends_what_the_algorithm_sends(n: int, words: int) -> None:
    """In each step, every other rank that is still there adds its sum to the one before and leaves."""
    buffer, wire = buffers(n, words), Wire()
    total = buffer.sum(axis=0)
    there = list(range(n))
    while len(there) > 1:
        for stays, leaves in zip(there[::2], there[1::2], strict=False):
            buffer[stays] += wire.carry(leaves, stays, buffer[leaves])
        there = there[::2]
    assert (buffer[0] == total).all()
    assert counted("reduce", "tree", n, words * ITEM) == dict(wire.bytes)
