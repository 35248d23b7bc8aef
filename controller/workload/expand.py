"""Expansion of a job to its flows on a fabric, and of the flows of all jobs to the ``Traffic`` to plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controller.model.errors import InputError
from controller.model.fabric import Fabric, IntArray
from controller.model.job import Job
from controller.model.queue_pairs import ONE_QP, QueuePairs
from controller.model.traffic import ANY_PORT, Collective, Int64Array, Traffic, unit_key
from controller.workload.claims import check_claims
from controller.workload.collectives import count_of, one_channel
from controller.workload.ports import LAST, N_PORTS, NoPortLeft, assign_ports, block_of, first_choice
from controller.workload.rails import Servers, ends_of
from controller.workload.stripes import IN_TURN, host_numbers, on_ports, planes_of_flows, qps_over_planes, rank_hosts

MAX_FLOWS = 10_000_000
"""Most flows of one job where the caller sets no limit; a short document can describe more than memory holds."""


@dataclass(frozen=True, eq=False)
class JobTraffic:
    """The F flows of one job that cross the network, one per QP, in order of its collectives.

    Attributes:
        src: [F] index of the sending host in the fabric on which the job was expanded.
        dst: [F] index of the receiving host.
        bytes: [F], at least 1.
        collective: [F] index into ``collectives``.
        number: [F] the flow's number within its collective (see ``Collective``); flows that stay off the network
            count, too, so that a number means the same edge wherever the job is placed (except in trees, which depend
            on servers).
        udp_src: [F] UDP source port, or ``ANY_PORT``.
        collectives: the job's collectives, including those without flows on the network.
        own_port: the first flow whose source port the controller cannot choose, because the job gives it or declares
            it unknown; ``None``: there is none.
    """

    name: str
    weight: float
    src: IntArray
    dst: IntArray
    bytes: Int64Array
    collective: IntArray
    number: IntArray
    udp_src: IntArray
    collectives: tuple[Collective, ...]
    own_port: int | None = None

    @property
    def n_flows(self) -> int:
        """The number F of flows."""
        return len(self.src)

    def flow_id(self, flow: int) -> str:
        """Return the id of a flow, such as ``gpt3-a/dp0/17``."""
        row = self.collectives[self.collective[flow]]
        return f"{self.name}/{row.name}/{row.flow_name(int(self.number[flow]))}"


@dataclass(frozen=True, eq=False)
class _Flows:
    """Columns of all the job's flows, also those left out later.

    Attributes:
        udp_src: only ports given by the job.
        given: index into the job's ``flows``; -1: not one of them.
        src_plane, dst_plane: planes of the ports between which it must stay, or ``IN_TURN``.
    """

    src: IntArray
    dst: IntArray
    bytes: Int64Array
    collective: IntArray
    udp_src: IntArray
    given: IntArray
    src_plane: IntArray
    dst_plane: IntArray


class ExpandedJobs:
    """The jobs on a fabric, with what the expansion of another one needs of them: computed once for all."""

    def __init__(self, fabric: Fabric, jobs: Iterable[JobTraffic] = ()) -> None:
        """Take the fabric, and jobs expanded on it."""
        self._address = fabric.planes.address
        self.servers = Servers.of(fabric)
        self.jobs = list(jobs)
        empty = np.zeros(0, dtype=np.int64)
        self.taken = np.sort(np.concatenate([empty, *(_ports_of(self._address, job) for job in self.jobs)]))
        """The keys (``unit_key``) of all source ports that are taken, ascending."""

    def add(self, job: JobTraffic) -> None:
        """Add a job."""
        self.jobs.append(job)
        # A stable sort merges runs that are sorted already, in linear time.
        self.taken = np.sort(np.concatenate([self.taken, np.sort(_ports_of(self._address, job))]), kind="stable")

    def owner(self, wanted: int) -> str:
        """Return the id of the flow that has a key."""
        return _owner(self._address, self.jobs, wanted)


def expand(
    fabric: Fabric,
    job: Job,
    others: Sequence[JobTraffic] | ExpandedJobs = (),
    *,
    max_flows: int = MAX_FLOWS,
    ports: IntArray | None = None,
    default_qps: QueuePairs = ONE_QP,
) -> JobTraffic:
    """Expand a job to its flows, one for each QP of each connection, each with a UDP source port.

    Args:
        fabric: the fabric that has the hosts.
        job: the job to expand.
        others: the existing jobs, whose ports are taken.
        max_flows: the most flows that the job may have.
        ports: [F] ``udp_src`` of the flows of an earlier expansion, to be kept.
        default_qps: the QPs in each plane of connections of which the job says nothing; a flow that states one port
            has one QP.

    Raises:
        InputError: the fabric has no such host, a given or kept port is taken, or there are too
            many flows.
    """
    default_qps = qps_over_planes(fabric, default_qps)
    check_count(job, max_flows, default_qps)
    names = _collective_names(job)
    qps = _qps_of(job, names, default_qps)
    known = others if isinstance(others, ExpandedJobs) else ExpandedJobs(fabric, others)
    servers, taken = known.servers, known.taken
    server = servers.server
    flows = _in_order(_collect(fabric, servers, job, names))
    flows, number = _by_qp(job, flows, _numbers(flows.collective, len(names)), qps)
    address = fabric.planes.address
    if job.ports_known:
        check_claims(fabric, job, server, taken, known.owner)
    kept = np.flatnonzero((flows.bytes > 0) & (server[flows.src] != server[flows.dst]))
    collective, number = flows.collective[kept], number[kept]
    ends = ((flows.src, flows.src_plane), (flows.dst, flows.dst_plane))
    src, dst = (on_ports(fabric, host[kept], number, plane[kept]) for host, plane in ends)
    udp_src = flows.udp_src[kept]
    own = np.flatnonzero(udp_src != ANY_PORT) if job.ports_known else np.arange(len(kept))
    if ports is not None:
        udp_src = _again(ports, address[src], address[dst], udp_src, taken, known=job.ports_known)
    elif job.ports_known:
        by_address = address[src], address[dst]
        udp_src = _with_ports(fabric, job, names, qps, *by_address, collective, number, udp_src, taken)
    phase = job.phase_by_name
    between_ports = set(flows.collective[flows.src_plane != IN_TURN].tolist()) if fabric.planes.count > 1 else ()
    return JobTraffic(
        name=job.name,
        weight=job.weight,
        src=src,
        dst=dst,
        bytes=flows.bytes[kept],
        collective=collective,
        number=number,
        udp_src=udp_src,
        collectives=tuple(
            Collective(job.name, name, job.weight, phase.get(name, 0), job.timing, qp, k in between_ports)
            for k, (name, qp) in enumerate(zip(names, qps, strict=True))
        ),
        own_port=int(own[0]) if len(own) else None,
    )


def shares_ports(fabric: Fabric, job: JobTraffic, others: Sequence[JobTraffic]) -> bool:
    """Return whether a flow of a job has the same addresses and source port as one of other jobs."""
    address = fabric.planes.address
    return bool(np.isin(_ports_of(address, job), np.concatenate([_ports_of(address, each) for each in others])).any())


def combine(jobs: Sequence[JobTraffic]) -> Traffic:
    """Combine the traffic of several jobs, in their order; all of them were expanded on the same hosts."""
    if not jobs:
        return Traffic.empty()
    first = np.cumsum([0, *(len(job.collectives) for job in jobs[:-1])])
    return Traffic(
        src=np.concatenate([job.src for job in jobs]),
        dst=np.concatenate([job.dst for job in jobs]),
        bytes=np.concatenate([job.bytes for job in jobs]),
        collective=np.concatenate(
            [job.collective + np.int32(offset) for job, offset in zip(jobs, first.tolist(), strict=True)]
        ),
        number=np.concatenate([job.number for job in jobs]),
        udp_src=np.concatenate([job.udp_src for job in jobs]),
        collectives=tuple(row for job in jobs for row in job.collectives),
    )


def check_count(job: Job, max_flows: int = MAX_FLOWS, default_qps: QueuePairs = ONE_QP) -> None:
    """Reject a job before its flows fill the memory.

    Raises:
        InputError: it has more than ``max_flows`` flows.
    """
    qps = job.qps or default_qps
    given = len(job.flows.src) + (0 if job.matrix is None else int(np.count_nonzero(job.matrix.bytes)))
    # A collective that sends nothing costs as much as one flow.
    many = given * qps.count + sum(max(1, count_of(call) * (call.qps or qps).count) for call in job.collectives)
    if many > max_flows:
        field = "collectives" if job.collectives else "flows" if job.flows.src else "matrix"
        raise InputError(f"the number of its flows is {many}; at most {max_flows} more are allowed", field=field)


def _collective_names(job: Job) -> list[str]:
    """Return every collective's name once: the described ones, then others that flows or the matrix name."""
    names = dict.fromkeys(call.name for call in job.collectives)
    names.update(dict.fromkeys(job.flows.collective))
    if job.matrix is not None:
        names[job.matrix.collective] = None
    return list(names)


def _qps_of(job: Job, names: Sequence[str], default: QueuePairs) -> list[QueuePairs]:
    said = {call.name: call.qps for call in job.collectives}
    return [said.get(name) or job.qps or default for name in names]


def _by_qp(job: Job, flows: _Flows, number: IntArray, qps: Sequence[QueuePairs]) -> tuple[_Flows, IntArray]:
    """Return one flow for each QP of each connection, and its number; a QP that carries nothing has 0 bytes.

    ``flows`` are connections in order of their collectives, and ``number`` [F] is a connection's number there.
    """
    count = np.array([qp.count for qp in qps], dtype=np.int64)[flows.collective]
    if (count == 1).all():
        return flows, number
    size = []
    ends = np.searchsorted(flows.collective, np.arange(len(qps) + 1))
    for k, qp in enumerate(qps):
        own = np.arange(ends[k], ends[k + 1])
        share = qp.shares(flows.bytes[own])
        # A stated port is that of one QP, which carries everything.
        single = flows.udp_src[own] != ANY_PORT
        share[single, 0], share[single, 1:] = flows.bytes[own[single]], 0
        size.append(share.reshape(-1))
    row = np.repeat(np.arange(len(count)), count)
    first = np.cumsum(count) - count
    turn = np.arange(len(row)) - first[row]
    udp_src = flows.udp_src[row]
    for i, ports in job.flows.qp_ports.items():
        at = int(first[np.flatnonzero(flows.given == i)[0]])
        udp_src[at : at + len(ports)] = ports
    apart = _Flows(
        flows.src[row],
        flows.dst[row],
        np.concatenate(size),
        flows.collective[row],
        udp_src,
        flows.given[row],
        flows.src_plane[row],
        flows.dst_plane[row],
    )
    return apart, (number[row] * count[row] + turn).astype(np.int32)


def _collect(fabric: Fabric, servers: Servers, job: Job, names: list[str]) -> list[_Flows]:
    index = {name: k for k, name in enumerate(names)}
    hosts = rank_hosts(fabric, job.hosts, "hosts[{}]")
    parts = []
    for k, call in enumerate(job.collectives):
        own = hosts[np.array(call.ranks, dtype=np.int64)]
        flows = one_channel(call, servers.server[own])
        ends = ends_of(servers, own, call, flows, pxn=job.pxn)
        size = flows.bytes if call.channels is None else np.tile(flows.bytes, call.channels)
        parts.append(_part(ends.src, ends.dst, size, k))
    given = job.flows
    if given.src:
        parts.append(
            _Flows(
                host_numbers(fabric, given.src, "flows[{}].src"),
                host_numbers(fabric, given.dst, "flows[{}].dst"),
                given.bytes,
                np.array([index[name] for name in given.collective], dtype=np.int32),
                given.udp_src,
                np.arange(len(given.src), dtype=np.int32),
                *planes_of_flows(fabric, given),
            )
        )
    if job.matrix is not None:
        members = rank_hosts(fabric, job.matrix.hosts, "matrix.hosts[{}]")
        row, column = np.nonzero(job.matrix.bytes)
        size = job.matrix.bytes[row, column]
        parts.append(_part(members[row], members[column], size, index[job.matrix.collective]))
    return parts


def _part(src: IntArray, dst: IntArray, size: Int64Array, collective: int) -> _Flows:
    none = np.zeros(len(src), dtype=np.int32)
    return _Flows(
        src, dst, size, np.full(len(src), collective, dtype=np.int32), none, none - 1, none + IN_TURN, none + IN_TURN
    )


def _in_order(parts: Iterable[_Flows]) -> _Flows:
    """Return all flows by collective; within one, in the given order."""
    none = np.zeros(0, dtype=np.int32)
    all_parts = [_Flows(none, none, none.astype(np.int64), none, none, none, none, none), *parts]
    collective = np.concatenate([part.collective for part in all_parts])
    order = np.argsort(collective, kind="stable")
    return _Flows(
        np.concatenate([part.src for part in all_parts])[order],
        np.concatenate([part.dst for part in all_parts])[order],
        np.concatenate([part.bytes for part in all_parts])[order],
        collective[order],
        np.concatenate([part.udp_src for part in all_parts])[order],
        np.concatenate([part.given for part in all_parts])[order],
        np.concatenate([part.src_plane for part in all_parts])[order],
        np.concatenate([part.dst_plane for part in all_parts])[order],
    )


def _numbers(collective: IntArray, n_collectives: int) -> IntArray:
    """Return the position [F] of each flow within its collective; ``collective`` is ascending."""
    first = np.searchsorted(collective, np.arange(n_collectives))
    number: IntArray = (np.arange(len(collective)) - first[collective]).astype(np.int32)
    return number


def _ports_of(address: IntArray, job: JobTraffic) -> Int64Array:
    known = np.flatnonzero(job.udp_src != ANY_PORT)
    return unit_key(address[job.src[known]], address[job.dst[known]], job.udp_src[known])


def _again(
    ports: IntArray, src: IntArray, dst: IntArray, claims: IntArray, taken: Int64Array, *, known: bool
) -> IntArray:
    """Return ``ports``, if they are valid for these flows."""

    def refuse(bad: NDArray[np.bool_], reason: str) -> None:
        if bad.any():
            flow = int(np.flatnonzero(bad)[0])
            raise InputError(reason, field=f"ports[{flow}]", value=int(ports[flow]))

    if len(ports) != len(src):
        raise InputError(f"the job has {len(src)} flows and {len(ports)} ports", field="ports")
    if known:
        refuse((ports < 1) | (ports > LAST), f"a port must be 1 to {LAST}")
        refuse((claims != ANY_PORT) & (claims != ports), "the flow specifies another port")
        key = unit_key(src, dst, ports)
        refuse(np.isin(key, taken), "another job's flow between the same hosts has this port")
        repeated = np.ones(len(key), dtype=np.bool_)
        repeated[np.unique(key, return_index=True)[1]] = False
        refuse(repeated, "another flow of the job between the same hosts has this port")
    else:
        refuse(ports != ANY_PORT, "the ports of the job are unknown")
    return ports.astype(np.int32)


def _owner(address: IntArray, others: Sequence[JobTraffic], wanted: int) -> str:
    ids = (
        other.flow_id(int(flow))
        for other in others
        for flow in np.flatnonzero(unit_key(address[other.src], address[other.dst], other.udp_src) == wanted)
    )
    return next(ids)


def _with_ports(
    fabric: Fabric,
    job: Job,
    names: list[str],
    qps: Sequence[QueuePairs],
    src: IntArray,
    dst: IntArray,
    collective: IntArray,
    number: IntArray,
    claims: IntArray,
    taken: Int64Array,
) -> IntArray:
    """Return ``claims`` with a port for each flow that has none."""
    lacking = np.flatnonzero(claims == ANY_PORT)
    claimed = np.flatnonzero(claims != ANY_PORT)
    if len(claimed):
        taken = np.sort(np.concatenate([taken, unit_key(src[claimed], dst[claimed], claims[claimed])]))
    pair = unit_key(src[lacking], dst[lacking], np.zeros(len(lacking), dtype=np.int32))
    crowded = _more_than_ports(pair)
    if crowded is not None:
        raise _no_port_left(fabric, job, src, dst, int(lacking[crowded]))
    choice = np.zeros(len(src), dtype=np.int32)
    ends = np.searchsorted(collective, np.arange(len(names) + 1))
    for k, name in enumerate(names):
        own = slice(int(ends[k]), int(ends[k + 1]))
        choice[own] = first_choice(job.name, name, number[own], qps[k].count)
    udp_src = claims.copy()
    count = np.array([each.count for each in qps], dtype=np.int32)[collective]
    block = np.array([block_of(each.count) for each in qps], dtype=np.int32)[collective]
    # Flows are in order of collectives, and of connections within them.
    edge = number // count
    begins = np.ones(len(edge), dtype=np.bool_)
    begins[1:] = (edge[1:] != edge[:-1]) | (collective[1:] != collective[:-1])
    connection = np.cumsum(begins, dtype=np.int32)
    try:
        udp_src[lacking] = assign_ports(pair, choice[lacking], taken, connection[lacking], block[lacking])
    except NoPortLeft as error:
        raise _no_port_left(fabric, job, src, dst, int(lacking[error.flow])) from None
    return udp_src


def _more_than_ports(pair: Int64Array) -> int | None:
    """Return a flow of a pair of hosts with more flows than there are ports, before any port is looked for."""
    _, first, count = np.unique(pair, return_index=True, return_counts=True)
    crowded = np.flatnonzero(count > N_PORTS)
    return int(first[crowded[0]]) if len(crowded) else None


def _no_port_left(fabric: Fabric, job: Job, src: IntArray, dst: IntArray, flow: int) -> InputError:
    ends = f"{fabric.hosts[src[flow]].name} to {fabric.hosts[dst[flow]].name}"
    return InputError(
        f'there are more flows from {ends} than UDP source ports; \'"ports": "unknown"\' avoids this',
        field="flows" if job.flows.src else "collectives",
    )
