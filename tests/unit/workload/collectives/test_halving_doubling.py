"""Recursive halving and doubling, played on real buffers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.workload.collectives.wire import ITEM, Wire, buffers, counted


def play_halving_doubling(buffer: np.ndarray, wire: Wire) -> None:
    """[rank, word], words a multiple of the largest power of two."""
    n, words = buffer.shape
    power = 1
    while 2 * power <= n:
        power *= 2
    folded = range(0, 2 * (n - power), 2)
    for rank in folded:
        buffer[rank + 1] += wire.carry(rank, rank + 1, buffer[rank])
    ranks = [rank for rank in range(n) if rank not in folded]
    busy = [(0, words)] * power
    distance = 1
    while distance < power:
        sent, halves = {}, {}
        for i, (start, stop) in enumerate(busy):
            middle = (start + stop) // 2
            keeps_lower = not i & distance
            halves[i] = (start, middle) if keeps_lower else (middle, stop)
            other = (middle, stop) if keeps_lower else (start, middle)
            sent[i] = wire.carry(ranks[i], ranks[i ^ distance], buffer[ranks[i], slice(*other)])
        for i in range(power):
            buffer[ranks[i], slice(*halves[i])] += sent[i ^ distance]
        busy = [halves[i] for i in range(power)]
        distance *= 2
    while distance > 1:
        distance //= 2
        sent = {i: wire.carry(ranks[i], ranks[i ^ distance], buffer[ranks[i], slice(*busy[i])]) for i in range(power)}
        for i in range(power):
            buffer[ranks[i], slice(*busy[i ^ distance])] = sent[i ^ distance]
        busy = [(min(busy[i][0], busy[i ^ distance][0]), max(busy[i][1], busy[i ^ distance][1])) for i in range(power)]
    for rank in folded:
        buffer[rank] = wire.carry(rank + 1, rank, buffer[rank + 1])


@given(st.integers(1, 20), st.integers(1, 3))
def test_halving_and_doubling_sends_what_the_algorithm_sends(n: int, chunk: int) -> None:
    words = chunk << (n.bit_length() - 1)
    buffer, wire = buffers(n, words), Wire()
    total = buffer.sum(axis=0)
    play_halving_doubling(buffer, wire)
    assert (buffer == total).all()
    assert counted("all_reduce", "halving_doubling", n, words * ITEM) == dict(wire.bytes)


@given(st.integers(1, 9), st.integers(0, 2**53))
def test_of_a_power_of_two_each_rank_sends_as_much_as_in_a_ring(steps: int, size: int) -> None:
    n = 1 << steps
    sent = np.zeros(n, dtype=np.int64)
    for (src, _), each in counted("all_reduce", "halving_doubling", n, size).items():
        sent[src] += each
    least = 2 * (n - 1) * size // n
    assert (sent >= least).all()
    assert (sent <= least + steps + 1).all()
