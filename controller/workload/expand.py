"""Expansion of a job to its flows on a fabric, and of the flows of all jobs to the ``Traffic`` to plan."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from controller.model.choices.packet_order import KEPT
from controller.model.choices.protocol import ROCE
from controller.model.errors import InputError
from controller.model.fabric import Fabric, IntArray
from controller.model.ip_versions import check_one_version
from controller.model.job import CollectiveCall, Job
from controller.model.packets.flow_ports import ALL_TCP, flow_ports, is_roce, port_code, states_port
from controller.model.queue_pairs import ONE_QP, QueuePairs
from controller.model.tenant import Tenant
from controller.model.traffic import ANY_PORT, Collective, Int64Array, Traffic, unit_key
from controller.model.waits import FOR_COMPUTING
from controller.workload.classes import check_one_class
from controller.workload.collectives import algorithm_of, count_of, is_in_turns, one_channel, rounds_of
from controller.workload.rails import Servers, channel_ends, own_ends
from controller.workload.source_ports.claims import check_claims, crossed
from controller.workload.source_ports.port_choice import PortsCollideError, same_ports, with_ports
from controller.workload.stripes import IN_TURN, host_numbers, on_ports, planes_of_flows, qps_over_planes, rank_hosts
from controller.workload.tenants import check_tenant, shares

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
        udp_src: [F] as in ``Traffic``.
        collectives: the job's collectives, including those without flows on the network.
        own_port: a flow whose source port the controller cannot choose, because the job gives it or declares it
            unknown, or its protocol is not RoCEv2; the first one, but those of TCP without ports come last. ``None``:
            there is none.
        tenant: whose job it is.
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
    tenant: str | None = None

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
        udp_src: only ports given by the job, and protocols other than RoCEv2.
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
        self.fabric = fabric
        self._address = fabric.planes.address
        self.servers = Servers.of(fabric)
        self.jobs = list(jobs)
        self.has_classes = any(_has_classes(job) for job in self.jobs)
        empty = np.zeros(0, dtype=np.int64)
        self.taken = np.sort(np.concatenate([empty, *(_ports_of(self._address, job) for job in self.jobs)]))
        """The keys (``unit_key``) of all source ports that are taken, ascending."""

    def add(self, *jobs: JobTraffic) -> None:
        """Add jobs."""
        self.jobs += jobs
        self.has_classes |= any(_has_classes(job) for job in jobs)
        ports = [_ports_of(self._address, job) for job in jobs]
        # A stable sort merges runs that are sorted already, in linear time.
        self.taken = np.sort(
            np.concatenate([self.taken, np.sort(np.concatenate([self.taken[:0], *ports]))]), kind="stable"
        )

    def expand(self, jobs: Sequence[Job], default_qps: QueuePairs = ONE_QP) -> None:
        """Expand jobs and add each: the same as one after the other, in a third of the time where they are small.

        Raises:
            InputError: as ``expand`` does for one of them; those before it have been added.
        """
        for together in _small_together(jobs, qps_over_planes(self.fabric, default_qps)):
            self._expand(together, default_qps)

    def _expand(self, jobs: Sequence[Job], default_qps: QueuePairs) -> None:
        try:
            self.add(*_expand(self.fabric, jobs, self, default_qps=default_qps))
        except (InputError, PortsCollideError):
            if len(jobs) == 1:
                raise
            # The first of them decides which error is told, and which port the others can have.
            half = len(jobs) // 2
            for part in (jobs[:half], jobs[half:]):
                self._expand(part, default_qps)

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
        InputError: the fabric has no such host, a given or kept port is taken, the hosts of a flow have addresses of
            two versions of IP, or there are too many flows.
    """
    known = others if isinstance(others, ExpandedJobs) else ExpandedJobs(fabric, others)
    return _expand(fabric, [job], known, max_flows=max_flows, ports=ports, default_qps=default_qps)[0]


_TOGETHER = 100_000
"""Most flows of jobs that are expanded together: of larger jobs, the work is in the arrays of each."""


def _small_together(jobs: Sequence[Job], default_qps: QueuePairs) -> Iterator[list[Job]]:
    """Yield the jobs in order, in lists of those that can be expanded together: with few flows and no ports stated."""
    together: list[Job] = []
    many = 0
    for job in jobs:
        own = _count(job, default_qps)
        alone = not job.ports_known or bool(job.flows.src)
        if together and (alone or many + own > _TOGETHER):
            yield together
            together, many = [], 0
        if alone:
            yield [job]
            continue
        together.append(job)
        many += own
    if together:
        yield together


def _expand(
    fabric: Fabric,
    jobs: Sequence[Job],
    known: ExpandedJobs,
    *,
    max_flows: int = MAX_FLOWS,
    ports: IntArray | None = None,
    default_qps: QueuePairs,
) -> list[JobTraffic]:
    """Expand a job, or several without flows that are given one by one, beside those that are known.

    Raises:
        InputError: see ``expand``.
        PortsCollideError: there are several jobs, which have to be expanded one after the other.
    """
    default_qps = qps_over_planes(fabric, default_qps)
    for job in jobs:
        check_count(job, max_flows, default_qps)
        check_tenant(fabric, job)
    names = [list(job.collective_names) for job in jobs]
    qps = [qp for job, own in zip(jobs, names, strict=True) for qp in _qps_of(job, own, default_qps)]
    begins = np.cumsum([0, *map(len, names)])
    servers, taken = known.servers, known.taken
    server = servers.server
    flows = _in_order(_collect(fabric, servers, jobs, names))
    flows, number = _by_qp(jobs[0].flows.qp_ports, flows, _numbers(flows.collective, len(qps)), qps)
    address = fabric.planes.address
    ports_known = jobs[0].ports_known
    if ports_known:
        for job in jobs:
            check_claims(fabric, job, server, taken, known.owner)
    _check_one_port(fabric, [name for own in names for name in own], flows)
    network = (flows.bytes > 0) & (server[flows.src] != server[flows.dst])
    # Where all flows are kept, no copy is needed.
    kept = slice(None) if network.all() else np.flatnonzero(network)
    collective, number = flows.collective[kept], number[kept]
    ends = ((flows.src, flows.src_plane), (flows.dst, flows.dst_plane))
    src, dst = (on_ports(fabric, host[kept], number, plane[kept]) for host, plane in ends)
    udp_src = flows.udp_src[kept]
    own_port = udp_src != ANY_PORT if ports_known else np.ones(len(number), dtype=np.bool_)
    if ports is not None:
        udp_src = same_ports(ports, address[src], address[dst], udp_src, taken, known=ports_known)
    elif ports_known:
        by_address = address[src], address[dst]
        labels = [f"{job.name}/{name}" for job, own in zip(jobs, names, strict=True) for name in own]
        udp_src = with_ports(fabric, jobs, labels, qps, *by_address, collective, number, udp_src, taken)
    between_ports = set(flows.collective[flows.src_plane != IN_TURN].tolist()) if fabric.planes.count > 1 else ()
    size = flows.bytes[kept]
    expanded = []
    cuts = np.searchsorted(collective, begins).tolist()
    for j, (job, first, begin, end) in enumerate(zip(jobs, begins.tolist(), cuts, cuts[1:], strict=False)):
        phase, waits, priorities = job.phase_by_name, job.waits_by_name, job.priority_by_name
        in_turns = {call.name for call in job.collectives if is_in_turns(call)}
        rounds = {call.name: rounds_of(call) for call in job.collectives}
        forwarding = {call.name for call in job.collectives if algorithm_of(call) == "tree"}
        # Where flows or the matrix add to a described collective, it is not known when these are sent.
        given = {*job.flows.collective, *([] if job.matrix is None else [job.matrix.collective])}
        part = slice(begin, end)
        own = np.flatnonzero(own_port[part])
        stated = own[udp_src[part][own] != ALL_TCP]
        own = stated if len(stated) else own
        expanded.append(
            JobTraffic(
                name=job.name,
                weight=job.weight,
                src=src[part],
                dst=dst[part],
                bytes=size[part],
                collective=collective[part] - np.int32(first) if first else collective[part],
                number=number[part],
                udp_src=udp_src[part],
                collectives=tuple(
                    Collective(
                        job.name,
                        name,
                        job.weight,
                        phase.get(name, 0),
                        job.timing,
                        qps[k],
                        k in between_ports,
                        name in in_turns,
                        waits.get(name, FOR_COMPUTING),
                        job.tenant,
                        job.order != KEPT,
                        priorities.get(name, job.priority),
                        () if name in given else rounds.get(name, ()),
                        name in forwarding,
                    )
                    for k, name in enumerate(names[j], start=first)
                ),
                own_port=int(own[0]) if len(own) else None,
                tenant=job.tenant,
            )
        )
    _check_classes(address, expanded, known)
    for each in expanded:
        check_one_version(fabric, each.src, each.dst, each.flow_id)
    return expanded


def _has_classes(job: JobTraffic) -> bool:
    return any(row.priority for row in job.collectives)


def _check_classes(address: IntArray, expanded: Sequence[JobTraffic], known: ExpandedJobs) -> None:
    """Check that flows which packets do not tell apart have one class, if any job states classes."""
    if not known.has_classes and not any(map(_has_classes, expanded)):
        return
    jobs = [*known.jobs, *expanded]
    first = np.cumsum([0, *(job.n_flows for job in jobs)])

    def flow_id(flow: int) -> str:
        at = int(np.searchsorted(first, flow, side="right")) - 1
        return jobs[at].flow_id(flow - int(first[at]))

    check_one_class(
        np.concatenate([unit_key(address[job.src], address[job.dst], job.udp_src) for job in jobs]),
        np.concatenate([np.array([row.priority for row in job.collectives])[job.collective] for job in jobs]),
        flow_id,
    )


def shares_ports(fabric: Fabric, job: JobTraffic, others: Sequence[JobTraffic]) -> bool:
    """Return whether ports that a job states clash with those of other jobs between the same addresses."""
    address = fabric.planes.address
    own, taken = _ports_of(address, job), np.concatenate([_ports_of(address, each) for each in others])
    return bool((np.isin(own, taken) | crossed(own, taken)).any())


def combine(jobs: Sequence[JobTraffic], tenants: Sequence[Tenant] = ()) -> Traffic:
    """Combine the traffic of several jobs, in their order; all of them were expanded on the same hosts.

    Jobs of ``tenants`` get their shares of the weights of these.
    """
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
        collectives=tuple(row for job in jobs_of_tenants(jobs, tenants) for row in job.collectives),
    )


def jobs_of_tenants(jobs: Sequence[JobTraffic], tenants: Sequence[Tenant]) -> Sequence[JobTraffic]:
    """Return the jobs with collectives whose weights are those among all jobs."""
    if not tenants or all(job.tenant is None for job in jobs):
        return jobs
    share = shares(tenants, {job.name: (job.tenant, job.weight) for job in jobs if job.n_flows})
    return [
        job
        if job.tenant is None or job.name not in share
        else dataclasses.replace(
            job,
            collectives=tuple(dataclasses.replace(row, weight=share[job.name]) for row in job.collectives),
        )
        for job in jobs
    ]


def check_count(job: Job, max_flows: int = MAX_FLOWS, default_qps: QueuePairs = ONE_QP) -> None:
    """Reject a job before its flows fill the memory.

    Raises:
        InputError: it has more than ``max_flows`` flows.
    """
    many = _count(job, default_qps)
    if many > max_flows:
        field = "collectives" if job.collectives else "flows" if job.flows.src else "matrix"
        raise InputError(f"the number of its flows is {many}; at most {max_flows} more are allowed", field=field)


def _count(job: Job, default_qps: QueuePairs) -> int:
    """Return the number of flows of a job, of which some may stay off the network."""
    qps = job.qps or default_qps
    given = len(job.flows.src) + (0 if job.matrix is None else int(np.count_nonzero(job.matrix.bytes)))
    # A collective that sends nothing costs as much as one flow.
    return given * qps.count + sum(
        max(1, count_of(call) * _qps_of_call(job, call, qps).count) for call in job.collectives
    )


def _qps_of(job: Job, names: Sequence[str], default: QueuePairs) -> list[QueuePairs]:
    otherwise = job.qps or default
    qps = {call.name: _qps_of_call(job, call, otherwise) for call in job.collectives}
    # What no collective describes, flows do, or the matrix does.
    with_qps = set(itertools.compress(job.flows.collective, is_roce(job.flows.udp_src).tolist()))
    if job.matrix is not None and job.protocol == ROCE:
        with_qps.add(job.matrix.collective)
    return [qps.get(name) or (otherwise if name in with_qps else ONE_QP) for name in names]


def _qps_of_call(job: Job, call: CollectiveCall, otherwise: QueuePairs) -> QueuePairs:
    """Return the QPs of connections of a collective; those of other protocols have none, and count as one."""
    return call.qps or otherwise if job.protocol_of(call) == ROCE else ONE_QP


def _check_one_port(fabric: Fabric, names: Sequence[str], flows: _Flows) -> None:
    """Refuse flows of NICs with several ports whose sockets would be at one port, which is not known.

    Raises:
        InputError: there is such a flow.
    """
    if fabric.planes.count > 1:
        unknown = np.flatnonzero(~is_roce(flows.udp_src) & (flows.src_plane == IN_TURN))
        if len(unknown):
            protocol = flow_ports(int(flows.udp_src[unknown[0]])).protocol
            collective = names[int(flows.collective[unknown[0]])]
            reason = f"NICs have {fabric.planes.count} ports here: {collective} must name the ports that send its flows"
            raise InputError(reason, field="protocol", value=protocol)


def _by_qp(
    qp_ports: Mapping[int, tuple[int, ...]], flows: _Flows, number: IntArray, qps: Sequence[QueuePairs]
) -> tuple[_Flows, IntArray]:
    """Return one flow for each QP of each connection, and its number; a QP that carries nothing has 0 bytes.

    ``flows`` are connections in order of their collectives, and ``number`` [F] is a connection's number there.
    ``qp_ports`` are those of given flows (``FlowList``).
    """
    if all(qp.count == 1 for qp in qps):
        return flows, number
    count = np.array([qp.count for qp in qps], dtype=np.int64)[flows.collective]
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
    for i, ports in qp_ports.items():
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


def _collect(fabric: Fabric, servers: Servers, jobs: Sequence[Job], names: Sequence[list[str]]) -> list[_Flows]:
    """Return the flows of jobs: those of collectives, then given ones, then those of matrices.

    Collectives are numbered over all jobs; ``names`` are those of each job.
    """
    hosts = rank_hosts(fabric, [name for job in jobs for name in job.hosts], "hosts[{}]")
    parts = _of_collectives(servers, jobs, names, hosts)
    first = 0
    for job, own in zip(jobs, names, strict=True):
        index = {name: k for k, name in enumerate(own, start=first)}
        first += len(own)
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
            number = np.full(len(row), index[job.matrix.collective], dtype=np.int32)
            size, code = job.matrix.bytes[row, column], port_code(job.protocol)
            parts.append(_part(members[row], members[column], size, number, np.full_like(number, code)))
    return parts


def _of_collectives(servers: Servers, jobs: Sequence[Job], names: Sequence[list[str]], hosts: IntArray) -> list[_Flows]:
    """Return the flows of the collectives of jobs; ``hosts`` has those of all ranks, job by job."""
    calls = [call for job in jobs for call in job.collectives]
    if not calls:
        return []
    places: list[int] = []
    numbers: list[int] = []
    rank, begin, first = 0, [], 0
    for job, own in zip(jobs, names, strict=True):
        # The names of a job begin with those of its collectives.
        numbers += range(first, first + len(job.collectives))
        for call in job.collectives:
            begin.append(len(places))
            places += [rank + place for place in call.ranks] if rank else call.ranks
        first += len(own)
        rank += len(job.hosts)
    own_hosts = hosts[np.array(places, dtype=np.int64)]
    server = servers.server[own_hosts]
    begin.append(len(places))
    flows = [one_channel(call, server[a:b]) for call, a, b in zip(calls, begin, begin[1:], strict=False)]
    pxn = [job.pxn for job in jobs for _ in job.collectives]
    codes = np.array([port_code(job.protocol_of(call)) for job in jobs for call in job.collectives], dtype=np.int32)
    plain = [k for k, call in enumerate(calls) if call.channels is None]
    parts = []
    if plain:
        many = [len(flows[k].src) for k in plain]
        shift = np.repeat(np.array([begin[k] for k in plain], dtype=np.int64), many)
        ends = own_ends(
            servers,
            own_hosts[np.concatenate([flows[k].src for k in plain]) + shift],
            own_hosts[np.concatenate([flows[k].dst for k in plain]) + shift],
            np.repeat(np.array([pxn[k] for k in plain], dtype=np.bool_), many),
        )
        number = np.repeat(np.array([numbers[k] for k in plain], dtype=np.int32), many)
        size = np.concatenate([flows[k].bytes for k in plain])
        parts.append(_part(ends.src, ends.dst, size, number, np.repeat(codes[plain], many)))
    for k, call in enumerate(calls):
        if call.channels is not None:
            ends = channel_ends(servers, own_hosts[begin[k] : begin[k + 1]], call, flows[k], pxn=pxn[k])
            size = np.tile(flows[k].bytes, call.channels)
            number = np.full(len(size), numbers[k], dtype=np.int32)
            parts.append(_part(ends.src, ends.dst, size, number, np.full_like(number, codes[k])))
    return parts


def _part(src: IntArray, dst: IntArray, size: Int64Array, collective: IntArray, code: IntArray) -> _Flows:
    none = np.zeros(len(src), dtype=np.int32)
    return _Flows(src, dst, size, collective, code, none - 1, none + IN_TURN, none + IN_TURN)


def _in_order(parts: Iterable[_Flows]) -> _Flows:
    """Return all flows by collective; within one, in the given order."""
    own = list(parts)
    if len(own) == 1 and (own[0].collective[1:] >= own[0].collective[:-1]).all():
        return own[0]
    none = np.zeros(0, dtype=np.int32)
    all_parts = [_Flows(none, none, none.astype(np.int64), none, none, none, none, none), *own]
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
    known = np.flatnonzero(states_port(job.udp_src))
    return unit_key(address[job.src[known]], address[job.dst[known]], job.udp_src[known])


def _owner(address: IntArray, others: Sequence[JobTraffic], wanted: int) -> str:
    ids = (
        other.flow_id(int(flow))
        for other in others
        for flow in np.flatnonzero(unit_key(address[other.src], address[other.dst], other.udp_src) == wanted)
    )
    return next(ids)
