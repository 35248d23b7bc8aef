"""Draw what a feeder would see of jobs that compute and send by turns: sampled packets, or polled counters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.learning.sightings import QpKey, SightingBatch
from controller.model.fabric import FloatArray, IntArray
from controller.model.traffic import Int64Array

MTU = 4096
PSN_WRAP = 1 << 24


@dataclass(frozen=True, eq=False)
class Transfers:
    """F transfers that a job makes in each of its iterations.

    Attributes:
        keys: the QPs.
        qp: [F] index into ``keys``; a QP may have several transfers.
        bytes: [F].
        begin, end: [F] seconds after the iteration's begin; the rate between is constant.
    """

    keys: tuple[QpKey, ...]
    qp: IntArray
    bytes: Int64Array
    begin: FloatArray
    end: FloatArray


@dataclass(frozen=True)
class Draw:
    """How a job runs, and what a feeder loses of it.

    Attributes:
        period_seconds: of an iteration.
        iterations: number of iterations.
        start: seconds at which the first one begins.
        period_jitter: each iteration lasts longer or shorter by up to this part.
        bytes_jitter: each transfer is larger or smaller by up to this part.
        sampling: one of so many packets is sampled.
        loss: the part of the samples that is lost.
    """

    period_seconds: float
    iterations: int
    start: float = 0.0
    period_jitter: float = 0.0
    bytes_jitter: float = 0.0
    sampling: float = 100_000
    loss: float = 0.0


def iteration_begins(draw: Draw, rng: np.random.Generator) -> FloatArray:
    """Return the begin [iterations + 1] of each iteration, and the end of the last."""
    last = rng.uniform(1 - draw.period_jitter, 1 + draw.period_jitter, draw.iterations) * draw.period_seconds
    return draw.start + np.concatenate(([0.0], np.cumsum(last)))


def sampled_packets(transfers: Transfers, draw: Draw, rng: np.random.Generator) -> SightingBatch:
    """Return the packets of a job that are sampled, each with the same probability."""
    begins = iteration_begins(draw, rng)
    shape = (draw.iterations, len(transfers.qp))
    size = transfers.bytes * rng.uniform(1 - draw.bytes_jitter, 1 + draw.bytes_jitter, shape)
    packets = np.maximum(1, np.ceil(size / MTU)).astype(np.int64)
    stretch = np.diff(begins)[:, None] / draw.period_seconds
    begin, end = begins[:-1, None] + transfers.begin * stretch, begins[:-1, None] + transfers.end * stretch
    qp = np.broadcast_to(transfers.qp, shape).ravel()
    # The first packet of each transfer on its QP, in order of time.
    order = np.lexsort((begin.ravel(), qp))
    counts = packets.ravel()[order]
    total = np.cumsum(counts) - counts
    starts_qp = np.concatenate(([True], np.diff(qp[order]) != 0))
    total -= np.repeat(total[starts_qp], np.diff(np.append(np.flatnonzero(starts_qp), len(order))))
    seen = rng.binomial(counts, (1 - draw.loss) / draw.sampling)
    nth = np.repeat(np.arange(len(order)), seen)
    place = np.floor(rng.random(len(nth)) * counts[nth]).astype(np.int64)
    first_psn = rng.integers(0, PSN_WRAP, len(transfers.keys))
    row = order[nth]
    at = begin.ravel()[row] + (end - begin).ravel()[row] * place / counts[nth]
    psn = (first_psn[qp[row]] + total[nth] + place) % PSN_WRAP
    return SightingBatch(
        transfers.keys, qp[row].astype(np.int32), at, psn.astype(np.int64), MTU, PSN_WRAP, sampled=True
    )


def polled_counters(transfers: Transfers, draw: Draw, every_seconds: float, rng: np.random.Generator) -> SightingBatch:
    """Return readings of the bytes that each QP has sent, taken at regular times (all QPs at once)."""
    begins = iteration_begins(draw, rng)
    times = np.arange(draw.start + rng.random() * every_seconds, begins[-1], every_seconds)
    sent = np.zeros((len(times), len(transfers.keys)))
    for i in range(draw.iterations):
        stretch = (begins[i + 1] - begins[i]) / draw.period_seconds
        begin, end = begins[i] + transfers.begin * stretch, begins[i] + transfers.end * stretch
        size = transfers.bytes * rng.uniform(1 - draw.bytes_jitter, 1 + draw.bytes_jitter, len(transfers.qp))
        done = np.clip((times[:, None] - begin) / (end - begin), 0, 1) * size
        np.add.at(sent.T, transfers.qp, done.T)
    n = len(transfers.keys)
    return SightingBatch(
        transfers.keys,
        np.tile(np.arange(n, dtype=np.int32), len(times)),
        np.repeat(times, n),
        sent.astype(np.int64).ravel(),
    )


def packets(rows: list[tuple[QpKey, float, int]], mtu: int) -> SightingBatch:
    """Return the batch of sampled packets (QP, time, PSN)."""
    keys = tuple(dict.fromkeys(key for key, _, _ in rows))
    index = {key: i for i, key in enumerate(keys)}
    return SightingBatch(
        keys,
        np.array([index[key] for key, _, _ in rows], dtype=np.int32),
        np.array([at for _, at, _ in rows], dtype=np.float64),
        np.array([psn for _, _, psn in rows], dtype=np.int64),
        mtu,
        PSN_WRAP,
        sampled=True,
    )


def tallies(rows: list[tuple[QpKey, float, int]]) -> SightingBatch:
    """Return the batch of polled counters (QP, time, bytes)."""
    return packets(rows, 1)._replace(wrap=1 << 62, sampled=False)


def first_sightings(transfers: Transfers, at: float) -> SightingBatch:
    """Return one sighting of each QP, long before the job, from which its sightings are kept as one likes."""
    n = len(transfers.keys)
    return SightingBatch(
        transfers.keys,
        np.arange(n, dtype=np.int32),
        np.full(n, at),
        np.zeros(n, dtype=np.int64),
        MTU,
        PSN_WRAP,
        sampled=True,
    )


def edges(pairs: list[tuple[int, int]], size: int, begin: float, end: float, *, first_qp: int = 0) -> Transfers:
    """Return transfers of one size between hosts, each over a QP of its own."""
    keys = tuple(QpKey(a, b, 49152 + (first_qp + i) % 16384, first_qp + i) for i, (a, b) in enumerate(pairs))
    n = len(keys)
    return Transfers(
        keys, np.arange(n, dtype=np.int32), np.full(n, size, dtype=np.int64), np.full(n, begin), np.full(n, end)
    )


def ring(hosts: range, size: int, begin: float, end: float, *, first_qp: int = 0) -> Transfers:
    """Return the transfers of a ring."""
    pairs = [(a, hosts[(i + 1) % len(hosts)]) for i, a in enumerate(hosts)]
    return edges(pairs, size, begin, end, first_qp=first_qp)


def exchange(hosts: range, size: int, begin: float, end: float, *, first_qp: int = 0) -> Transfers:
    """Return the transfers of an all-to-all."""
    return edges([(a, b) for a in hosts for b in hosts if a != b], size, begin, end, first_qp=first_qp)


def together(*parts: Transfers) -> Transfers:
    """Return the transfers of one job that has several."""
    keys: tuple[QpKey, ...] = ()
    qp: list[IntArray] = []
    for part in parts:
        qp.append((part.qp + len(keys)).astype(np.int32))
        keys += part.keys
    return Transfers(
        keys,
        np.concatenate(qp),
        np.concatenate([part.bytes for part in parts]),
        np.concatenate([part.begin for part in parts]),
        np.concatenate([part.end for part in parts]),
    )
