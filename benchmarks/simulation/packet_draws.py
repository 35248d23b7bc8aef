"""Cases for the packet engine, drawn by class and seed: fabric, placement, sizes, times and failures.

Each case is a scenario (docs/reference/simulator.md), so ``fairspine referee`` can repeat it from a file.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

Document = dict[str, Any]
"""Plain data, as in a YAML file."""

MB = 1_000_000

RING_SIZES = (8, 16, 32)
"""Ranks of the rings of 64 hosts; one of them a seed, in turn."""


def _fabric(spines: int, *, leaves: int = 8, hosts: int = 8, planes: int = 1) -> Document:
    return {"clos": {"spines": spines, "leaves": leaves, "hosts_per_leaf": hosts, "planes": planes}}


def _three_layers(rng: np.random.Generator) -> Document:
    shape = ((4, 3, 2, 2, 4), (4, 2, 2, 2, 4), (2, 4, 4, 2, 4))[rng.integers(3)]
    names = ("pods", "leaves", "aggs", "cores_per_agg", "hosts_per_leaf")
    return {"three_tier": dict(zip(names, shape, strict=True))}


def _hosts_of(fabric: Document) -> int:
    (form,) = fabric.values()
    return int(form["leaves"] * form["hosts_per_leaf"] * form.get("pods", 1))


def _placed(rng: np.random.Generator, count: int) -> list[str]:
    """Return the names of all hosts in drawn order."""
    return [f"h{n + 1}" for n in rng.permutation(count)]


def _call(op: str, size: int, ranks: Sequence[int], *, name: str = "c", phase: int = 0, ring: bool = True) -> Document:
    call = {"name": name, "op": op, "ranks": list(ranks), "bytes": size, "phase": phase}
    return {**call, "algorithm": "ring"} if ring else call


def _job(name: str, hosts: Sequence[str], calls: Iterable[Document], **times: Any) -> Document:
    """Return a job of a case; ``times``: ``start``, ``compute_seconds``, ``epochs``."""
    return {"job": {"name": name, "hosts": list(hosts), "collectives": list(calls)}, **times}


def _all_reduce(name: str, hosts: Sequence[str], size: int, **times: Any) -> Document:
    return _job(name, hosts, [_call("all_reduce", size, range(len(hosts)))], **times)


def _groups(hosts: Sequence[str], sizes: Iterable[int]) -> list[Sequence[str]]:
    """Return the hosts in groups of these sizes, as many as there are hosts for."""
    made, first = [], 0
    for size in sizes:
        if first + size > len(hosts):
            break
        made.append(hosts[first : first + size])
        first += size
    return made


def _rings(hosts: Sequence[str], size: int, ranks: int) -> list[Document]:
    groups = _groups(hosts, [ranks] * (len(hosts) // ranks))
    return [_all_reduce(f"ring{g}", group, size) for g, group in enumerate(groups)]


def _scenario(fabric: Document, jobs: list[Document], policies: list[Any] | None = None, **more: Any) -> Document:
    """Return a scenario of one case; ``more``: further fields, of which ``qps`` is that of the case."""
    case = {"name": "drawn", "jobs": jobs, "qps": more.pop("qps", [1])}
    return {"fabric": fabric, "cases": [case], "policies": policies or ["fair"], "epochs": 1, **more}


def _even_rings(spines: int, **more: Any) -> Callable[[np.random.Generator, int], Document]:
    """Return the class of rings of 16 MB on all hosts of eight leaves with eight hosts each."""

    def drawn(rng: np.random.Generator, seed: int) -> Document:
        ranks = RING_SIZES[seed % len(RING_SIZES)]
        return _scenario(_fabric(spines), _rings(_placed(rng, 64), 16 * MB, ranks), **more)

    return drawn


def _all_to_alls(rng: np.random.Generator, seed: int) -> Document:
    hosts = _placed(rng, 64)
    sizes = ((16, 16, 16, 16), (8, 24, 16, 16), (12, 12, 20, 20))[seed % 3]
    groups = _groups(hosts, sizes)
    calls = [
        _job(f"a2a{g}", group, [_call("all_to_all", 16 * MB, range(len(group)), ring=False)])
        for g, group in enumerate(groups[:2])
    ]
    rings = [_all_reduce(f"ring{g}", group, 8 * MB) for g, group in enumerate(groups[2:])]
    return _scenario(_fabric(4), calls + rings, ["fair", {"policy": "fair", "name": "fair-split", "options": SPLIT}])


def _computing(spines: int) -> Callable[[np.random.Generator, int], Document]:
    """Return the class of jobs that compute between rings, four or five on six leaves with eight hosts."""

    def drawn(rng: np.random.Generator, seed: int) -> Document:
        hosts = _placed(rng, 48)
        jobs = []
        for g, group in enumerate(_groups(hosts, rng.integers(5, 14, 5).tolist())):
            compute = float(rng.integers(2, 9)) * 1e-3
            size = int(rng.integers(10, 31)) * MB
            # About as long for each job: a ring sends about twice its buffer at 100 Gbit/s.
            epochs = max(3, round(0.04 / (compute + 2 * size * 8e-11)))
            jobs.append(_all_reduce(f"job{g}", group, size, compute_seconds=compute, epochs=epochs))
        policies = [
            "fair",
            *(
                {"policy": "fair", "name": f"fair-{name}", "options": options}
                for name, options in (("shifts", {"shifts": "advise"}), ("classes", {"classes": 4}))
            ),
        ]
        return _scenario(_fabric(spines, leaves=6), jobs, policies)

    return drawn


def _odd_groups(rng: np.random.Generator, seed: int) -> Document:
    shape = ((3, 6, 7), (4, 6, 6), (3, 5, 8))[seed % 3]
    spines, leaves, per_leaf = shape
    hosts = _placed(rng, leaves * per_leaf)
    groups = _groups(hosts, rng.integers(5, 12, len(hosts)).tolist())
    jobs = [_all_reduce(f"ring{g}", group, 8 * MB) for g, group in enumerate(groups)]
    return _scenario(_fabric(spines, leaves=leaves, hosts=per_leaf), jobs, BOTH, qps=[1, 3])


def _slow_cables(rng: np.random.Generator, seed: int) -> Document:
    fabric = _fabric(4, hosts=4)
    slow = [
        {"names": [f"leaf{leaf + 1}-spine{rng.integers(4) + 1}"], "part": float(rng.integers(3, 8)) / 10}
        for leaf in rng.choice(8, 2, replace=False)
    ]
    jobs = _rings(_placed(rng, 32), 16 * MB, (8, 16)[seed % 2])
    return _scenario(fabric, jobs, BOTH, qps=[1, 2], slow=slow)


def _planes(rng: np.random.Generator, seed: int) -> Document:
    spines, ranks = (4, 2)[seed % 2], RING_SIZES[seed % 3]
    return _scenario(_fabric(spines, hosts=4, planes=2), _rings(_placed(rng, 32), 16 * MB, ranks))


def _layers(dead: int) -> Callable[[np.random.Generator, int], Document]:
    """Return the class of rings on three layers, with so many dead cores."""

    def drawn(rng: np.random.Generator, seed: int) -> Document:
        fabric = _three_layers(rng)
        hosts = _placed(rng, _hosts_of(fabric))
        jobs = _rings(hosts, 8 * MB, len(hosts) // (2, 4)[seed % 2])
        return _scenario(fabric, jobs, BOTH, failed_spines=[dead])

    return drawn


def _tensor_parallel(rng: np.random.Generator, _seed: int) -> Document:
    # Groups of four hosts in a row; every second seed or so, half of them are on two leaves.
    hosts = np.roll(np.arange(64), int(rng.choice([0, 2]))).reshape(16, 4)[rng.permutation(16)] + 1
    jobs = []
    for g, count in enumerate((3, 4, 4, 5)):
        group, hosts = hosts[:count], hosts[count:]
        names = [f"h{n}" for n in group.reshape(-1).tolist()]
        inner = [_call("all_reduce", 4 * MB, range(4 * n, 4 * n + 4), name=f"tp{n}") for n in range(count)]
        across = [_call("all_reduce", 16 * MB, range(r, 4 * count, 4), name=f"dp{r}", phase=1) for r in range(4)]
        jobs.append(_job(f"job{g}", names, [*inner, *across]))
    return _scenario(_fabric(4), jobs)


REPLANNED = {"triggers": ["arrival", "end", "epoch", "failure"]}
"""Jobs of different lengths: the controller makes a new plan when one ends."""


def _arrivals(rng: np.random.Generator, seed: int) -> Document:
    jobs = _rings(_placed(rng, 64), 16 * MB, RING_SIZES[seed % 2])
    for job in jobs:
        job |= {"start": round(float(rng.uniform(0, 6e-3)), 6), "epochs": int(rng.integers(1, 4))}
    return _scenario(_fabric(4), jobs) | REPLANNED


def _scattered(rng: np.random.Generator, seed: int) -> Document:
    hosts = _placed(rng, 64)
    jobs = []
    for g, group in enumerate(_groups(hosts, [RING_SIZES[seed % 3]] * 4 + [8] * 4)):
        ranks, size = range(len(group)), int(rng.integers(8, 25)) * MB
        calls = [_call(op, size, ranks, name=op, phase=p) for p, op in enumerate(("reduce_scatter", "all_gather"))]
        jobs.append(_job(f"job{g}", group, calls))
    return _scenario(_fabric(4), jobs) | REPLANNED


def _pipelines(rng: np.random.Generator, _seed: int) -> Document:
    hosts = _placed(rng, 64)
    jobs = []
    for g, group in enumerate(_groups(hosts, (16, 16, 16, 16))):
        # Four stages of four ranks: activations to the next stage, gradients back, then a ring in each stage.
        pairs = [(rank, rank + 4) for rank in range(12)]
        there = [_call("send_recv", 8 * MB, pair, name=f"f{pair[0]}", ring=False) for pair in pairs]
        back = [_call("send_recv", 8 * MB, pair[::-1], name=f"b{pair[0]}", phase=1, ring=False) for pair in pairs]
        rings = [_call("all_reduce", 8 * MB, range(4 * s, 4 * s + 4), name=f"dp{s}", phase=2) for s in range(4)]
        jobs.append(_job(f"job{g}", group, [*there, *back, *rings]))
    return _scenario(_fabric(4), jobs)


SPLIT = {"max_splits": 64}

BOTH: list[Any] = ["fair", {"policy": "fair", "name": "fair-split", "options": SPLIT}]
"""Whole flows, and flows that may be split."""

CLASSES: dict[str, Callable[[np.random.Generator, int], Document]] = {
    "rings-1to1": _even_rings(8),
    "rings-2to1": _even_rings(4),
    "rings-4to1": _even_rings(2),
    "dead-spine-qps": _even_rings(8, qps=[4], failed_spines=[1]),
    "dead-spine-splits": _even_rings(8, policies=BOTH, failed_spines=[1]),
    "all-to-alls": _all_to_alls,
    "computing-2to1": _computing(4),
    "computing-4to1": _computing(2),
    "odd-groups": _odd_groups,
    "slow-cables": _slow_cables,
    "planes": _planes,
    "three-layers": _layers(0),
    "three-layers-dead-core": _layers(1),
    "tensor-parallel": _tensor_parallel,
    "arrivals": _arrivals,
    "scatter-gather": _scattered,
    "pipelines": _pipelines,
}
"""Functions that draw a scenario, by name of its class, from a random generator and the number of the seed."""


def drawn(name: str, seed: int) -> Document:
    """Return the scenario of a class and a seed, as plain data."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    return {"name": f"{name}-{seed}", **CLASSES[name](rng, seed)}
