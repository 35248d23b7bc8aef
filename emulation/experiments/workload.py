"""Conversion of jobs to the scaled collectives that the endpoints run.

Collectives have data dependencies if the job names an operation that the endpoints support and its flows run between
the ranks' NICs. All others (trees, channels and PXN over other NICs, explicit flows) become an exchange of the planned
flows' bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from controller.model.choices.qp_mode import QpMode
from controller.model.fabric import Fabric
from controller.model.fabric_parts import Host
from controller.model.job import CollectiveCall, Job
from controller.model.queue_pairs import MESSAGE_BYTES
from controller.model.texts.zones import zoned_addresses
from controller.model.traffic import FIRST_PORT, LAST_PORT, Traffic
from controller.model.waits import FOR_COMPUTING, Waits, waits_among
from controller.workload.collectives import algorithm_of
from emulation.experiments.request import EmulatedScenario
from emulation.experiments.scale import MTU
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.run import FlowKey, PieceWay, PortShare
from emulation.roce.sender import SenderOptions

_RUN_AS_THEY_ARE = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
_ALGORITHMS = ("ring", "direct")
_WORD = 4
"""Elements are int32: sums of them are exact."""

_Way = tuple[str, str, int | None]
"""Source, destination (hosts of the fabric) and UDP source port (None: any)."""


class _Sent(NamedTuple):
    """What is sent over one way: bytes, name of the first piece of a flow there, bit/s to keep (None: any), DSCP."""

    bytes: float
    name: str
    pace: float | None
    dscp: int = 0


LEAST_MESSAGE = MTU * SenderOptions().ack_every
"""Bytes of the shortest message that takes turns with others over QPs: each message is acknowledged by itself."""


def collectives(scenario: EmulatedScenario, bytes_scale: float) -> list[CollectiveSpec]:
    """Return the collectives of all jobs; those without traffic on the network are left out."""
    traffic = scenario.traffic
    present = set(traffic.collective.tolist())
    jobs = {job.name: job for job in scenario.jobs}
    waits = {job: _waits(traffic, job, present) for job in jobs}
    return [
        replace(
            _spec(jobs[row.job], row.name, k, scenario, bytes_scale),
            phase=row.phase,
            overlaps=not waits[row.job].get(row.name, FOR_COMPUTING).computing,
            after=waits[row.job].get(row.name, FOR_COMPUTING).after,
            iterations=scenario.iterations[row.job],
        )
        for k, row in enumerate(traffic.collectives)
        if k in present
    ]


def _waits(traffic: Traffic, job: str, present: Collection[int]) -> dict[str, Waits]:
    """Return what the collectives of a job wait for, if those without traffic take no time."""
    rows = [(k, row) for k, row in enumerate(traffic.collectives) if row.job == job]
    return waits_among(
        {row.name: row.waits for _, row in rows if row.waits != FOR_COMPUTING},
        {row.name: row.phase for _, row in rows},
        [row.name for k, row in rows if k in present],
    )


def _spec(job: Job, name: str, collective: int, scenario: EmulatedScenario, scale: float) -> CollectiveSpec:
    calls = [call for call in job.collectives if call.name == name]
    listed = name in job.flows.collective or (job.matrix is not None and job.matrix.collective == name)
    planned = _planned(scenario, collective)
    mode = scenario.traffic.collectives[collective].qps.mode
    if calls and not listed and calls[0].op in _RUN_AS_THEY_ARE and algorithm_of(calls[0]) in _ALGORITHMS:
        operation = _operation(job, calls[0], scale)
        if planned.keys() <= {(operation.ranks[a], operation.ranks[b]) for a, b in operation.flows()}:
            return _over_qps(operation, mode, scale)
    return _over_qps(_exchange(job.name, name, planned, scale), mode, scale)


def _over_qps(spec: CollectiveSpec, mode: QpMode, scale: float) -> CollectiveSpec:
    message = max(LEAST_MESSAGE, round(MESSAGE_BYTES * scale))
    return replace(spec, qp_mode=mode, message_bytes=message)


def _operation(job: Job, call: CollectiveCall, scale: float) -> CollectiveSpec:
    chunk = _WORD * len(call.ranks)  # every rank has an equal part, as the formulas say
    return CollectiveSpec(
        job.name,
        call.name,
        tuple(job.hosts[rank] for rank in call.ranks),
        op=call.op,
        algorithm=algorithm_of(call),
        bytes=max(1, round(call.bytes * scale / chunk)) * chunk,
    )


def _planned(scenario: EmulatedScenario, collective: int) -> dict[tuple[str, str], int]:
    """Bytes of a collective's flows between each two NICs."""
    traffic, hosts = scenario.traffic, scenario.fabric.hosts
    own = (traffic.collective == collective).nonzero()[0]
    total: dict[tuple[str, str], int] = {}
    for src, dst, size in zip(
        traffic.src[own].tolist(), traffic.dst[own].tolist(), traffic.bytes[own].tolist(), strict=True
    ):
        pair = nic_of(hosts[src]), nic_of(hosts[dst])
        total[pair] = total.get(pair, 0) + size
    return total


def _exchange(job: str, name: str, total: Mapping[tuple[str, str], int], scale: float) -> CollectiveSpec:
    ranks = tuple(dict.fromkeys(host for pair in total for host in pair))
    matrix = tuple(tuple(max(1, round(total[a, b] * scale)) if (a, b) in total else 0 for b in ranks) for a in ranks)
    return CollectiveSpec(job, name, ranks, op="exchange", matrix=matrix, dtype="uint8")


def nic_of(host: Host) -> str:
    """Return the name of a host's NIC, which is its own if the NIC has no other port."""
    return host.nic or host.name


def ports_of(fabric: Fabric) -> dict[str, tuple[str, ...]]:
    """Return the names of the ports of each NIC that has several."""
    ports: dict[str, tuple[str, ...]] = {}
    for host in fabric.hosts:
        if host.nic is not None:
            ports[host.nic] = (*ports.get(host.nic, ()), host.name)
    return ports


def addresses(fabric: Fabric) -> dict[str, str]:
    """Return the address of each host with its zone, and that of the first port of each NIC."""
    own = dict(zip(fabric.host_names, zoned_addresses(fabric), strict=True))
    return own | {nic: own[ports[0]] for nic, ports in ports_of(fabric).items()}


def routes(
    fabric: Fabric,
    specs: Sequence[CollectiveSpec],
    routes_of: Mapping[str, Mapping[str, Any]],
    mbps_per_gbps: float | None = None,
) -> dict[FlowKey, tuple[PortShare, ...]]:
    """Return the UDP source ports of all flows, from the answer of ``GET /v1/routes`` for each host.

    Several flows between two NICs in one collective, such as the QPs of a connection or its stripes, are sent as pieces
    of one, in proportion to their bytes. Only the pieces of a flow that the plan splits have their shares of the rate
    of a host. Flows without a port (of a job whose ports are unknown, or within a server) get any free one.

    Args:
        fabric: the fabric.
        specs: the collectives.
        routes_of: the answers, by host.
        mbps_per_gbps: emulated Mbit/s for each Gbit/s of a planned pace; ``None``: paces are not kept.
    """
    several = ports_of(fabric)
    sizes = _sent(fabric, routes_of, mbps_per_gbps)
    split = {
        (host, flow["dst"], piece["udp_src"])
        for host, document in routes_of.items()
        for flow in document["flows"]
        for piece in flow["pieces"]
        if len(flow["pieces"]) > 1
    }
    used: dict[tuple[str, str], set[int]] = {}
    for each in sizes.values():
        for way in each:
            if way[2] is not None:
                used.setdefault(way[:2], set()).add(way[2])
    shares_of: dict[FlowKey, tuple[PortShare, ...]] = {}
    for spec in specs:
        for source, destination in spec.flows():
            pair = spec.ranks[source], spec.ranks[destination]
            ends = [several[nic][0] if nic in several else nic for nic in pair]
            ways = sizes.get((spec.job, spec.name, *pair), {(ends[0], ends[1], None): _Sent(1.0, "", None)})
            total = sum(sent.bytes for sent in ways.values())
            pieces = []
            for (src, dst, port), sent in ways.items():
                taken = used.setdefault((src, dst), set())
                known = port
                if known is None:
                    known = next(p for p in range(FIRST_PORT, LAST_PORT + 1) if p not in taken)
                    taken.add(known)
                own = (src, dst) if several else ("", "")
                share, paced = sent.bytes / total, (src, dst, port) in split
                pieces.append(PortShare(known, share, paced, *own, sent.name, sent.pace, sent.dscp))
            shares_of[spec.job, spec.name, *pair] = tuple(pieces)
    return shares_of


def ways_of_pieces(
    fabric: Fabric, routes_of: Mapping[str, Mapping[str, Any]], mbps_per_gbps: float | None = None
) -> dict[str, PieceWay]:
    """Return what the plan says of each piece, by its name in ``routes``, which it keeps when the plan changes."""
    return {
        sent.name: PieceWay(*way, sent.pace, sent.dscp)
        for ways in _sent(fabric, routes_of, mbps_per_gbps).values()
        for way, sent in ways.items()
    }


@dataclass(frozen=True)
class PacedFlow:
    """A flow, or a piece of one, whose sender kept a pace.

    Attributes:
        pace_gbps: payload on the fabric, as planned.
        mbps: payload in the emulation.
    """

    job: str
    collective: str
    src: str
    dst: str
    udp_src: int
    pace_gbps: float
    mbps: float


def paced_flows(ports: Mapping[FlowKey, Sequence[PortShare]], mbps_per_gbps: float) -> tuple[PacedFlow, ...]:
    """Return the paced flows of an experiment; ``mbps_per_gbps`` is its scale."""
    return tuple(
        PacedFlow(
            job,
            name,
            piece.src or src,
            piece.dst or dst,
            piece.udp_src,
            pace_gbps=piece.pace / 1e6 / mbps_per_gbps,
            mbps=piece.pace / 1e6,
        )
        for (job, name, src, dst), pieces in ports.items()
        for piece in pieces
        if piece.pace is not None
    )


def _sent(
    fabric: Fabric, routes_of: Mapping[str, Mapping[str, Any]], mbps_per_gbps: float | None
) -> dict[FlowKey, dict[_Way, _Sent]]:
    """Return what is sent over each way between two NICs in one collective.

    Flows that no packet shows to be several are one: it has the sum of their paces, or none if one of them has none.
    """
    nics = {host.name: nic_of(host) for host in fabric.hosts}
    every: dict[FlowKey, dict[_Way, _Sent]] = {}
    for host, document in routes_of.items():
        for flow in document["flows"]:
            job, collective, _ = flow["id"].split("/")
            ways = every.setdefault((job, collective, nics[host], nics[flow["dst"]]), {})
            for number, piece in enumerate(flow["pieces"]):
                way = (host, flow["dst"], piece["udp_src"])
                before = ways.get(way, _Sent(0.0, f"{flow['id']}#{number}", 0.0))
                gbps = piece["pace_gbps"]
                kept = mbps_per_gbps is not None and gbps is not None and before.pace is not None
                pace = before.pace + gbps * mbps_per_gbps * 1e6 if kept else None
                dscp = max(before.dscp, flow.get("dscp", 0))
                ways[way] = _Sent(before.bytes + flow["bytes"] * piece["share"], before.name, pace, dscp)
    return every
