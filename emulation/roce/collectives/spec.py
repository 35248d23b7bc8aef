"""Specification of a collective, as plain values: validated once, and the same for the caller and each rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from controller.model.choices.qp_mode import QP_MODES, QpMode
from controller.model.errors import InputError
from controller.model.queue_pairs import MESSAGE_BYTES
from emulation.roce.collectives.base import RankProgram
from emulation.roce.collectives.exchange import PairwiseExchange
from emulation.roce.collectives.reduction import HALVES, Direct, Ring, chunk_bounds

OPERATIONS = (*HALVES, "all_to_all", "exchange")
ALGORITHMS = ("ring", "direct")
DTYPES = ("int32", "float32", "uint8")
MAX_RANKS = 1 << 16


@dataclass(frozen=True, slots=True)
class CollectiveSpec:
    """One collective of one job.

    Attributes:
        ranks: the place of each rank: host names where it is ordered, IPv4 addresses at the agents. All different.
        op: ``all_reduce``, ``reduce_scatter``, ``all_gather``, ``all_to_all`` or ``exchange``.
        bytes: of the whole buffer (all ranks' parts together for all-gather); for ``exchange`` not used.
        algorithm: ``ring`` or ``direct``, for the first three operations; the others send directly.
        matrix: for ``exchange``: bytes from rank i to rank j.
        dtype: of the elements; uint8 only where nothing is added up.
        seed: of the numbers in the buffers.
        iterations: how often; the same for all collectives of a job.
        phase: the collectives of a job's phase run at the same time, those of different phases one after the other.
        overlaps: whether it begins with the computing of its phase; else it begins after that.
        after: names of collectives of the same job and phase that end, at all of their hosts, before it begins.
        qp_mode: how connections of several QPs send: each message over all of them, or messages in turn.
        message_bytes: length of the messages that go by turns; the last one of a transfer may be shorter.
    """

    job: str
    name: str
    ranks: tuple[str, ...]
    op: str = "all_reduce"
    bytes: int = 0
    algorithm: str = "ring"
    matrix: tuple[tuple[int, ...], ...] = ()
    dtype: str = "int32"
    seed: int = 0
    iterations: int = 1
    phase: int = 0
    overlaps: bool = False
    after: tuple[str, ...] = ()
    qp_mode: QpMode = "split"
    message_bytes: int = MESSAGE_BYTES

    def __post_init__(self) -> None:
        """Check the values; raise ``InputError`` for an invalid one."""
        n = len(self.ranks)
        _one_of("op", self.op, OPERATIONS)
        _one_of("algorithm", self.algorithm, ALGORITHMS)
        _one_of("dtype", self.dtype, DTYPES)
        _one_of("qp_mode", self.qp_mode, QP_MODES)
        if self.message_bytes < 1:
            raise InputError("must be at least 1", field="message_bytes", value=self.message_bytes)
        if not 1 <= n <= MAX_RANKS or len(set(self.ranks)) != n:
            raise InputError(f"must be 1 to {MAX_RANKS} different ranks", field="ranks", value=self.ranks)
        if self.dtype == "uint8" and HALVES.get(self.op, (False, False))[0]:
            raise InputError("sums of bytes overflow: use int32 or float32", field="dtype", value=self.dtype)
        if self.iterations < 1:
            raise InputError("must be at least 1", field="iterations", value=self.iterations)
        if self.seed < 0:
            raise InputError("must not be negative", field="seed", value=self.seed)
        if self.op == "exchange":
            if len(self.matrix) != n or any(len(row) != n for row in self.matrix):
                raise InputError("must have a row and a column for each rank", field="matrix")
            sizes = [size for row in self.matrix for size in row]
        else:
            if self.matrix:
                raise InputError("allowed only for an exchange", field="matrix")
            sizes = [self.bytes]
        for size in sizes:
            if size < 0 or size % self.itemsize:
                what = f"bytes are a multiple of {self.itemsize} (the size of {self.dtype}), not negative"
                raise InputError(what, field="matrix" if self.matrix else "bytes", value=size)

    @property
    def n_ranks(self) -> int:
        """Number of ranks."""
        return len(self.ranks)

    @property
    def synchronises(self) -> bool:
        """Whether each rank waits for every other one in each iteration, so that none gets ahead of a slow one."""
        return self.op != "exchange" and self.bytes >= self.n_ranks * self.itemsize

    @property
    def itemsize(self) -> int:
        """Size of an element in bytes."""
        return np.dtype(self.dtype).itemsize

    @property
    def label(self) -> str:
        """Name of the collective with its job, ``JOB/NAME``."""
        return f"{self.job}/{self.name}"

    def part(self, rank: int) -> RankProgram:
        """Create the program of a rank, ready to begin."""
        dtype = np.dtype(self.dtype)
        if self.op in HALVES:
            kind = Ring if self.algorithm == "ring" else Direct
            elements = self.bytes // self.itemsize
            return kind(self.op, rank, self.n_ranks, elements, dtype, self.seed, self.iterations)
        return PairwiseExchange(self._element_matrix(), rank, dtype, self.seed, self.iterations)

    def flows(self) -> dict[tuple[int, int], int]:
        """(source rank, destination rank) -> bytes of payload in one iteration, where there are any."""
        n, size = self.n_ranks, self.itemsize
        lengths: dict[tuple[int, int], int] = {}
        if self.op not in HALVES:
            matrix = self._element_matrix()
            lengths = {(i, j): matrix[i][j] * size for i in range(n) for j in range(n) if i != j}
        else:
            bounds = chunk_bounds(self.bytes // size, n)
            chunk = [(b - a) * size for a, b in pairwise(bounds)]
            reduces, gathers = HALVES[self.op]
            if self.algorithm == "direct":
                pairs = ((i, j) for i in range(n) for j in range(n) if i != j)
                lengths = {(i, j): reduces * chunk[j] + gathers * chunk[i] for i, j in pairs}
            elif n > 1:
                # Every chunk passes each edge once a half, but for the edge that closes its circle.
                for i in range(n):
                    j = (i + 1) % n
                    lengths[i, j] = reduces * (self.bytes - chunk[i]) + gathers * (self.bytes - chunk[j])
        return {edge: length for edge, length in lengths.items() if length}

    def _element_matrix(self) -> Sequence[Sequence[int]]:
        if self.op == "exchange":
            return [[size // self.itemsize for size in row] for row in self.matrix]
        bounds = chunk_bounds(self.bytes // self.itemsize, self.n_ranks)
        row = [b - a for a, b in pairwise(bounds)]
        return [row] * self.n_ranks


def _one_of(field: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise InputError(f"must be one of {', '.join(known)}", field=field, value=value)
