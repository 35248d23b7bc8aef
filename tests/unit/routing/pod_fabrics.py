"""Fabrics of pods, aggregation switches and cores for the laws of planning, with any part failed."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from hypothesis import strategies as st

from controller.model.clos import conventional_ip, conventional_mac
from controller.model.fabric import Cable, Fabric, Host, Switch
from controller.model.traffic import Traffic
from controller.model.ways import NO_LINK, Ways
from tests.unit.routing.instances import random_traffic


@dataclass(frozen=True)
class PodFabric(Fabric):
    """A fabric in which aggregation switch j of each pod has cables to all cores of plane j; ``spines`` has both.

    Attributes:
        shape: pods, leaves a pod, aggregation switches a pod, cores a plane.
    """

    shape: tuple[int, int, int, int] = (1, 1, 1, 1)

    @property
    def n_paths(self) -> int:
        return self.ways.n_paths

    @property
    def shares_links(self) -> bool:  # type: ignore[override]
        return False

    @cached_property
    def path_names(self) -> tuple[str, ...]:
        _, _, aggs, cores = self.shape
        planes = [f"agg{j + 1}" for j in range(aggs)]
        return (*planes, *(f"{plane}.core{c + 1}" for plane in planes for c in range(cores)))

    @cached_property
    def ways(self) -> Ways:
        pods, leaves, aggs, cores = self.shape
        number = {(cable.leaf, cable.spine): c for c, cable in enumerate(self.cables)}

        def table(ends: list[tuple[str, str]]) -> np.ndarray:  # type: ignore[type-arg]
            place = np.array([number.get(each, -1) for each in ends], dtype=np.int32)
            return np.where(place >= 0, self.first_cable_link + 2 * place, NO_LINK).astype(np.int32)

        lower = [(leaf(p, i), agg(p, j)) for p in range(pods) for i in range(leaves) for j in range(aggs)]
        upper = [(agg(p, j), core(j, c)) for p in range(pods) for j in range(aggs) for c in range(cores)]
        up = table(lower + upper)
        n_leaves = pods * leaves
        return Ways(
            first=np.array([0, aggs, aggs + aggs * cores]),
            width=np.array([aggs, cores]),
            table=np.array([0, len(lower), len(up)]),
            up=up,
            down=np.where(up >= 0, up + 1, NO_LINK).astype(np.int32),
            above=np.array(
                [p * aggs + j for p in range(pods) for _ in range(leaves) for j in range(aggs)], dtype=np.int32
            ),
            group=np.stack([np.arange(n_leaves) // leaves, np.zeros(n_leaves, np.int64)]).astype(np.int32),
        )

    def _parts_of(self, name: str) -> tuple[list[int], list[int]]:
        if name in self._cable_index:
            return [self._cable_index[name]], []
        return [c for c, cable in enumerate(self.cables) if name in (cable.leaf, cable.spine)], []


def leaf(pod: int, number: int) -> str:
    """The name of a leaf."""
    return f"leaf{pod + 1}.{number + 1}"


def agg(pod: int, plane: int) -> str:
    """The name of an aggregation switch."""
    return f"agg{pod + 1}.{plane + 1}"


def core(plane: int, number: int) -> str:
    """The name of a core."""
    return f"core{plane + 1}.{number + 1}"


def pod_fabric(pods: int, leaves: int, aggs: int, cores: int, hosts: int, *, core_gbps: float = 100.0) -> PodFabric:
    """A healthy fabric with links of 100 Gbit/s up to the aggregation switches."""
    leaf_names = [leaf(p, i) for p in range(pods) for i in range(leaves)]
    upper = [agg(p, j) for p in range(pods) for j in range(aggs)] + [
        core(j, c) for j in range(aggs) for c in range(cores)
    ]
    made = [
        Host(f"h{n * hosts + i + 1}", name, 100.0, conventional_ip(n, i), conventional_mac(n, i), f"s{n}-{i}")
        for n, name in enumerate(leaf_names)
        for i in range(hosts)
    ]
    cables = [Cable(leaf(p, i), agg(p, j), 100.0) for p in range(pods) for i in range(leaves) for j in range(aggs)] + [
        Cable(agg(p, j), core(j, c), core_gbps) for p in range(pods) for j in range(aggs) for c in range(cores)
    ]
    switches = [Switch(name, n + 1) for n, name in enumerate([*leaf_names, *upper])]
    return PodFabric(
        tuple(switches[: len(leaf_names)]),
        tuple(switches[len(leaf_names) :]),
        tuple(made),
        tuple(cables),
        (pods, leaves, aggs, cores),
    )


def fat_tree(k: int) -> PodFabric:
    """The fat tree of switches with k ports (Al-Fares et al., SIGCOMM 2008)."""
    return pod_fabric(k, k // 2, k // 2, k // 2, k // 2)


def random_pods(rng: np.random.Generator, *, healthy: bool = False, most: int = 3) -> PodFabric:
    """A small fabric; unless ``healthy``, with unequal, missing and failed parts."""
    pods, leaves, aggs, cores, hosts = (int(rng.integers(1, most + 1)) for _ in range(5))
    fabric = pod_fabric(max(2, pods), leaves, aggs, cores, hosts, core_gbps=float(rng.choice([100, 100, 200])))
    if healthy:
        return fabric
    kept = tuple(
        dataclasses.replace(cable, gbps=float(rng.choice([40, 100, 100, 100])), up=bool(rng.random() > 0.1))
        for cable in fabric.cables
        if rng.random() > 0.1
    )
    ups = tuple(dataclasses.replace(host, up=bool(rng.random() > 0.03)) for host in fabric.hosts)
    return dataclasses.replace(fabric, cables=kept, hosts=ups)


@st.composite
def pod_instances(draw: st.DrawFn, *, healthy: bool | None = None, phases: bool = True) -> tuple[PodFabric, Traffic]:
    """A fabric of pods and a traffic on it."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    fabric = random_pods(rng, healthy=draw(st.booleans()) if healthy is None else healthy)
    return fabric, random_traffic(rng, fabric, phases=phases)
