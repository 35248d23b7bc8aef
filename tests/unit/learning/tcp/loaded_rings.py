"""Draw what hosts see of all-reduces by rings over TCP on a loaded machine.

A slowed machine delays ranks, and delays and merges readings and looks; it never changes cumulative counters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from controller.learning.sightings import SightingBatch, tcp_key
from controller.model.fabric import FloatArray
from controller.model.traffic import Int64Array

READ_SECONDS, POST_SECONDS, LOOK_SECONDS = 0.05, 0.5, 2.0


@dataclass(frozen=True)
class LoadedRing:
    """A ring whose ranks pass parts on: each step of a rank waits for the one before it.

    Attributes:
        hosts: of the ranks, each of which sends to the next one.
        bytes: of each edge in an iteration.
        seconds: that an iteration sends for, if all edges have a link for themselves.
        slower: of each edge, how many flows its slowest link has.
        compute_seconds: before each iteration.
        start: seconds at which the first iteration computes.
    """

    hosts: range
    bytes: int
    seconds: float
    slower: tuple[int, ...]
    compute_seconds: float
    start: float = 0.0

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The sender and the receiver of each edge."""
        return [(a, self.hosts[(i + 1) % len(self.hosts)]) for i, a in enumerate(self.hosts)]


@dataclass(frozen=True)
class Load:
    """What a machine does to what runs on it.

    Attributes:
        seconds: mean time for which a process that wants to run waits.
        stalls: probability of a long wait in place of it.
        stall_seconds: mean of such a wait.
    """

    seconds: float = 0.0
    stalls: float = 0.0
    stall_seconds: float = 1.0

    def waits(self, shape: int | tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Return drawn times for which processes wait."""
        usual = rng.exponential(self.seconds, shape) if self.seconds else np.zeros(shape)
        long = rng.random(shape) < self.stalls
        return np.where(long, rng.exponential(self.stall_seconds, shape), usual)


@dataclass(frozen=True)
class Curves:
    """What each edge of a ring has sent at any time.

    Attributes:
        ends: [I] seconds at which iterations end.
        at, sent: [E, T] of each edge, between which bytes rise evenly.
    """

    ends: FloatArray
    at: FloatArray
    sent: FloatArray

    def read(self, edge: int, at: FloatArray) -> Int64Array:
        """Return the counter of an edge at some times."""
        return np.floor(np.interp(at, self.at[edge], self.sent[edge])).astype(np.int64)


def run(ring: LoadedRing, iterations: int, load: Load, rng: np.random.Generator) -> Curves:
    """Run a ring for some iterations on a loaded machine."""
    n = len(ring.hosts)
    steps = 2 * (n - 1)
    part = ring.seconds / steps * np.array(ring.slower, dtype=np.float64)
    now = np.full(n, ring.start)
    at, sent, ends = [np.full(n, ring.start)], [np.zeros(n)], []
    for k in range(iterations):
        now = now + ring.compute_seconds + load.waits(n, rng)
        for step in range(steps):
            begin = now + load.waits(n, rng)
            end = begin + part
            at += [begin, end]
            sent += [np.full(n, (k + step / steps) * ring.bytes), np.full(n, (k + (step + 1) / steps) * ring.bytes)]
            # The next part is the one that the rank before has sent.
            now = np.maximum(end, np.roll(end, 1))
        ends.append(float(now.max()))
        # Gradients are known to all ranks before the next iteration.
        now = np.full(n, ends[-1])
    return Curves(np.array(ends), np.array(at).T, np.array(sent).T)


def looks(
    rings: list[tuple[LoadedRing, Curves]], until: float, load: Load, rng: np.random.Generator
) -> Iterator[tuple[float, list[SightingBatch]]]:
    """Yield what has been posted until each look of a controller, and its time.

    One thread reads all hosts, but the first one of each ring, which has a feeder of its own.
    """
    feeders = [[(ring, curves, edge) for ring, curves in rings for edge in range(1, len(ring.hosts))]]
    feeders += [[(ring, curves, 0)] for ring, curves in rings]
    posts: list[tuple[float, SightingBatch]] = []
    for feeder in feeders:
        keys = tuple(tcp_key(*ring.pairs[edge]) for ring, _, edge in feeder)
        most = int(until / READ_SECONDS) + 1
        rounds = np.cumsum(READ_SECONDS + load.waits(most, rng))
        rounds = rounds[rounds < until]
        # Within a round, hosts are read one after the other, and a time is taken after the counter.
        shape = (len(rounds), len(keys))
        read = rounds[:, None] + np.cumsum(load.waits(shape, rng) * READ_SECONDS / max(load.seconds, 1), axis=1) / 10
        stamped = read + load.waits(shape, rng) / 10
        stamped = np.maximum.accumulate(stamped, axis=0)
        counted = np.stack([curves.read(edge, read[:, i]) for i, (_, curves, edge) in enumerate(feeder)], axis=1)
        posted = np.cumsum(POST_SECONDS + load.waits(int(until / POST_SECONDS) + 1, rng))
        of_post = np.searchsorted(posted, stamped[:, -1])
        for number in np.unique(of_post[of_post < len(posted)]).tolist():
            rows = np.flatnonzero(of_post == number)
            batch = SightingBatch(
                keys,
                np.tile(np.arange(len(keys), dtype=np.int32), len(rows)),
                stamped[rows].ravel(),
                counted[rows].ravel(),
            )
            posts.append((float(posted[number]), batch))
    posts.sort(key=lambda post: post[0])
    now, sent = 0.0, 0
    while now < until:
        now += LOOK_SECONDS + float(load.waits(1, rng)[0])
        batches = []
        while sent < len(posts) and posts[sent][0] <= now:
            batches.append(posts[sent][1])
            sent += 1
        yield now, batches
