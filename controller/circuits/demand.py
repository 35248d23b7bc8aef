"""What jobs send over circuits: all-reduce groups, whose ring order is free, and messages between two servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from controller.circuits.fabric.optical_fabric import OpticalFabric
from controller.model.errors import InputError
from controller.model.fabric import FloatArray
from controller.model.job import CollectiveCall, Job
from controller.workload.collectives import algorithm_of, flows_of
from controller.workload.importers.base import provisional_hosts

_TIMES_AROUND: Mapping[str, int] = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}
"""How often the data of a ring goes around it."""


@dataclass(frozen=True)
class RingGroup:
    """Servers that a ring collective joins; any order of them around the ring does as well.

    Attributes:
        job, collective: their names.
        members: the servers, as numbers of the shard.
        edge_bytes: the bytes that each member sends to the next one around the ring.
        slot: index of the phase in ``ShardDemand.messages``.
    """

    job: str
    collective: str
    members: tuple[int, ...]
    edge_bytes: float
    slot: int = 0

    @property
    def total_bytes(self) -> float:
        """The bytes that all members send."""
        return self.edge_bytes * len(self.members)


@dataclass(frozen=True, eq=False)
class ShardDemand:
    """What n servers send in one iteration.

    Attributes:
        messages: [P, n, n] bytes from one server to another in each phase; phases never run at once.
        groups: the ring collectives.
    """

    messages: FloatArray
    groups: tuple[RingGroup, ...]

    @property
    def n(self) -> int:
        """The number n of servers."""
        return int(self.messages.shape[1])

    @property
    def total_bytes(self) -> float:
        """The bytes that all servers send."""
        return float(self.messages.sum()) + sum(group.total_bytes for group in self.groups)

    def slot(self, number: int) -> ShardDemand:
        """Return what is sent in one phase."""
        groups = tuple(
            RingGroup(each.job, each.collective, each.members, each.edge_bytes)
            for each in self.groups
            if each.slot == number
        )
        return ShardDemand(self.messages[number : number + 1], groups)

    @property
    def sent(self) -> tuple[FloatArray, FloatArray]:
        """[P, n] the bytes that each server sends in each phase, and those that it receives."""
        out, into = self.messages.sum(axis=2), self.messages.sum(axis=1)
        for group in self.groups:
            out[group.slot, list(group.members)] += group.edge_bytes
            into[group.slot, list(group.members)] += group.edge_bytes
        return out, into


@dataclass(frozen=True, eq=False)
class Shard:
    """Servers with circuits among themselves only, and the jobs that run on them.

    Attributes:
        servers: their numbers in the fabric.
        jobs: the names of the jobs.
        demand: what they send, with servers numbered as in ``servers``.
    """

    servers: tuple[int, ...]
    jobs: tuple[str, ...]
    demand: ShardDemand


@dataclass(frozen=True)
class _Placed:
    """A job, the server of each rank, all its servers, and the server of each name in its document."""

    job: Job
    source: str
    ranks: tuple[int, ...]
    servers: frozenset[int]
    by_name: Mapping[str, int]


def shards_of(fabric: OpticalFabric, jobs: Sequence[tuple[str, Job]]) -> list[Shard]:
    """Return the shards of jobs; jobs that have servers in common are in one shard.

    Args:
        fabric: the optical fabric.
        jobs: pairs of the source for errors (a file) and the job. Jobs without placement get free servers in order.

    Raises:
        InputError: two jobs have one name, a server is unknown or another job's, or too few servers are free.
    """
    placed = _placed(fabric, jobs)
    parts: list[list[_Placed]] = []
    for each in placed:
        joined = [part for part in parts if any(each.servers & other.servers for other in part)]
        parts = [part for part in parts if part not in joined]
        parts.append([*(other for part in joined for other in part), each])
    order = {each.job.name: i for i, each in enumerate(placed)}
    parts = [sorted(part, key=lambda each: order[each.job.name]) for part in parts]
    return [_shard(part) for part in sorted(parts, key=lambda part: order[part[0].job.name])]


def _placed(fabric: OpticalFabric, jobs: Sequence[tuple[str, Job]]) -> list[_Placed]:
    by_name: dict[str, _Placed] = {}
    waiting: list[tuple[str, Job]] = []
    for source, job in jobs:
        if job.name in by_name or job.name in [other.name for _, other in waiting]:
            raise InputError("a previous job has this name", source=source, field="name", value=job.name)
        if job.hosts and job.hosts == provisional_hosts(len(job.hosts)) and job.hosts[0] not in fabric.server_index:
            waiting.append((source, job))
        else:
            by_name[job.name] = _on_servers(fabric, source, job)
    _check_apart(fabric, list(by_name.values()))
    taken = {server for each in by_name.values() for server in each.servers}
    for source, job in waiting:
        free = [i for i in range(fabric.n_servers) if i not in taken and not fabric.dead[i].all()]
        if len(free) < len(job.hosts):
            raise InputError(
                f"the job has {len(job.hosts)} ranks without a server, and {len(free)} servers are free",
                source=source,
                field="hosts",
            )
        chosen = free[: len(job.hosts)]
        taken.update(chosen)
        by_name[job.name] = _Placed(
            job, source, tuple(chosen), frozenset(chosen), dict(zip(job.hosts, chosen, strict=True))
        )
    return [by_name[job.name] for _, job in jobs]


def _on_servers(fabric: OpticalFabric, source: str, job: Job) -> _Placed:
    def number(name: str, field: str) -> int:
        server = fabric.server_index.get(name)
        if server is None:
            raise InputError("no server of the fabric has this name", source=source, field=field, value=name)
        return server

    ranks = tuple(number(name, f"hosts[{i}]") for i, name in enumerate(job.hosts))
    servers = set(ranks)
    for i, (src, dst) in enumerate(zip(job.flows.src, job.flows.dst, strict=True)):
        servers |= {number(src, f"flows[{i}].src"), number(dst, f"flows[{i}].dst")}
    if job.matrix is not None:
        servers |= {number(name, f"matrix.hosts[{i}]") for i, name in enumerate(job.matrix.hosts)}
    if not servers:
        raise InputError("has no hosts and no flows", source=source)
    return _Placed(job, source, ranks, frozenset(servers), fabric.server_index)


def _check_apart(fabric: OpticalFabric, placed: Sequence[_Placed]) -> None:
    """Refuse flows of a job that name a server where only other jobs run.

    Raises:
        InputError: there is one.
    """
    home = {server: each.job.name for each in placed for server in each.ranks}
    for each in placed:
        own = frozenset(each.ranks)
        if not own:
            continue
        for i, ends in enumerate(zip(each.job.flows.src, each.job.flows.dst, strict=True)):
            for name, host in zip(("src", "dst"), ends, strict=True):
                server = fabric.server_index[host]
                if server not in own and server in home:
                    raise InputError(
                        f"is a server of the job {home[server]}; circuits do not join jobs",
                        source=each.source,
                        field=f"flows[{i}].{name}",
                        value=host,
                    )


def _shard(placed: Sequence[_Placed]) -> Shard:
    # In the order of ranks: equal jobs get equal numbers wherever their ranks are.
    by_rank = dict.fromkeys(server for each in placed for server in each.ranks)
    servers = [*by_rank, *sorted({server for each in placed for server in each.servers} - by_rank.keys())]
    index = {server: i for i, server in enumerate(servers)}
    # Phases of one job follow each other; nothing is known of when those of another one run.
    phases = sorted(_phases(placed[0].job)) if len(placed) == 1 else [0]
    slots = {phase: i for i, phase in enumerate(phases)}
    messages = np.zeros((max(1, len(phases)), len(servers), len(servers)))
    groups: list[RingGroup] = []
    for each in placed:
        slot = dict.fromkeys(_phases(each.job), 0) if len(placed) > 1 else slots
        ranks = [index[server] for server in each.ranks]
        for call in each.job.collectives:
            _add_call(each.job.name, call, ranks, slot[call.phase], messages, groups)
        _add_pairs(each, index, slot, messages)
    for matrix in messages:
        np.fill_diagonal(matrix, 0.0)
    return Shard(tuple(servers), tuple(each.job.name for each in placed), ShardDemand(messages, _merged(groups)))


def _phases(job: Job) -> set[int]:
    given = job.phase_by_name
    names = [*(call.name for call in job.collectives), *job.flows.collective]
    if job.matrix is not None:
        names.append(job.matrix.collective)
    return {given.get(name, 0) for name in names} or {0}


def _add_call(
    job: str, call: CollectiveCall, ranks: Sequence[int], slot: int, messages: FloatArray, groups: list[RingGroup]
) -> None:
    if algorithm_of(call) == "ring":
        members = tuple(dict.fromkeys(ranks[rank] for rank in call.ranks))
        n = len(call.ranks)
        if len(members) > 1:
            # Ranks of one server follow each other around the ring, so each server sends what a rank sends.
            groups.append(RingGroup(job, call.name, members, _TIMES_AROUND[call.op] * (n - 1) / n * call.bytes, slot))
        return
    own = np.array([ranks[rank] for rank in call.ranks], dtype=np.int32)
    flows = flows_of(call, own)
    np.add.at(messages[slot], (own[flows.src], own[flows.dst]), flows.bytes.astype(np.float64))


def _add_pairs(placed: _Placed, index: Mapping[int, int], slots: Mapping[int, int], messages: FloatArray) -> None:
    job, phase = placed.job, placed.job.phase_by_name

    def row(names: Sequence[str]) -> list[int]:
        return [index[placed.by_name[name]] for name in names]

    if job.flows.src:
        slot = [slots[phase.get(name, 0)] for name in job.flows.collective]
        np.add.at(messages, (slot, row(job.flows.src), row(job.flows.dst)), job.flows.bytes.astype(np.float64))
    if job.matrix is not None:
        at = row(job.matrix.hosts)
        of_matrix = slots[phase.get(job.matrix.collective, 0)]
        np.add.at(
            messages[of_matrix], (np.repeat(at, len(at)), np.tile(at, len(at))), job.matrix.bytes.ravel().astype(float)
        )


def _merged(groups: Sequence[RingGroup]) -> tuple[RingGroup, ...]:
    """Return one group for each set of servers, phase and job: rings of equal members take equal circuits."""
    together: dict[tuple[str, int, frozenset[int]], RingGroup] = {}
    for group in groups:
        key = group.job, group.slot, frozenset(group.members)
        before = together.get(key)
        together[key] = (
            group
            if before is None
            else RingGroup(
                group.job, before.collective, before.members, before.edge_bytes + group.edge_bytes, group.slot
            )
        )
    return tuple(together.values())
