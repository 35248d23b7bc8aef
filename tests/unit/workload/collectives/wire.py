"""Helpers that execute algorithms: buffers, a wire that counts bytes, and the formulas."""

from __future__ import annotations

from collections import Counter

import numpy as np

from controller.model.job import CollectiveCall
from controller.workload.collectives import count_of, flows_of

ITEM = 8
"""Bytes of a buffer's element."""

Edges = dict[tuple[int, int], int]


class Wire:
    """Counts what crosses it."""

    def __init__(self) -> None:
        self.bytes: Counter[tuple[int, int]] = Counter()

    def carry(self, src: int, dst: int, data: np.ndarray) -> np.ndarray:
        self.bytes[src, dst] += data.nbytes
        return data.copy()


def buffers(n: int, words: int) -> np.ndarray:
    """[rank, word], other numbers for other shapes."""
    return np.random.default_rng(n * 1000 + words).integers(0, 1000, (n, words))


def parts(n: int, words: int) -> np.ndarray:
    """Each of n ranks' buffer, in n parts: [rank, part, word]."""
    return buffers(n, n * words).reshape(n, n, words)


def flows(
    op: str, algorithm: str | None, n: int, size: int, server: list[int] | None = None
) -> list[tuple[int, int, int]]:
    """(sender, receiver, bytes) of each flow, as the formula says."""
    call = CollectiveCall("c", op, tuple(range(n)), size, algorithm)  # type: ignore[arg-type]
    found = flows_of(call, None if server is None else np.array(server, dtype=np.int32))
    assert len(found.src) == count_of(call)
    return list(zip(found.src.tolist(), found.dst.tolist(), found.bytes.tolist(), strict=True))


def counted(op: str, algorithm: str | None, n: int, size: int) -> Edges:
    """Bytes of each edge, where the formula gives each edge once."""
    found = {(src, dst): size for src, dst, size in flows(op, algorithm, n, size)}
    assert len(found) == len(flows(op, algorithm, n, size))
    return found


def summed(found: list[tuple[int, int, int]]) -> Edges:
    """Bytes of each edge; the two trees of a double tree may have an edge in common."""
    total: Counter[tuple[int, int]] = Counter()
    for src, dst, size in found:
        total[src, dst] += size
    return dict(total)
