"""The instances of the routing benchmarks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from controller.model.fabric import Cable, Fabric, IntArray
from controller.model.files.clos import clos
from controller.model.queue_pairs import QueuePairs
from controller.model.timing import JobTiming
from controller.model.traffic import FIRST_PORT, LAST_PORT, Collective, Traffic

PORTS = LAST_PORT - FIRST_PORT + 1


def part_of(traffic: Traffic, chosen: NDArray, n_collectives: int) -> Traffic:
    """Return the chosen flows (a mask), which are all of the first so many collectives."""
    return Traffic(
        traffic.src[chosen],
        traffic.dst[chosen],
        traffic.bytes[chosen],
        traffic.collective[chosen],
        traffic.number[chosen],
        traffic.udp_src[chosen],
        traffic.collectives[:n_collectives],
    )


def traffic_of(
    src: NDArray, dst: NDArray, size: NDArray, collective: NDArray, collectives: list[Collective]
) -> Traffic:
    """Return traffic of flows in order of their collectives, each with a port that is unique for its two hosts."""
    first = np.searchsorted(collective, collective)
    number = np.arange(len(src))
    return Traffic(
        src, dst, size, collective, (number - first).astype(np.int32), ports_of(len(src)), tuple(collectives)
    )


def ports_of(n: int) -> IntArray:
    """Return ports in turn."""
    return FIRST_PORT + np.arange(n, dtype=np.int32) % PORTS


def rings(fabric: Fabric, size: int, seed: int = 0, *, unequal: bool = False) -> Traffic:
    """Return rings of ``size`` over all hosts in random order; ``unequal``: each flow has another number of bytes."""
    rng = np.random.default_rng(seed)
    n = fabric.n_hosts // size
    hosts = rng.permutation(fabric.n_hosts)[: n * size].reshape(n, size)
    src, dst = hosts.ravel(), np.roll(hosts, -1, axis=1).ravel()
    bytes_of = rng.integers(10**8, 10**9, len(src)) if unequal else np.full(len(src), 10**9)
    jobs = [Collective(f"job{k}", "ring") for k in range(n)]
    return traffic_of(src, dst, bytes_of, np.repeat(np.arange(n), size), jobs)


def computing_rings(fabric: Fabric, jobs: int, seed: int = 0) -> Traffic:
    """Return jobs of one ring each, over all hosts in random order, which compute between 0.05 and 0.3 s in turn."""
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.choice(np.arange(2, fabric.n_hosts // 2) * 2, jobs - 1, replace=False))
    rows = np.split(rng.permutation(fabric.n_hosts), ends)
    timing = [JobTiming(((0, float(seconds)),)) for seconds in rng.uniform(0.05, 0.3, jobs)]
    return traffic_of(
        np.concatenate(rows),
        np.concatenate([np.roll(row, -1) for row in rows]),
        np.full(fabric.n_hosts, 10**9),
        np.repeat(np.arange(jobs), [len(row) for row in rows]),
        [Collective(f"job{k}", "ring", timing=timing[k]) for k in range(jobs)],
    )


def all_to_all(fabric: Fabric, size: int, seed: int = 0, *, flows: int | None = None) -> Traffic:
    """Return all-to-all in groups of ``size`` over all hosts in random order, cut off after ``flows`` flows."""
    rng = np.random.default_rng(seed)
    n = fabric.n_hosts // size
    hosts = rng.permutation(fabric.n_hosts)[: n * size].reshape(n, size)
    one, other = np.nonzero(~np.eye(size, dtype=bool))
    src, dst = hosts[:, one].ravel()[:flows], hosts[:, other].ravel()[:flows]
    group = np.repeat(np.arange(n), len(one))[:flows]
    jobs = [Collective(f"job{k}", "all_to_all") for k in range(int(group[-1]) + 1)]
    return traffic_of(src, dst, np.full(len(src), 10**7), group, jobs)


def in_phases(parts: Sequence[Traffic]) -> Traffic:
    """Return one job that runs the parts one after the other."""
    jobs = [
        Collective("job", f"c{i}.{k}", 1.0, i) for i, part in enumerate(parts) for k in range(len(part.collectives))
    ]
    first = np.cumsum([0, *(len(part.collectives) for part in parts)])[:-1]
    return traffic_of(
        np.concatenate([part.src for part in parts]),
        np.concatenate([part.dst for part in parts]),
        np.concatenate([part.bytes for part in parts]),
        np.concatenate([part.collective + at for part, at in zip(parts, first.tolist(), strict=True)]),
        jobs,
    )


def five_jobs(fabric: Fabric, seed: int = 0) -> Traffic:
    """Return five jobs of rings of four over 2,048 hosts, like scenario concurrent_jobs_5 of the paper's evaluation.

    A job takes whole leaves; ring i of a job joins host i of four of its leaves.
    """
    rng = np.random.default_rng(seed)
    per_leaf = fabric.n_hosts // fabric.n_leaves
    leaves = rng.permutation(fabric.n_leaves)
    wide, at = [(6, 3_666_666_667), (16, 546_875_000), (8, 2_734_375_000), (16, 546_875_000), (8, 2_734_375_000)], 0
    src, dst, size, ring, jobs = [], [], [], [], []
    for job, (n_leaves, step) in enumerate(wide):
        own = leaves[at : at + n_leaves // 4 * 4].reshape(-1, 4)
        at += n_leaves
        for group in own:
            for i in range(per_leaf):
                members = group * per_leaf + i
                src.append(members)
                dst.append(np.roll(members, -1))
                size.append(np.full(4, 6 * step))
                ring.append(np.full(4, len(jobs)))
                jobs.append(Collective(f"job{job}", f"ring{len(jobs)}"))
    return traffic_of(np.concatenate(src), np.concatenate(dst), np.concatenate(size), np.concatenate(ring), jobs)


def five_jobs_of_paper(folder: Path) -> Traffic:
    """Read the paper's files: source, destination, their leaves, start, bytes a step, compute time, ring a row.

    Hosts are numbered from 96 in them; a ring of four does six steps of the given bytes.
    """
    rows, jobs = [], []
    for path in sorted(folder.glob("*.txt")):
        table = np.loadtxt(path, dtype=np.int64, ndmin=2)
        table = table[np.argsort(table[:, 7], kind="stable")]
        rank = np.unique(table[:, 7], return_inverse=True)[1]
        rows.append(np.stack([table[:, 0] - 96, table[:, 1] - 96, 6 * table[:, 5], rank + len(jobs)], axis=1))
        jobs += [Collective(path.stem, f"ring{i}") for i in range(int(rank.max()) + 1)]
    src, dst, size, ring = np.concatenate(rows).T
    return traffic_of(src, dst, size, ring, jobs)


def odd(rng: np.random.Generator, *, phases: bool = True, weights: bool = False) -> tuple[Fabric, Traffic]:
    """Return a small irregular instance.

    It has unequal, parallel, missing and failed links, oversubscription, a few collectives of unequal flows, phases.
    """
    spines, leaves, hosts = (int(n) for n in rng.integers(2, 7, 3))
    fabric = clos(
        spines,
        leaves,
        hosts,
        host_gbps=float(rng.choice([100, 400])),
        uplink_gbps=float(rng.choice([50, 100, 200])),
        parallel=int(rng.choice([1, 1, 2])),
    )
    kind = int(rng.integers(0, 3))
    kept: list[Cable] = []
    for cable in fabric.cables if kind else ():
        if kind == 2 and rng.random() < 0.1 and any(other.lower == cable.lower for other in kept):
            continue
        gbps = float(rng.choice([40, 100, 100, 100])) if kind == 2 else cable.gbps
        kept.append(dataclasses.replace(cable, gbps=gbps, up=bool(rng.random() > 0.07)))
    if kind:
        fabric = dataclasses.replace(fabric, cables=tuple(kept))
    n_flows, n_collectives = int(rng.integers(4, 60)), int(rng.integers(1, 6))
    src = rng.integers(0, fabric.n_hosts, n_flows)
    dst = (src + rng.integers(1, fabric.n_hosts, n_flows)) % fabric.n_hosts
    steps = rng.random() < 0.5
    size = rng.choice([1, 2, 3, 5, 8], n_flows) * 10**8 if steps else rng.integers(10**7, 10**9, n_flows)
    collective = np.sort(rng.integers(0, n_collectives, n_flows))
    several = phases and rng.random() < 0.3
    weight = [1.0, 1.0, 2.5] if weights else [1.0] * 3
    jobs = [
        Collective(f"job{k % 3}", f"c{k}", weight[k % 3], int(rng.integers(0, 2)) if several else 0)
        for k in range(n_collectives)
    ]
    return fabric, traffic_of(src, dst, size, collective, jobs)


def with_qps(traffic: Traffic, qps: int) -> Traffic:
    """Return the same connections with ``qps`` QPs each, which share their bytes and have ports of their own."""
    pairs = QueuePairs(qps)
    turn = np.tile(np.arange(qps, dtype=np.int32), traffic.n_flows)
    return Traffic(
        np.repeat(traffic.src, qps),
        np.repeat(traffic.dst, qps),
        pairs.shares(traffic.bytes).reshape(-1),
        np.repeat(traffic.collective, qps),
        np.repeat(traffic.number, qps) * qps + turn,
        ports_of(len(turn)),
        tuple(dataclasses.replace(row, qps=pairs) for row in traffic.collectives),
    )
