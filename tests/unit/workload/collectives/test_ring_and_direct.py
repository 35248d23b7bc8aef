"""Rings, chains and direct exchanges, played on real buffers: the formulas must give the bytes that were counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.workload.collectives.wire import ITEM, Wire, buffers, counted, parts

RANKS = st.integers(1, 9)


def play_ring_reduce_scatter(buffer: np.ndarray, wire: Wire) -> None:
    """After n - 1 steps rank r holds the sum of part r + 1."""
    n = len(buffer)
    for step in range(n - 1):
        sent = {r: wire.carry(r, (r + 1) % n, buffer[r, (r - step) % n]) for r in range(n)}
        for r in range(n):
            buffer[r, (r - 1 - step) % n] += sent[(r - 1) % n]


def play_ring_all_gather(buffer: np.ndarray, wire: Wire, first: int) -> None:
    """Rank r starts with part r + first."""
    n = len(buffer)
    for step in range(n - 1):
        sent = {r: wire.carry(r, (r + 1) % n, buffer[r, (r + first - step) % n]) for r in range(n)}
        for r in range(n):
            buffer[r, (r - 1 + first - step) % n] = sent[(r - 1) % n]


@given(RANKS, st.integers(1, 5))
def test_a_ring_all_reduce_sends_what_the_algorithm_sends(n: int, words: int) -> None:
    buffer, wire = parts(n, words), Wire()
    total = buffer.sum(axis=0)
    play_ring_reduce_scatter(buffer, wire)
    play_ring_all_gather(buffer, wire, first=1)
    assert (buffer == total).all()
    assert counted("all_reduce", "ring", n, n * words * ITEM) == dict(wire.bytes)


@given(RANKS, st.integers(1, 5))
def test_a_direct_all_reduce_sends_what_the_algorithm_sends(n: int, words: int) -> None:
    buffer, wire = parts(n, words), Wire()
    total = buffer.sum(axis=0)
    reduced = [
        sum((buffer[s, r] if s == r else wire.carry(s, r, buffer[s, r]) for s in range(n)), np.zeros(words, dtype=int))
        for r in range(n)
    ]
    result = [[reduced[s] if s == r else wire.carry(s, r, reduced[s]) for s in range(n)] for r in range(n)]
    assert (np.array(result) == total).all()
    assert counted("all_reduce", "direct", n, n * words * ITEM) == dict(wire.bytes)


@given(RANKS, st.integers(1, 5))
def test_a_ring_reduce_scatter_sends_what_the_algorithm_sends(n: int, words: int) -> None:
    buffer, wire = parts(n, words), Wire()
    total = buffer.sum(axis=0)
    play_ring_reduce_scatter(buffer, wire)
    assert all((buffer[r, (r + 1) % n] == total[(r + 1) % n]).all() for r in range(n))
    assert counted("reduce_scatter", "ring", n, n * words * ITEM) == dict(wire.bytes)


@given(RANKS, st.integers(1, 5))
def test_a_ring_all_gather_sends_what_the_algorithm_sends(n: int, words: int) -> None:
    buffer, wire = parts(n, words), Wire()
    own = np.array([buffer[r, r] for r in range(n)])
    play_ring_all_gather(buffer, wire, first=0)
    assert (buffer == own).all()
    assert counted("all_gather", "ring", n, n * words * ITEM) == dict(wire.bytes)


@given(RANKS, st.integers(1, 5))
def test_an_all_to_all_sends_what_the_algorithm_sends(n: int, words: int) -> None:
    buffer, wire = parts(n, words), Wire()
    result = np.array(
        [[buffer[s, r] if s == r else wire.carry(s, r, buffer[s, r]) for s in range(n)] for r in range(n)]
    )
    assert (result == buffer.swapaxes(0, 1)).all()
    assert counted("all_to_all", "direct", n, n * words * ITEM) == dict(wire.bytes)


@given(RANKS, st.integers(1, 5))
def test_a_direct_reduce_scatter_sends_what_the_algorithm_sends(n: int, words: int) -> None:
    buffer, wire = parts(n, words), Wire()
    for r in range(n):
        own = buffer[r, r] + sum(wire.carry(s, r, buffer[s, r]) for s in range(n) if s != r)
        assert (own == buffer[:, r].sum(axis=0)).all()
    assert counted("reduce_scatter", "direct", n, n * words * ITEM) == dict(wire.bytes)


@given(RANKS, st.integers(1, 5))
def test_a_direct_all_gather_sends_what_the_algorithm_sends(n: int, words: int) -> None:
    buffer, wire = parts(n, words), Wire()
    own = np.array([buffer[r, r] for r in range(n)])
    for r in range(n):
        gathered = [buffer[s, s] if s == r else wire.carry(s, r, buffer[s, s]) for s in range(n)]
        assert (np.array(gathered) == own).all()
    assert counted("all_gather", "direct", n, n * words * ITEM) == dict(wire.bytes)


@given(RANKS, st.integers(1, 5))
def test_a_chain_broadcasts_from_its_first_rank(n: int, words: int) -> None:
    buffer, wire = buffers(n, words), Wire()
    sent = buffer[0].copy()
    for piece in range(words):
        for r in range(n - 1):
            buffer[r + 1, piece : piece + 1] = wire.carry(r, r + 1, buffer[r, piece : piece + 1])
    assert (buffer == sent).all()
    assert counted("broadcast", "chain", n, words * ITEM) == dict(wire.bytes)


@given(RANKS, st.integers(1, 5))
def test_a_chain_reduces_around_the_ring_to_its_first_rank(n: int, words: int) -> None:
    buffer, wire = buffers(n, words), Wire()
    total = buffer.sum(axis=0)
    for piece in range(words):
        for r in range(1, n):
            buffer[(r + 1) % n, piece : piece + 1] += wire.carry(r, (r + 1) % n, buffer[r, piece : piece + 1])
    assert (buffer[0] == total).all()
    assert counted("reduce", "chain", n, words * ITEM) == dict(wire.bytes)


def test_a_send_recv_sends_its_bytes_from_the_first_rank_to_the_second() -> None:
    assert counted("send_recv", "direct", 2, 12345) == {(0, 1): 12345}


@pytest.mark.parametrize(
    ("op", "algorithm", "factor"),
    [
        ("all_reduce", "ring", lambda n: 2 * (n - 1)),
        ("all_reduce", "direct", lambda n: 2),
        ("all_gather", "ring", lambda n: n - 1),
        ("reduce_scatter", "ring", lambda n: n - 1),
        ("all_gather", "direct", lambda n: 1),
        ("reduce_scatter", "direct", lambda n: 1),
        ("all_to_all", "direct", lambda n: 1),
    ],
)
@given(n=st.integers(2, 9), size=st.integers(0, 2**53))
def test_part_of_a_byte_counts_as_a_byte(op: str, algorithm: str, factor, n: int, size: int) -> None:  # type: ignore[no-untyped-def]
    per_flow = factor(n) * size // n + (factor(n) * size % n > 0)
    assert set(counted(op, algorithm, n, size).values()) == {per_flow}
