"""Each algorithm is played on real buffers, step by step; the formulas must give the bytes that were counted."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.job import CollectiveCall
from controller.workload.collectives import count_of, flows_of

RANKS = st.integers(1, 9)
ITEM = 8  # bytes of a buffer's element


class Wire:
    """Counts what crosses it."""

    def __init__(self) -> None:
        self.bytes: Counter[tuple[int, int]] = Counter()

    def carry(self, src: int, dst: int, data: np.ndarray) -> np.ndarray:
        self.bytes[src, dst] += data.nbytes
        return data.copy()


def parts(n: int, words: int) -> np.ndarray:
    """Each of n ranks' buffer, in n parts: [rank, part, word]."""
    return np.random.default_rng(n * 1000 + words).integers(0, 1000, (n, n, words))


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


def counted(op: str, algorithm: str, n: int, size: int) -> dict[tuple[int, int], int]:
    call = CollectiveCall("c", op, tuple(range(n)), size, algorithm)  # type: ignore[arg-type]
    flows = flows_of(call)
    assert len(flows.src) == count_of(call)
    found = dict(zip(zip(flows.src.tolist(), flows.dst.tolist(), strict=True), flows.bytes.tolist(), strict=True))
    assert len(found) == len(flows.src)
    return found


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


def test_a_send_recv_sends_its_bytes_from_the_first_rank_to_the_second() -> None:
    assert counted("send_recv", "direct", 2, 12345) == {(0, 1): 12345}


@pytest.mark.parametrize(
    ("op", "algorithm", "factor"),
    [
        ("all_reduce", "ring", lambda n: 2 * (n - 1)),
        ("all_reduce", "direct", lambda n: 2),
        ("all_gather", "ring", lambda n: n - 1),
        ("reduce_scatter", "ring", lambda n: n - 1),
        ("all_to_all", "direct", lambda n: 1),
    ],
)
@given(n=st.integers(2, 9), size=st.integers(0, 2**53))
def test_part_of_a_byte_counts_as_a_byte(op: str, algorithm: str, factor, n: int, size: int) -> None:  # type: ignore[no-untyped-def]
    per_flow = factor(n) * size // n + (factor(n) * size % n > 0)
    assert set(counted(op, algorithm, n, size).values()) == {per_flow}
