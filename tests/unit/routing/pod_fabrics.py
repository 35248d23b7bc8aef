"""Fabrics of pods, aggregation switches and cores for the laws of planning, with any part failed."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.pod_clos import pod_clos
from controller.model.traffic import Traffic
from tests.unit.routing.instances import random_traffic


def fat_tree(k: int) -> Fabric:
    """The fat tree of switches with k ports (Al-Fares et al., SIGCOMM 2008)."""
    return pod_clos(k, k // 2, k // 2, k // 2, k // 2)


def random_pods(rng: np.random.Generator, *, healthy: bool = False, most: int = 3) -> Fabric:
    """A small fabric; unless ``healthy``, with unequal, parallel, missing and failed parts."""
    pods, leaves, aggs, cores, hosts = (int(rng.integers(1, most + 1)) for _ in range(5))
    parallel, core_parallel = (1, 1) if healthy else rng.choice([1, 1, 2], 2).tolist()
    fabric = pod_clos(
        max(2, pods),
        leaves,
        aggs,
        cores,
        hosts,
        core_gbps=float(rng.choice([100, 100, 200])),
        parallel=parallel,
        core_parallel=core_parallel,
    )
    if healthy:
        return fabric
    kept = tuple(
        dataclasses.replace(cable, gbps=float(rng.choice([40, 100, 100, 100])), up=bool(rng.random() > 0.1))
        for n, cable in enumerate(fabric.cables)
        if rng.random() > 0.1 or n == 0
    )
    ups = tuple(dataclasses.replace(host, up=bool(rng.random() > 0.03)) for host in fabric.hosts)
    return dataclasses.replace(fabric, cables=kept, hosts=ups)


@st.composite
def pod_instances(draw: st.DrawFn, *, healthy: bool | None = None, phases: bool = True) -> tuple[Fabric, Traffic]:
    """A fabric of pods and a traffic on it."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    fabric = random_pods(rng, healthy=draw(st.booleans()) if healthy is None else healthy)
    return fabric, random_traffic(rng, fabric, phases=phases)
