"""Instances for the contract of ``fair``: every kind of fabric, with phases, QPs, weights and failures."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import fairspine
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.model.traffic import Traffic

KINDS = ("two tiers", "three tiers", "parallel cables", "planes", "dual-ToR")
"""The kinds of fabric of which each is drawn equally often."""

SPEEDS = ((0.1,), (0.5,), (0.1, 0.25, 0.5, 0.8))
"""Parts of their speed that slow cables have: all the same one, or each one of several."""


def fabric_of(kind: str, half: int, rng: np.random.Generator, *, oversubscribed: bool) -> Fabric:
    """Return a healthy fabric of a kind.

    Args:
        kind: one of ``KINDS``.
        half: choices of a switch on each tier; a fat tree of switches with ``2 * half`` ports has half of them.
        rng: draws the oversubscription.
        oversubscribed: whether cables may have a half or a quarter of the capacity of hosts.
    """
    slow = [100.0, 100.0, 50.0, 25.0] if oversubscribed else [100.0]
    uplink_gbps, core_gbps = float(rng.choice(slow)), float(rng.choice(slow))
    if kind == "two tiers":
        return clos(half, 2 * half, half, uplink_gbps=uplink_gbps)
    pods, parallel = int(rng.integers(2, 2 * half + 1)), 2 if kind == "parallel cables" else 1
    return pod_clos(
        pods,
        half + (half % 2 if kind == "dual-ToR" else 0),
        half,
        half,
        half,
        parallel=parallel,
        core_parallel=int(rng.integers(1, parallel + 1)),
        planes=int(rng.choice([2, 4])) if kind == "planes" else 1,
        dual_tor=kind == "dual-ToR",
        uplink_gbps=uplink_gbps,
        core_gbps=core_gbps,
    )


def damaged(fabric: Fabric, rng: np.random.Generator) -> Fabric:
    """Return the fabric with one to three failures: of cables, or of a switch above the leaves."""
    above = [switch.name for layer in fabric.layers[1:] for switch in layer]
    down = rng.choice(fabric.cable_names, int(rng.integers(1, 4)), replace=False).tolist()
    if rng.random() < 0.5:
        down = [*down[1:], str(rng.choice(above))]
    return fabric.without_links(down)


def worn(fabric: Fabric, rng: np.random.Generator) -> Fabric:
    """Return the fabric with slow cables, and for every other draw with several cables and switches down as well.

    Up to an eighth of the cables have a tenth of their speed, or a half, or speeds of their own.
    """
    slow = set(
        rng.choice(len(fabric.cables), int(rng.integers(1, len(fabric.cables) // 8 + 2)), replace=False).tolist()
    )
    speeds = SPEEDS[int(rng.integers(len(SPEEDS)))]
    cables = tuple(
        dataclasses.replace(cable, gbps=cable.gbps * float(rng.choice(speeds))) if n in slow else cable
        for n, cable in enumerate(fabric.cables)
    )
    fabric = dataclasses.replace(fabric, cables=cables)
    if rng.random() < 0.5:
        return fabric
    above = [switch.name for layer in fabric.layers[1:] for switch in layer]
    down = rng.choice(fabric.cable_names, int(rng.integers(1, 6)), replace=False).tolist()
    return fabric.without_links([*down, *rng.choice(above, int(rng.integers(0, 3)), replace=False).tolist()])


def equal_loads(fabric: Fabric, rng: np.random.Generator) -> Traffic:
    """Return jobs of rings of equal size; each ring of a job is in one of one to four phases, in turn."""
    names = _names(fabric)
    size = int(rng.choice([size for size in (2, 3, 4, 8) if size <= len(names)]))
    phases, jobs = int(rng.integers(1, 5)), []
    for name, hosts in _divided(names, size, rng):
        rings = [
            {
                "name": f"r{n}",
                "op": "all_reduce",
                "ranks": list(range(at, at + size)),
                "bytes": 10**9,
                "phase": n % phases,
            }
            for n, at in enumerate(range(0, len(hosts), size))
        ]
        jobs.append(fairspine.job(name, hosts=hosts, collectives=rings))
    return fairspine.traffic(fabric, jobs)


def mixed(fabric: Fabric, rng: np.random.Generator) -> Traffic:
    """Return jobs with rings, all-to-all or flows of different sizes, some with phases, QPs and weights."""
    names, jobs = _names(fabric), []
    qps, several = int(rng.choice([1, 1, 2, 6])), bool(rng.random() < 0.5)
    for name, hosts in _divided(names, int(rng.choice([2, 4])), rng):
        weight = float(rng.choice([1, 1, 2]))
        kind = rng.choice(["rings", "all-to-all", "flows"])
        if kind == "flows":
            rows = [
                {
                    "src": str(a),
                    "dst": str(b),
                    "bytes": int(rng.integers(1, 10)) * 250_000_001,
                    "collective": f"p{n % 2}",
                }
                for n, (a, b) in enumerate(zip(hosts, np.roll(hosts, -1).tolist(), strict=True))
                if a != b
            ]
            jobs.append(fairspine.job(name, flows=rows, weight=weight, qps=qps))
            continue
        size = min(len(hosts), 4)
        first: list[dict[str, Any]] = [
            {"name": f"r{at}", "op": "all_reduce", "ranks": list(range(at, at + size)), "bytes": 10**9, "phase": 0}
            for at in range(0, len(hosts) - size + 1, size)
        ]
        if several and kind == "rings":
            for n, each in enumerate(first):
                each["phase"] = n % 2
        elif kind == "all-to-all":
            second = {"name": "a2a", "op": "all_to_all", "ranks": list(range(size)), "bytes": 3 * 10**8}
            first = [*first, {**second, "phase": int(several)}]
        jobs.append(fairspine.job(name, hosts=hosts, collectives=first, weight=weight, qps=qps))
    return fairspine.traffic(fabric, jobs)


def reordered(traffic: Traffic, rng: np.random.Generator) -> Traffic:
    """Return the same traffic with its flows and collectives in another order."""
    order = rng.permutation(len(traffic.collectives))
    place = np.argsort(order)
    collective = place[traffic.collective].astype(np.int32)
    row = np.lexsort((rng.permutation(traffic.n_flows), collective))
    return Traffic(
        traffic.src[row],
        traffic.dst[row],
        traffic.bytes[row],
        collective[row],
        traffic.number[row],
        traffic.udp_src[row],
        tuple(traffic.collectives[n] for n in order.tolist()),
    )


def _names(fabric: Fabric) -> list[str]:
    """Return the names of the hosts that jobs name: NICs, where these have several ports."""
    return [fabric.hosts[host].nic or fabric.hosts[host].name for host in fabric.planes.ports[:, 0].tolist()]


def _divided(names: list[str], size: int, rng: np.random.Generator) -> list[tuple[str, list[str]]]:
    """Return one to four jobs with their hosts, multiples of ``size`` drawn from ``names``; a few hosts are idle."""
    chosen = rng.permutation(names)[: max(size, int(len(names) * rng.uniform(0.6, 1)) // size * size)].tolist()
    cuts = np.sort(rng.integers(0, len(chosen) // size + 1, int(rng.integers(0, 4)))) * size
    parts = np.split(np.array(chosen), cuts)
    return [(f"j{n}", part.tolist()) for n, part in enumerate(parts) if len(part) > 1]
