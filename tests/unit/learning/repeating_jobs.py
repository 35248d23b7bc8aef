"""Draw what feeders see of jobs whose iterations send equal bytes, on machines that slow, stall and read late."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from controller.learning.sightings import QpKey, SightingBatch, tcp_key
from controller.model.fabric import FloatArray
from controller.model.traffic import Int64Array

LOOK_SECONDS = 2.0
MB = 1_000_000

Kind = Literal["jax", "mpi", "roce"]


@dataclass(frozen=True)
class RepeatingJob:
    """A job, and what the machine does to it.

    Attributes:
        keys: of its edges.
        bytes: [E] of each edge in an iteration.
        pause: [S] seconds before each of the parts of an iteration.
        send: [S] seconds for which each part sends.
        share: [S] part of the bytes that each part sends.
        start: seconds at which the first iteration begins.
        jitter: pauses and parts last longer or shorter by up to this part.
        noise: the bytes of iterations differ by this part, as a standard deviation.
        stalls: probability of a wait of ``stall_seconds``, on average, before a part.
        stall_seconds: seconds.
        slow: parts of the job's time between which all lasts ``slower`` times as long.
        slower: a factor.
        changes: part of the iterations after which each sends ``factor`` times as much; 1: none.
        factor: the same.
    """

    keys: tuple[QpKey, ...]
    bytes: Int64Array
    pause: tuple[float, ...]
    send: tuple[float, ...]
    share: tuple[float, ...]
    start: float = 0.0
    jitter: float = 0.0
    noise: float = 0.0
    stalls: float = 0.0
    stall_seconds: float = 1.0
    slow: tuple[float, float] = (1.0, 1.0)
    slower: float = 1.0
    changes: float = 1.0
    factor: float = 1.0

    @property
    def period(self) -> float:
        """Seconds of an iteration on an idle machine."""
        return sum(self.pause) + sum(self.send)


@dataclass(frozen=True)
class Run:
    """What each edge of a job has sent at any time.

    Attributes:
        job: which job.
        ends: [I] seconds at which iterations end.
        at: [E, T] seconds between which bytes rise evenly.
        sent: [E, T] bytes.
    """

    job: RepeatingJob
    ends: FloatArray
    at: FloatArray
    sent: FloatArray

    @property
    def changed(self) -> float:
        """Return the seconds at which iterations begin to send other bytes."""
        number = round(len(self.ends) * self.job.changes)
        return np.inf if number >= len(self.ends) else float(self.ends[number - 1])


def run(job: RepeatingJob, iterations: int, rng: np.random.Generator) -> Run:
    """Run a job for some iterations."""
    edges = len(job.keys)
    now, total = job.start, np.zeros(edges)
    at, sent, ends = [np.full(edges, now)], [total], []
    change = round(iterations * job.changes)
    for k in range(iterations):
        slow = job.slower if job.slow[0] <= k / iterations < job.slow[1] else 1.0
        size = job.bytes * (job.factor if k >= change else 1.0) * (1 + job.noise * rng.standard_normal())
        for pause, send, share in zip(job.pause, job.send, job.share, strict=True):
            wait = pause * rng.uniform(1 - job.jitter, 1 + job.jitter) * slow
            if rng.random() < job.stalls:
                wait += rng.exponential(job.stall_seconds)
            length = send * rng.uniform(1 - job.jitter, 1 + job.jitter) * slow
            # Ranks begin one after the other, and end when the last one does.
            begin = now + wait + rng.uniform(0, 0.1, edges) * length
            end = now + wait + length * rng.uniform(0.9, 1.0, edges)
            at += [begin, end]
            sent += [total, total + size * share]
            total, now = sent[-1], now + wait + length
        ends.append(now)
    return Run(job, np.array(ends), np.array(at).T, np.array(sent).T)


@dataclass(frozen=True)
class Readings:
    """How counters are read.

    Attributes:
        seconds: between readings.
        late: readings come later by so much, on average.
        missing: probability that a reading is missing.
        apart: whether each host has a feeder of its own.
        lag: counters are read up to so many seconds before the time that is told.
    """

    seconds: float
    late: float = 0.0
    missing: float = 0.0
    apart: bool = False
    lag: float = 0.0


def looks(
    runs: list[Run], readings: Readings, since: float, until: float, rng: np.random.Generator
) -> Iterator[tuple[float, list[SightingBatch]]]:
    """Yield what has been posted until each look of a controller, and its time."""
    edges = [(each, edge) for each in runs for edge in range(len(each.job.keys))]
    hosts = sorted({each.job.keys[edge].src for each, edge in edges})
    feeders = [[pair for pair in edges if pair[0].job.keys[pair[1]].src == host] for host in hosts]
    if not readings.apart:
        feeders = [edges]
    posts: list[SightingBatch] = []
    for feeder in feeders:
        keys = tuple(each.job.keys[edge] for each, edge in feeder)
        most = int((until - since) / readings.seconds) + 2
        rounds = since + rng.random() * readings.seconds + np.arange(most) * readings.seconds
        if readings.late:
            rounds = since + np.cumsum(readings.seconds + rng.exponential(readings.late, most))
        rounds = rounds[(rng.random(most) >= readings.missing) & (rounds < until)]
        told = np.maximum.accumulate(rounds + rng.random(len(rounds)) * readings.lag)
        counted = [np.interp(rounds, each.at[edge], each.sent[edge]).astype(np.int64) for each, edge in feeder]
        posts.append(
            SightingBatch(
                keys,
                np.tile(np.arange(len(keys), dtype=np.int32), len(rounds)),
                np.repeat(told, len(keys)),
                np.array(counted, dtype=np.int64).reshape(len(keys), len(rounds)).T.ravel(),
            )
        )
    now = since
    while now < until:
        before, now = now, now + LOOK_SECONDS
        batches = []
        for batch in posts:
            mine = (batch.at >= before) & (batch.at < now)
            if mine.any():
                batches.append(batch._replace(qp=batch.qp[mine], at=batch.at[mine], sent=batch.sent[mine]))
        yield now, batches


def pairs_of(shape: str, hosts: range, edges: int) -> list[tuple[int, int]]:
    """Return so many edges at most: of rings in one or both directions, or of an exchange."""
    ring = [(a, hosts[(i + 1) % len(hosts)]) for i, a in enumerate(hosts)]
    if shape == "ring":
        pairs = ring
    elif shape == "both":
        pairs = [*ring, *((b, a) for a, b in ring)]
    else:
        pairs = [(a, b) for a in hosts for b in hosts if a != b]
    return list(dict.fromkeys(pairs))[:edges]


def keys_of(kind: Kind, pairs: list[tuple[int, int]]) -> tuple[QpKey, ...]:
    """Return the keys of edges over TCP, or of QPs."""
    if kind != "roce":
        return tuple(tcp_key(*pair) for pair in pairs)
    return tuple(QpKey(a, b, 49152 + i, i) for i, (a, b) in enumerate(pairs))


@dataclass(frozen=True)
class Trace:
    """A drawn job, and how it is read.

    Attributes:
        runs: of the job, and of another one that shares hosts with it.
        readings: how counters are read.
        since: seconds of the first reading at the earliest, amid an iteration.
        until: seconds of the last look.
    """

    runs: list[Run]
    readings: Readings
    since: float
    until: float

    @property
    def job(self) -> RepeatingJob:
        """The job that is looked at."""
        return self.runs[0].job

    def bytes_at(self, now: float) -> dict[QpKey, float]:
        """Return what each edge sends in an iteration at a time."""
        factor = self.job.factor if now > self.runs[0].changed else 1.0
        return dict(zip(self.job.keys, (self.job.bytes * factor).tolist(), strict=True))


def drawn_job(rng: np.random.Generator, kind: Kind, *, changes: bool = False) -> RepeatingJob:
    """Draw a job of 2 to 64 edges whose iterations last 0.7 to 5.7 s on an idle machine."""
    edges = round(2 ** rng.uniform(1, 6))
    shape = str(rng.choice(["ring", "both", "direct"]))
    hosts = {"ring": edges, "both": edges // 2, "direct": int((1 + np.sqrt(1 + 4 * edges)) / 2)}[shape]
    pairs = pairs_of(shape, range(max(hosts, 2)), edges)
    period, duty = float(2 ** rng.uniform(-0.5, 2.5)), float(rng.uniform(0.2, 0.7))
    rest = (1 - duty) * period
    pause, share = np.array([rest]), np.array([1.0])
    if kind == "jax":
        # Three all-reduces in a step, with short pauses between.
        share, between = rng.dirichlet([4, 4, 4]), rng.uniform(0.02, 0.15, 2)
        pause = rest * np.array([1 - between.sum(), *between])
    sizes = np.full(len(pairs), float(rng.integers(2 * MB, 50 * MB)))
    if rng.random() < 0.3:
        sizes = sizes * rng.choice([1.0, 2.0, 0.5], len(pairs))
    slow, slower = np.sort(rng.random(2)), float(rng.uniform(1, 4)) if rng.random() < 0.4 else 1.0
    after, factor = (float(rng.uniform(0.35, 0.6)), float(rng.choice([0.5, 2.0, 3.0, 1.5, 0.4]))) if changes else (1, 1)
    return RepeatingJob(
        keys_of(kind, pairs),
        sizes.astype(np.int64),
        tuple(pause.tolist()),
        tuple((duty * period * share).tolist()),
        tuple(share.tolist()),
        float(rng.uniform(0, period)),
        float(rng.uniform(0, 0.5)),
        float(rng.choice([0, 0.001, 0.003])),
        float(rng.choice([0, 0.02, 0.1])),
        float(rng.uniform(0.3, 2)),
        (float(slow[0]), float(slow[1])),
        slower,
        after,
        factor,
    )


def drawn_trace(seed: int) -> Trace:
    """Draw a trace: of each kind by turns, one of four of a job that changes, and one of four beside another job."""
    rng = np.random.default_rng(seed)
    kinds: tuple[Kind, Kind, Kind] = ("jax", "mpi", "roce")
    others: tuple[Kind, Kind, Kind] = ("roce", "roce", "mpi")
    mode = seed // 3 % 4
    job = drawn_job(rng, kinds[seed % 3], changes=mode == 1)
    runs = [run(job, int(rng.integers(24, 60)), rng)]
    seconds = float(2 ** rng.uniform(np.log2(0.02), np.log2(5))) * job.period
    if mode == 3:
        other = drawn_job(rng, others[seed % 3])
        runs.append(run(other, max(6, int(runs[0].ends[-1] / other.period)), rng))
    readings = Readings(
        seconds,
        float(rng.choice([0, 0.2, 1.0])) * seconds,
        float(rng.choice([0, 0.1, 0.3])),
        apart=bool(rng.random() < 0.5),
        lag=float(rng.choice([0, 0.2])) * min(seconds, 0.1),
    )
    since = job.start + float(rng.uniform(0, 1)) * job.period
    return Trace(runs, readings, since, min(since + 300, *(float(each.ends[-1]) for each in runs)))
