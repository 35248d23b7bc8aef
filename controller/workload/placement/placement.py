"""Placement of a job's ranks on the hosts of a fabric, a server's ranks together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Literal, NamedTuple

import numpy as np

from controller.model.errors import InputError
from controller.model.fabric import Fabric, IntArray
from controller.model.job import Job
from controller.model.traffic import Int64Array
from controller.workload.collectives import one_channel
from controller.workload.expand import check_count, expand
from controller.workload.placement.packing import Affinity, fill, grow, pack, refine

Method = Literal["packed", "scattered", "random"]
METHODS: tuple[Method, ...] = ("packed", "scattered", "random")


class Crossing(NamedTuple):
    """Bytes of a job that leave their server, the part of them that leaves its leaf, and that which leaves its pod."""

    network: int
    cross_leaf: int
    cross_pod: int


class _Slots(NamedTuple):
    """Places for S blocks of consecutive ranks.

    Attributes:
        hosts: [S] hosts of each slot, by rail: all on one server.
        pool: [S] pool of each slot, 0, 1, ..; slots with the same leaves, rail by rail, form one pool.
        capacity: [P] number of slots of each pool.
        pod: [P] pod of each pool, 0, 1, ..; pools with leaves in the same pods, rail by rail, have the same.
        size: number of hosts in a slot.
    """

    hosts: list[list[int]]
    pool: IntArray
    capacity: IntArray
    pod: IntArray
    size: int


def participants(job: Job) -> tuple[str, ...]:
    """Return the hosts of the ranks, then further hosts that flows and the matrix name: all that a placement moves."""
    names = dict.fromkeys(job.hosts)
    for src, dst in zip(job.flows.src, job.flows.dst, strict=True):
        names[src] = names[dst] = None
    if job.matrix is not None:
        names.update(dict.fromkeys(job.matrix.hosts))
    return tuple(names)


def place(
    fabric: Fabric, job: Job, method: Method, seed: int = 0, free: Collection[str] | None = None
) -> tuple[str, ...]:
    """Choose a host for each of the job's ``participants``, in their order; no host twice.

    Consecutive ranks share a server as far as its free hosts allow, by rail: rank i of a server is on its i-th rail, as
    frameworks number them. Servers are chosen

    * ``packed``: leaf by leaf, with ranks of much mutual traffic under one leaf, as MegaScale does (Z. Jiang et al.,
      NSDI 2024, section 3.6). A server whose rails go to different leaves is near another with the same leaves. In
      three layers, pods are filled first, and then the leaves of each. There are never more bytes between pods than
      with ``scattered``, and never more between leaves unless there are fewer between pods;
    * ``scattered``: one from each leaf in turn;
    * ``random``: drawn with ``seed``.

    Args:
        fabric: the fabric that has the hosts.
        job: the job to place.
        method: the method, see above.
        seed: the seed of ``random``.
        free: names of the hosts that may be used; ``None``: all. Hosts that are down are never used.

    Raises:
        InputError: the fabric has too few hosts, a name in ``free`` is not one of its hosts, or the job has more flows
            than memory holds.
    """
    check_count(job)
    n = len(participants(job))
    slots = _slots(fabric, _usable(fabric, free), n)
    blocks = -(-n // slots.size)
    if method == "scattered":
        return _hosts(fabric, slots, _in_turn(slots)[:blocks], n)
    if method == "random":
        return _hosts(fabric, slots, np.random.default_rng(seed).permutation(len(slots.hosts))[:blocks].tolist(), n)
    best: tuple[tuple[int, int], tuple[str, ...]] | None = None
    for chosen in _packed(slots, _affinity(job, slots.size)):
        hosts = _hosts(fabric, slots, chosen, n)
        crossing = crossing_of(fabric, moved(job, hosts))
        if best is None or (crossing.cross_pod, crossing.cross_leaf) < best[0]:
            best = (crossing.cross_pod, crossing.cross_leaf), hosts
    return () if best is None else best[1]


def moved(job: Job, hosts: tuple[str, ...]) -> Job:
    """Move the job to the hosts that ``place`` returned."""
    return rename_hosts(job, dict(zip(participants(job), hosts, strict=True)))


def rename_hosts(job: Job, mapping: Mapping[str, str]) -> Job:
    """Rename the hosts of a job; names that are not in the mapping stay."""

    def renamed(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(mapping.get(name, name) for name in names)

    matrix = job.matrix
    return dataclasses.replace(
        job,
        hosts=renamed(job.hosts),
        flows=dataclasses.replace(job.flows, src=renamed(job.flows.src), dst=renamed(job.flows.dst)),
        matrix=None if matrix is None else dataclasses.replace(matrix, hosts=renamed(matrix.hosts)),
    )


def crossing_of(fabric: Fabric, job: Job) -> Crossing:
    """Return the bytes of the job on the network, between leaves, and between pods.

    Raises:
        InputError: the job is on hosts that the fabric does not have.
    """
    # Ports do not matter here, and the search for free ones takes time.
    traffic = expand(fabric, dataclasses.replace(job, ports_known=False))
    src, dst = fabric.host_leaf[traffic.src], fabric.host_leaf[traffic.dst]
    between = (traffic.bytes[group[src] != group[dst]] for group in (np.arange(fabric.n_leaves), fabric.pod_of_leaf))
    return Crossing(int(traffic.bytes.sum()), *(int(sent.sum()) for sent in between))


def _usable(fabric: Fabric, free: Collection[str] | None) -> list[int]:
    """Return the hosts that may be used; of a NIC with several ports, its first one if all are up."""
    up = [
        (int(ports[0]), name)
        for name, ports in zip(fabric.nic_names, fabric.planes.ports, strict=True)
        if all(fabric.hosts[port].up for port in ports.tolist())
    ]
    if free is None:
        return [i for i, _ in up]
    for name in free:
        if name not in fabric.host_index:
            raise InputError("the fabric has no host of this name", field="free", value=name)
    wanted = set(free)
    return [i for i, name in up if name in wanted]


def _slots(fabric: Fabric, usable: list[int], n: int) -> _Slots:
    """Return the widest slots of which there are enough for ``n`` ranks."""
    if n > len(usable):
        raise InputError(f"the job has {n} ranks; {len(usable)} hosts are free", field="hosts")
    servers: dict[str, list[int]] = {}
    for i in usable:
        servers.setdefault(fabric.hosts[i].server, []).append(i)
    for members in servers.values():
        members.sort(key=lambda i: (fabric.hosts[i].rail, i))
    widths = np.array([len(members) for members in servers.values()] or [1])
    size = next(size for size in range(min(int(widths.max()), max(n, 1)), 0, -1) if (widths // size).sum() * size >= n)
    hosts = [
        members[start : start + size]
        for members in servers.values()
        for start in range(0, len(members) - size + 1, size)
    ]
    number: dict[tuple[int, ...], int] = {}
    pool = [number.setdefault(tuple(fabric.host_leaf[members].tolist()), len(number)) for members in hosts]
    pods: dict[tuple[int, ...], int] = {}
    pod = [pods.setdefault(tuple(fabric.pod_of_leaf[list(leaves)].tolist()), len(pods)) for leaves in number]
    capacity = np.bincount(pool).astype(np.int32)
    return _Slots(hosts, np.array(pool, dtype=np.int32), capacity, np.array(pod, dtype=np.int32), size)


def _in_turn(slots: _Slots) -> list[int]:
    """Return all slots: the first of each pool, then the second of each, and so on."""
    place_in_pool = np.zeros(len(slots.pool), dtype=np.int64)
    for p in range(len(slots.capacity)):
        members = np.flatnonzero(slots.pool == p)
        place_in_pool[members] = np.arange(len(members))
    order: list[int] = np.lexsort((slots.pool, place_in_pool)).tolist()
    return order


def _hosts(fabric: Fabric, slots: _Slots, chosen: list[int], n: int) -> tuple[str, ...]:
    return tuple(fabric.nic_names[fabric.planes.nic_of_host[host]] for slot in chosen for host in slots.hosts[slot])[:n]


def _packed(slots: _Slots, affinity: Affinity) -> Iterator[list[int]]:
    """Yield several good choices of a slot [blocks] for each block, of which the caller measures the best."""
    in_turn = _in_turn(slots)[: affinity.n]
    for method in (pack, grow, fill):
        yield _seats(slots, _by_pods(slots, affinity, method))
    yield _seats(slots, refine(affinity, slots.pool[in_turn], slots.capacity))
    yield in_turn


def _by_pods(slots: _Slots, affinity: Affinity, method: Callable[[Affinity, IntArray], IntArray]) -> IntArray:
    """Return the pool [blocks] of each block: first a pod by the method, then by the same one a pool of the pod."""
    room = np.bincount(slots.pod, weights=slots.capacity).astype(np.int32)
    pod = np.zeros(affinity.n, dtype=np.int32)
    if len(room) > 1:
        pod = refine(affinity, method(affinity, room), room)
    pool = np.empty(affinity.n, dtype=np.int32)
    for each in np.unique(pod):
        blocks, pools = np.flatnonzero(pod == each), np.flatnonzero(slots.pod == each)
        own, capacity = affinity.among(blocks), slots.capacity[pools]
        pool[blocks] = pools[refine(own, method(own, capacity), capacity)]
    return pool


def _seats(slots: _Slots, pools: IntArray) -> list[int]:
    """Return a separate slot [blocks] for each block, in its pool."""
    chosen = np.empty(len(pools), dtype=np.int64)
    for p in np.unique(pools):
        members = np.flatnonzero(pools == p)
        chosen[members] = np.flatnonzero(slots.pool == p)[: len(members)]
    seats: list[int] = chosen.tolist()
    return seats


def _affinity(job: Job, size: int) -> Affinity:
    """Return the traffic among blocks of ``size`` consecutive ranks."""
    number = {name: i for i, name in enumerate(participants(job))}
    rank_of = np.array([number[name] for name in job.hosts], dtype=np.int64)
    src: list[Int64Array] = []
    dst: list[Int64Array] = []
    sent: list[Int64Array] = []
    for call in job.collectives:
        ranks = rank_of[np.array(call.ranks, dtype=np.int64)]
        # Trees join servers; ranks of one block share a server.
        flows = one_channel(call, (ranks // size).astype(np.int32))
        src.append(ranks[flows.src])
        dst.append(ranks[flows.dst])
        sent.append(flows.bytes * (call.channels or 1))
    src.append(np.array([number[name] for name in job.flows.src], dtype=np.int64))
    dst.append(np.array([number[name] for name in job.flows.dst], dtype=np.int64))
    sent.append(job.flows.bytes)
    if job.matrix is not None:
        members = np.array([number[name] for name in job.matrix.hosts], dtype=np.int64)
        row, column = np.nonzero(job.matrix.bytes)
        src.append(members[row])
        dst.append(members[column])
        sent.append(job.matrix.bytes[row, column])
    return Affinity.of(
        -(-len(number) // size), np.concatenate(src) // size, np.concatenate(dst) // size, np.concatenate(sent)
    )
