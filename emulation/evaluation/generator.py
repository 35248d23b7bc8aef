"""Generator of jobs like those of the paper's evaluation, from a seed.

The parameters are taken from the traffic files of ``ofircohen205/dcn-simulators`` (MIT), the simulator of arXiv
2503.05324: a job reduces its gradients over its data-parallel replicas, in as many rings as a replica has GPUs (tensor
x pipeline parallelism), each with its part of four bytes per parameter. A replica fills randomly drawn leaves one after
the other; a later replica may use the free hosts of the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.job import CollectiveCall, Job
from controller.model.traffic import Int64Array
from emulation.evaluation.timed_job import TimedJob

Placement = Literal["leaves", "scattered"]

GRADIENT_BYTES = 4

FIRST_START, LAST_START = 2.3, 12.4
"""Seconds between which jobs come, in the files."""


@dataclass(frozen=True)
class ModelShape:
    """Parameters of a model's training, taken from the files.

    Attributes:
        parameters: number of parameters of the model.
        rings: number of GPUs of a replica.
        compute_seconds: computation time of an epoch.
    """

    name: str
    parameters: int
    rings: int
    compute_seconds: float

    @property
    def ring_bytes(self) -> int:
        """Bytes that one ring reduces; each step of a ring of n hosts sends an n-th of them."""
        return -(-GRADIENT_BYTES * self.parameters // self.rings)


SHAPES: dict[str, ModelShape] = {
    shape.name: shape
    for shape in (
        ModelShape("GPT_3", 175_000_000_000, 64, 1.009615385),
        ModelShape("BLOOM", 176_000_000_000, 48, 1.238769231),
        ModelShape("LLaMA2_70B", 70_000_000_000, 128, 2.692307693),
    )
}


@dataclass(frozen=True)
class Mix:
    """Parameters of a set of generated jobs.

    Attributes:
        jobs: number of jobs.
        ring: hosts of a ring; smaller if the job would not leave room for the others.
        models: names from ``SHAPES`` to draw from.
        placement: ``leaves`` as in the files, or ``scattered`` over all free hosts.
        unequal: draw the replica count uniformly between 2 and ``ring``.
        all_to_all: bytes that each host also sends to the others of an expert group, in a separate phase before the
            rings; 0: none. A group has ``ring`` neighbouring hosts of a replica.
        come_and_go: seconds over which the starts are spread instead; jobs then run for a half to all of the epochs.
    """

    jobs: int
    ring: int
    models: Sequence[str] = tuple(SHAPES)
    placement: Placement = "leaves"
    unequal: bool = False
    all_to_all: int = 0
    come_and_go: float = 0.0


def generate(fabric: Fabric, mix: Mix, epochs: int, seed: int) -> tuple[TimedJob, ...]:
    """Jobs on hosts of their own; equal arguments give equal jobs.

    Raises:
        InputError: the fabric has no room for so many jobs, or a ring would have one host.
    """
    if mix.ring < 2:
        raise InputError("a ring needs at least two hosts", field="rings", value=mix.ring)
    rng = np.random.default_rng([seed, mix.jobs, mix.ring])
    shapes = [SHAPES[mix.models[i]] for i in rng.integers(0, len(mix.models), mix.jobs)]
    seats = _Seats(fabric, rng, mix.placement)
    made = []
    for j, shape in enumerate(shapes):
        room = seats.free - sum(2 * later.rings for later in shapes[j + 1 :])
        size = int(rng.integers(2, mix.ring + 1)) if mix.unequal else mix.ring
        while size > 2 and size * shape.rings > room:
            size = max(2, size // 2)
        if size * shape.rings > room:
            raise InputError(
                f"the fabric has {len(fabric.nic_names)} hosts, too few for {', '.join(each.name for each in shapes)}",
                field="jobs",
                value=mix.jobs,
            )
        replicas = np.stack([seats.take(shape.rings) for _ in range(size)])
        start = float(rng.uniform(0, mix.come_and_go) if mix.come_and_go else rng.uniform(FIRST_START, LAST_START))
        many = int(rng.integers(-(-epochs // 2), epochs + 1)) if mix.come_and_go else epochs
        name = f"job_{j}-{shape.name}"
        made.append(TimedJob(_job(fabric, name, shape, replicas, mix), shape.compute_seconds, many, start))
    return tuple(made)


def _job(fabric: Fabric, name: str, shape: ModelShape, replicas: Int64Array, mix: Mix) -> Job:
    """Ring i joins host i of every replica [size, rings]; ranks go replica by replica."""
    size, rings = replicas.shape
    rank = np.arange(size * rings).reshape(size, rings)
    calls = [
        CollectiveCall(f"ring{i}", "all_reduce", tuple(rank[:, i].tolist()), shape.ring_bytes, "ring", phase=1)
        for i in range(rings)
    ]
    if mix.all_to_all:
        groups = [row[at : at + mix.ring].tolist() for row in rank for at in range(0, rings, mix.ring)]
        calls += [
            CollectiveCall(f"experts{i}", "all_to_all", tuple(group), mix.all_to_all, "direct", phase=0)
            for i, group in enumerate(groups)
            if len(group) > 1
        ]
    hosts = tuple(fabric.nic_names[nic] for nic in replicas.ravel().tolist())
    return Job(name, hosts=hosts, collectives=tuple(calls))


class _Seats:
    """The free NICs by number, and their allocation to replicas; a NIC is on the leaf of its first port."""

    def __init__(self, fabric: Fabric, rng: np.random.Generator, placement: Placement) -> None:
        leaf = fabric.host_leaf[fabric.planes.ports[:, 0]]
        order = np.argsort(leaf, kind="stable")
        if placement == "scattered":
            order = rng.permutation(order)
            self.leaves = [order.tolist()]
        else:
            ends = np.searchsorted(leaf[order], np.arange(1, fabric.n_leaves))
            self.leaves = [part.tolist() for part in np.split(order, ends)]
        self.rng = rng

    @property
    def free(self) -> int:
        return sum(map(len, self.leaves))

    def take(self, many: int) -> Int64Array:
        """Allocate hosts for one replica: all free hosts of a leaf, then those of another leaf."""
        taken: list[int] = []
        while len(taken) < many:
            open_leaves = [leaf for leaf in self.leaves if leaf]
            leaf = open_leaves[int(self.rng.integers(0, len(open_leaves)))]
            part = leaf[: many - len(taken)]
            del leaf[: len(part)]
            taken += part
        return np.array(taken, dtype=np.int64)
