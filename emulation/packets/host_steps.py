"""The schedule of a job as its hosts go through it on packets: each transfer for itself, and the time of its packets.

In the fluid model a transfer has ended when its last bit is sent. On packets the receiver has it when the last packet
has come over all links; and a paced sender lets that one go by the time of a packet before its pace says, since the
first one did not wait.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from controller.model.assignment import LOCAL, UNROUTABLE, Assignment
from controller.model.fabric import BoolArray, Fabric, FloatArray, IntArray
from controller.model.paces import HEADERS
from controller.model.traffic import Int64Array, Traffic
from controller.model.units import GBIT
from emulation.fluid.schedule import JobSchedule, SimulatedJob
from emulation.packets.settings import ACK_BYTES, PacketSettings


def goes_on_when_posted(traffic: Traffic, schedule: JobSchedule) -> BoolArray:
    """Return [N] which waits are for what a host sends the same host before: it posts both, and hears of nothing.

    A connection keeps the order of its transfers, so the second one begins when the first one is sent, not when it has
    arrived. Groups of several hosts wait, since they need what they receive, and those that compute first.
    """
    first = np.searchsorted(schedule.group, np.arange(schedule.n_groups + 1))
    pair = (
        traffic.src[schedule.flow].astype(np.int64) * (int(traffic.dst.max(initial=0)) + 1) + traffic.dst[schedule.flow]
    )
    has = np.diff(first) > 0
    least, most, total = np.full(schedule.n_groups, -1), np.full(schedule.n_groups, -1), np.zeros(schedule.n_groups)
    if has.any():
        begins = first[:-1][has]
        least[has], most[has] = np.minimum.reduceat(pair, begins), np.maximum.reduceat(pair, begins)
        total[has] = np.add.reduceat(schedule.flow.astype(np.float64), begins)
    number = np.where((least == most) & (schedule.repeat == 1), least, -1)
    before, after = schedule.before, schedule.after
    same = (number[before] >= 0) & (number[before] == number[after]) & (total[before] == total[after])
    posted: BoolArray = same & (schedule.delay[after] == 0)
    return posted


def as_hosts_go_on(
    fabric: Fabric, job: SimulatedJob, settings: PacketSettings, rows: Assignment, limit: FloatArray
) -> SimulatedJob:
    """Return the job with a schedule that takes the fluid model as long as packets take, if links are shared alike.

    Args:
        fabric: the fabric.
        job: as described, with bytes of payload.
        settings: of the packet engine.
        rows: paths of the flows of this job.
        limit: [R] Gbit/s that hosts keep for each row; infinite: as fast as the host.
    """
    traffic, own = job.traffic, job.schedule
    sizes = _Sizes.of(fabric, job, settings, rows, limit)
    made = _Build()
    first = np.searchsorted(own.group, np.arange(own.n_groups + 1))
    begins, sent, ends = [], [], []
    for g in range(own.n_groups):
        part = slice(first[g], first[g + 1])
        gate = made.groups(int(own.collective[g]), np.array([own.delay[g]]), int(own.lanes[g]))
        begins.append(int(gate[0]))
        n, runs = int(first[g + 1] - first[g]), int(own.repeat[g])
        if not n:
            sent.append(gate)
            ends.append(gate)
            continue
        flow = own.flow[part]
        k = int(own.collective[g])
        begun = gate[np.zeros(n, dtype=np.int64)]
        received = _Receipt(traffic.src[flow], traffic.dst[flow]) if runs > 1 else None
        for run in range(runs):
            body = made.groups(k, np.zeros(n))
            tail = made.groups(k, np.zeros(n))
            arrived = made.groups(k, sizes.under_way[part])
            made.wait(begun, body)
            made.wait(body, tail)
            made.wait(body, arrived)
            made.send(body, flow, sizes.body[part])
            made.send(tail, flow, sizes.tail[part])
            if run + 1 == runs:
                break
            assert received is not None
            made.wait(tail, begun := made.groups(k, np.zeros(n)))
            received.wait(made, k, arrived, begun)
        sent.append(tail)
        ends.append(arrived)
    posted = goes_on_when_posted(traffic, own)
    for before, after, early in zip(own.before.tolist(), own.after.tolist(), posted.tolist(), strict=True):
        ended = sent[before] if early else ends[before]
        made.wait(ended, np.full(len(ended), begins[after]))
    return dataclasses.replace(job, schedule=made.schedule())


def taken_by_acknowledgements(
    fabric: Fabric, jobs: Sequence[SimulatedJob], settings: PacketSettings, rows: Sequence[Assignment]
) -> FloatArray:
    """Return the part [E] of each link that acknowledgements take from the data on it.

    They go back over the cables of their data. A link that carries ``d`` bytes of data and ``a`` of them is busy for
    both, so its data have ``d / (d + a)`` of it; but never do they take more than those of a full link the other way.

    Args:
        fabric: the fabric.
        jobs: with bytes of payload.
        settings: of the packet engine.
        rows: paths of the flows of each job.
    """
    data, acknowledged = np.zeros(fabric.n_links), np.zeros(fabric.n_links)
    for job, plan in zip(jobs, rows, strict=True):
        schedule, traffic = job.schedule, job.traffic
        packets, wire = packets_and_bytes(schedule.bytes, settings)
        times = schedule.repeat[schedule.group] * job.epochs
        per_flow = np.bincount(schedule.flow, wire * times, traffic.n_flows)
        answers = np.ceil(packets / settings.ack_every) * ACK_BYTES * times
        per_answer = np.bincount(schedule.flow, answers, traffic.n_flows)
        src, dst = traffic.src[plan.flow], traffic.dst[plan.flow]
        between = fabric.ways.links(fabric.host_leaf[src], fabric.host_leaf[dst], plan.path)
        links = np.column_stack([src, between, fabric.n_hosts + dst])
        used = (links >= 0) & (plan.path != UNROUTABLE)[:, None]
        for per, total in ((per_flow, data), (per_answer, acknowledged)):
            amount = np.broadcast_to((per[plan.flow] * plan.share)[:, None], links.shape)
            total += np.bincount(links[used], amount[used], fabric.n_links)
    other = _other_way(fabric)
    back, theirs = acknowledged[other], data[other]
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(back > 0, np.minimum(back / (data + back), back / theirs), 0.0)
    taken: FloatArray = part
    return taken


def _other_way(fabric: Fabric) -> Int64Array:
    """Return the link [E] of the same cable in the other direction."""
    links, first = np.arange(fabric.n_links), fabric.first_cable_link
    hosts = (links + fabric.n_hosts) % first
    return np.where(links < first, hosts, first + ((links - first) ^ 1))


def packets_and_bytes(size: FloatArray, settings: PacketSettings) -> tuple[FloatArray, FloatArray]:
    """Return the packets of messages of so many bytes of payload, and the bytes of a link's time that they take."""
    payload = np.maximum(1, np.round(size))
    packets = np.ceil(payload / settings.packets.mtu)
    return packets, payload + packets * (HEADERS + settings.packets.growth)


@dataclasses.dataclass(frozen=True, eq=False)
class _Sizes:
    """What T transfers take, in one run.

    Attributes:
        body: [T] bytes of a link's time before the last packet of the transfer is sent.
        tail: [T] bytes in which the pace of the last packet passes.
        under_way: [T] seconds from the begin of the last packet until the receiver has it.
    """

    body: FloatArray
    tail: FloatArray
    under_way: FloatArray

    @staticmethod
    def of(fabric: Fabric, job: SimulatedJob, settings: PacketSettings, rows: Assignment, limit: FloatArray) -> _Sizes:
        schedule = job.schedule
        links, gbps, largest = _of_flows(fabric, job, rows, limit)
        packets, wire = packets_and_bytes(schedule.bytes, settings)
        last = wire - (packets - 1) * settings.packet_bytes
        flow = schedule.flow
        usual = float(np.median(fabric.link_gbps)) / GBIT
        full = np.where(packets > 1, settings.packet_bytes, last)
        # It waits behind the packet before, which has left earlier by the time of a packet at the pace.
        behind = links[flow] * full / usual + last / usual - full * GBIT / gbps[flow]
        alone = links[flow] * last / usual
        under_way = np.maximum(alone, behind) + links[flow] * settings.cable_seconds
        # Of a flow on several connections the one with the largest part is the last one.
        tail = np.minimum(last / largest[flow], wire)
        return _Sizes(wire - tail, tail, under_way)


def _of_flows(
    fabric: Fabric, job: SimulatedJob, rows: Assignment, limit: FloatArray
) -> tuple[Int64Array, FloatArray, FloatArray]:
    """Return of each flow the links of its longest path, the Gbit/s of its largest row, and that one's share [F]."""
    traffic = job.traffic
    links = np.full(traffic.n_flows, 2)
    paths = fabric.ways.links(
        fabric.host_leaf[traffic.src[rows.flow]], fabric.host_leaf[traffic.dst[rows.flow]], rows.path
    )
    np.maximum.at(links, rows.flow, np.where(rows.path == LOCAL, 2, 2 + (paths >= 0).sum(axis=1)))
    ends = np.minimum(fabric.link_gbps[traffic.src], fabric.link_gbps[fabric.n_hosts + traffic.dst])
    gbps, largest = np.zeros(traffic.n_flows), np.zeros(traffic.n_flows)
    np.maximum.at(gbps, rows.flow, limit)
    np.maximum.at(largest, rows.flow, rows.share)
    largest = np.where(largest > 0, largest, 1.0)
    return links, np.where(gbps > 0, np.minimum(gbps, ends), ends), largest


class _Receipt:
    """Which transfers of a run a host waits for before it begins those of the next one."""

    def __init__(self, src: IntArray, dst: IntArray) -> None:
        """Remember the hosts of the transfers [T]. A host that receives nothing waits for its own."""
        hosts, at = np.unique(np.concatenate([src, dst]), return_inverse=True)
        self._sender, self._receiver = at[: len(src)], at[len(src) :]
        self._receives = np.bincount(self._receiver, minlength=len(hosts))

    def wait(self, made: _Build, k: int, arrived: Int64Array, begun: Int64Array) -> None:
        """Let the transfers that begin wait for those that have arrived."""
        gates = made.groups(k, np.zeros(len(self._receives)))
        made.wait(arrived, gates[self._receiver])
        alone = self._receives[self._sender] == 0
        made.wait(arrived[alone], gates[self._sender[alone]])
        made.wait(gates[self._sender], begun)


class _Build:
    """Groups, waits and transfers, as they are added."""

    def __init__(self) -> None:
        self._n = 0
        self._groups: list[tuple[IntArray, FloatArray, IntArray]] = []
        self._waits: list[tuple[Int64Array, Int64Array]] = []
        self._transfers: list[tuple[Int64Array, IntArray, FloatArray]] = []

    def groups(self, collective: int, delay: FloatArray, lane: int = -1) -> Int64Array:
        """Add groups that send nothing so far, with these seconds of delay; return their numbers."""
        n = len(delay)
        self._groups.append((np.full(n, collective, dtype=np.int32), delay, np.full(n, lane, dtype=np.int32)))
        self._n += n
        return np.arange(self._n - n, self._n)

    def wait(self, before: Int64Array, after: Int64Array) -> None:
        """Let each group of ``after`` wait for the one at its place in ``before``."""
        self._waits.append((before, after))

    def send(self, group: Int64Array, flow: IntArray, size: FloatArray) -> None:
        """Let groups send; what has no bytes takes no time."""
        sends = size > 0
        self._transfers.append((group[sends], flow[sends], size[sends]))

    def schedule(self) -> JobSchedule:
        """Return all that was added."""
        collective, delay, lane = (np.concatenate(column) for column in zip(*self._groups, strict=True))
        before, after = (np.concatenate(column).astype(np.int32) for column in zip(*self._waits, strict=True))
        group, flow, size = (np.concatenate(column) for column in zip(*self._transfers, strict=True))
        order = np.argsort(group, kind="stable")
        return JobSchedule(
            collective=collective,
            repeat=np.ones(self._n, dtype=np.int64),
            delay=delay,
            before=before,
            after=after,
            group=group[order].astype(np.int32),
            flow=flow[order],
            bytes=size[order],
            lane=lane,
        )
