"""Conversion of jobs to the scaled collectives that the endpoints run.

Collectives have data dependencies if the job names an operation that the endpoints support and its flows run between
the ranks' NICs. All others (trees, channels and PXN over other NICs, explicit flows) become an exchange of the planned
flows' bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from controller.model.choices.qp_mode import QpMode
from controller.model.fabric import Fabric
from controller.model.fabric_parts import Host
from controller.model.job import CollectiveCall, Job
from controller.model.queue_pairs import MESSAGE_BYTES
from controller.model.traffic import FIRST_PORT, LAST_PORT
from controller.model.zones import zoned_addresses
from controller.workload.collectives import algorithm_of
from emulation.experiments.request import EmulatedScenario
from emulation.experiments.scale import MTU
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.run import FlowKey, PortShare
from emulation.roce.sender import SenderOptions

_RUN_AS_THEY_ARE = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
_ALGORITHMS = ("ring", "direct")
_WORD = 4
"""Elements are int32: sums of them are exact."""

_Way = tuple[str, str, int | None]
"""Source, destination (hosts of the fabric) and UDP source port (None: any)."""

LEAST_MESSAGE = MTU * SenderOptions().ack_every
"""Bytes of the shortest message that takes turns with others over QPs: each message is acknowledged by itself."""


def collectives(scenario: EmulatedScenario, bytes_scale: float) -> list[CollectiveSpec]:
    """Return the collectives of all jobs; those without traffic on the network are left out."""
    traffic = scenario.traffic
    present = set(traffic.collective.tolist())
    jobs = {job.name: job for job in scenario.jobs}
    return [
        replace(
            _spec(jobs[row.job], row.name, k, scenario, bytes_scale),
            phase=row.phase,
            iterations=scenario.iterations[row.job],
        )
        for k, row in enumerate(traffic.collectives)
        if k in present
    ]


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
    fabric: Fabric, specs: Sequence[CollectiveSpec], routes_of: Mapping[str, Mapping[str, Any]]
) -> dict[FlowKey, tuple[PortShare, ...]]:
    """Return the UDP source ports of all flows, from the answer of ``GET /v1/routes`` for each host.

    Several flows between two NICs in one collective, such as the QPs of a connection or its stripes, are sent as pieces
    of one, in proportion to their bytes. Only the pieces of a flow that the plan splits are paced. Flows without a port
    (of a job whose ports are unknown, or within a server) get any free one.
    """
    nics = {host.name: nic_of(host) for host in fabric.hosts}
    several = ports_of(fabric)
    sizes: dict[FlowKey, dict[_Way, tuple[float, str]]] = {}
    paced: set[_Way] = set()
    used: dict[tuple[str, str], set[int]] = {}
    for host, document in routes_of.items():
        for flow in document["flows"]:
            job, collective, _ = flow["id"].split("/")
            ways = sizes.setdefault((job, collective, nics[host], nics[flow["dst"]]), {})
            for number, piece in enumerate(flow["pieces"]):
                way = (host, flow["dst"], piece["udp_src"])
                size, name = ways.get(way, (0.0, piece_name(flow["id"], number)))
                ways[way] = (size + flow["bytes"] * piece["share"], name)
                if len(flow["pieces"]) > 1:
                    paced.add(way)
                if way[2] is not None:
                    used.setdefault(way[:2], set()).add(way[2])
    shares_of: dict[FlowKey, tuple[PortShare, ...]] = {}
    for spec in specs:
        for source, destination in spec.flows():
            pair = spec.ranks[source], spec.ranks[destination]
            ends = [several[nic][0] if nic in several else nic for nic in pair]
            ways = sizes.get((spec.job, spec.name, *pair), {(ends[0], ends[1], None): (1.0, "")})
            total = sum(size for size, _ in ways.values())
            pieces = []
            for (src, dst, port), (size, name) in ways.items():
                taken = used.setdefault((src, dst), set())
                known = port
                if known is None:
                    known = next(p for p in range(FIRST_PORT, LAST_PORT + 1) if p not in taken)
                    taken.add(known)
                own = (src, dst, name) if several else ("", "", "")
                pieces.append(PortShare(known, size / total, (src, dst, port) in paced, *own))
            shares_of[spec.job, spec.name, *pair] = tuple(pieces)
    return shares_of


def piece_name(flow: str, number: int) -> str:
    """Return the name of a piece of a flow, which it keeps when the plan changes."""
    return f"{flow}#{number}"


def ways_of_pieces(routes_of: Mapping[str, Mapping[str, Any]]) -> dict[str, _Way]:
    """Return what the plan says of each piece, by its name."""
    return {
        piece_name(flow["id"], number): (host, flow["dst"], piece["udp_src"])
        for host, document in routes_of.items()
        for flow in document["flows"]
        for number, piece in enumerate(flow["pieces"])
    }
