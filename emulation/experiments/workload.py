"""Conversion of jobs to the scaled collectives that the endpoints run.

Collectives have data dependencies if the job names an operation that the endpoints support and its flows run between
the ranks' NICs. All others (trees, channels and PXN over other NICs, explicit flows) become an exchange of the planned
flows' bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from controller.model.job import CollectiveCall, Job
from controller.model.qp_mode import QpMode
from controller.model.queue_pairs import MESSAGE_BYTES
from controller.model.traffic import FIRST_PORT, LAST_PORT
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
    """Bytes of a collective's flows between each two hosts."""
    traffic, hosts = scenario.traffic, scenario.fabric.hosts
    own = (traffic.collective == collective).nonzero()[0]
    total: dict[tuple[str, str], int] = {}
    for src, dst, size in zip(
        traffic.src[own].tolist(), traffic.dst[own].tolist(), traffic.bytes[own].tolist(), strict=True
    ):
        pair = hosts[src].name, hosts[dst].name
        total[pair] = total.get(pair, 0) + size
    return total


def _exchange(job: str, name: str, total: Mapping[tuple[str, str], int], scale: float) -> CollectiveSpec:
    ranks = tuple(dict.fromkeys(host for pair in total for host in pair))
    matrix = tuple(tuple(max(1, round(total[a, b] * scale)) if (a, b) in total else 0 for b in ranks) for a in ranks)
    return CollectiveSpec(job, name, ranks, op="exchange", matrix=matrix, dtype="uint8")


def routes(
    specs: Sequence[CollectiveSpec], told: Mapping[str, Mapping[str, Any]]
) -> dict[FlowKey, tuple[PortShare, ...]]:
    """Return the UDP source ports of all flows, from the answer of ``GET /v1/routes`` for each host.

    Several flows between two hosts in one collective, such as the QPs of a connection, are sent as pieces of one, in
    proportion to their bytes. Only the pieces of a flow that the plan splits are paced. Flows without a port (of a job
    whose ports are unknown, or within a server) get any free one.
    """
    sizes: dict[FlowKey, dict[int | None, float]] = {}
    paced: set[tuple[str, str, int | None]] = set()
    used: dict[tuple[str, str], set[int]] = {}
    for host, document in told.items():
        for flow in document["flows"]:
            job, collective, _ = flow["id"].split("/")
            ports = sizes.setdefault((job, collective, host, flow["dst"]), {})
            for piece in flow["pieces"]:
                port = piece["udp_src"]
                ports[port] = ports.get(port, 0.0) + flow["bytes"] * piece["share"]
                if len(flow["pieces"]) > 1:
                    paced.add((host, flow["dst"], port))
                if port is not None:
                    used.setdefault((host, flow["dst"]), set()).add(port)
    found: dict[FlowKey, tuple[PortShare, ...]] = {}
    for spec in specs:
        for source, destination in spec.flows():
            pair = spec.ranks[source], spec.ranks[destination]
            ports = sizes.get((spec.job, spec.name, *pair), {None: 1.0})
            total = sum(ports.values())
            taken = used.setdefault(pair, set())
            pieces = []
            for port, size in ports.items():
                if port is None:
                    port = next(p for p in range(FIRST_PORT, LAST_PORT + 1) if p not in taken)
                    taken.add(port)
                pieces.append(PortShare(port, size / total, (*pair, port) in paced))
            found[spec.job, spec.name, *pair] = tuple(pieces)
    return found
