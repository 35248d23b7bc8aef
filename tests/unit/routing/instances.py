"""Random fabrics and traffic for the tests: plain generators from a seed, and Hypothesis strategies over them."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import strategies as st

from controller.model.assignment import Assignment
from controller.model.fabric import Cable, Fabric
from controller.model.files.clos import clos
from controller.model.packets.flow_ports import port_code
from controller.model.traffic import ANY_PORT, Collective, Traffic

UNKNOWN = [ANY_PORT, ANY_PORT, port_code("tcp"), port_code("tcp", None, 5000), port_code("udp"), port_code("any")]
"""Port codes of flows that cannot be split."""


def traffic_of(
    flows: list[tuple[int, int, int, int]], collectives: list[Collective], ports: list[int] | None = None
) -> Traffic:
    """Traffic from (source, destination, bytes, collective) rows in order of collectives."""
    src, dst, size, collective = np.array(flows, dtype=np.int64).reshape(-1, 4).T
    number = np.zeros(len(src), dtype=np.int32)
    for k in range(len(collectives)):
        number[collective == k] = np.arange(int((collective == k).sum()))
    udp = np.array(ports, dtype=np.int32) if ports is not None else 49152 + np.arange(len(src), dtype=np.int32) % 16384
    return Traffic(
        src.astype(np.int32), dst.astype(np.int32), size, collective.astype(np.int32), number, udp, tuple(collectives)
    )


def one_path(n: int) -> Assignment:
    """Return an assignment of n flows to the first path."""
    return Assignment.single(np.zeros(n, dtype=np.int32))


def random_fabric(rng: np.random.Generator, *, symmetric: bool = False, most: int = 4) -> Fabric:
    """A small fabric; unless ``symmetric`` with unequal, parallel, missing and failed links and unequal hosts."""
    spines, leaves, hosts = (int(rng.integers(1, most + 1)) for _ in range(3))
    leaves = max(2, leaves)
    fabric = clos(
        spines,
        leaves,
        hosts,
        host_gbps=float(rng.choice([50, 100])),
        uplink_gbps=float(rng.choice([50, 100, 200])),
        parallel=int(rng.integers(1, 3)),
    )
    if symmetric:
        return fabric
    kept: list[Cable] = []
    for leaf in fabric.leaves:
        own = [cable for cable in fabric.cables if cable.lower == leaf.name]
        chosen = [cable for cable in own if rng.random() > 0.15] or own[:1]
        kept += [
            dataclasses.replace(cable, gbps=float(rng.choice([40, 100, 100])), up=bool(rng.random() > 0.1))
            for cable in chosen
        ]
    uneven = tuple(
        dataclasses.replace(host, gbps=float(rng.choice([25, 100, 100])), up=bool(rng.random() > 0.03))
        for host in fabric.hosts
    )
    return dataclasses.replace(fabric, cables=tuple(kept), hosts=uneven)


def random_traffic(
    rng: np.random.Generator, fabric: Fabric, *, most_flows: int = 16, phases: bool = True, unknown_ports: bool = True
) -> Traffic:
    """A few jobs with unequal weights, sizes and phases; some flows share a placement unit."""
    n_collectives = int(rng.integers(1, 5))
    collectives = []
    for _ in range(n_collectives):
        job = int(rng.integers(0, 3))
        weight = [1.0, 1.0, 2.5][job]
        collectives.append(
            Collective(f"job{job}", f"c{len(collectives)}", weight, int(rng.integers(0, 3)) if phases else 0)
        )
    flows, ports = [], []
    for _ in range(int(rng.integers(0, most_flows + 1)) if fabric.n_hosts > 1 else 0):
        src, dst = rng.choice(fabric.n_hosts, 2, replace=False).tolist()
        size = int(rng.choice([10**6, 3 * 10**6, 7_654_321, 10**9]))
        flows.append((src, dst, size, int(rng.integers(0, n_collectives))))
        drawn = rng.random() if unknown_ports else 1.0
        ports.append(UNKNOWN[int(drawn * 5 * len(UNKNOWN))] if drawn < 0.2 else 49152 + len(ports))
    order = sorted(range(len(flows)), key=lambda i: flows[i][3])
    return traffic_of([flows[i] for i in order], collectives, [ports[i] for i in order])


def instance_of(seed: int, *, symmetric: bool, phases: bool = True) -> tuple[Fabric, Traffic]:
    """Return the fabric and the traffic that this seed draws."""
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng, symmetric=symmetric)
    return fabric, random_traffic(rng, fabric, phases=phases)


@st.composite
def instances(draw: st.DrawFn, *, symmetric: bool | None = None, phases: bool = True) -> tuple[Fabric, Traffic]:
    """A fabric and a traffic on it, everything that may be odd about them included."""
    seed = draw(st.integers(0, 2**32 - 1))
    even = draw(st.booleans()) if symmetric is None else symmetric
    return instance_of(seed, symmetric=even, phases=phases)
