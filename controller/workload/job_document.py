"""Jobs as documents, the output of ``fairspine import`` and ``fairspine job``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from controller.model.choices.packet_order import KEPT
from controller.model.choices.protocol import ROCE
from controller.model.job import CollectiveCall, Job, Matrix
from controller.model.packets.flow_ports import flow_ports
from controller.model.packets.port_numbers import MAX_PORT
from controller.model.queue_pairs import QueuePairs
from controller.model.timing import JobTiming
from controller.model.waits import Waits


def document_of(job: Job) -> dict[str, Any]:
    """Return a job as plain data without default values; ``job_file.parse_job`` gives an equal job back.

    A job that was described by model and parallelism has its collectives in the document.
    """
    document: dict[str, Any] = {"name": job.name, "weight": job.weight, "hosts": list(job.hosts)}
    if job.tenant is not None:
        document["tenant"] = job.tenant
    if not job.ports_known:
        document["ports"] = "unknown"
    if job.protocol != ROCE:
        document["protocol"] = job.protocol
    if job.order != KEPT:
        document["order"] = job.order
    if job.priority:
        document["class"] = job.priority
    if not job.pxn:
        document["pxn"] = False
    if job.qps is not None:
        document |= _qps(job.qps)
    document |= {"collectives": [_call(call, job.priority_by_name) for call in job.collectives], "flows": _flows(job)}
    if job.matrix is not None:
        document["matrix"] = _matrix(job.matrix)
    if job.phases:
        document["phases"] = dict(job.phases)
    # What the model names is described in the document, where it has its class.
    described = {call.name for call in job.collectives}
    classes = {name: priority for name, priority in job.priorities.items() if name not in described}
    document |= {"classes": classes} if classes else {}
    overlap = {name: "compute" for name, waits in job.waits.items() if not waits.computing}
    after = {name: list(waits.after) for name, waits in job.waits.items() if waits.after}
    document |= ({"overlap": overlap} if overlap else {}) | ({"after": after} if after else {})
    if until := {name: waits.until for name, waits in job.waits.items() if waits.until is not None}:
        document["until"] = until
    if job.timing is not None:
        document |= times_of(job.timing)
    return document


def times_of(timing: JobTiming) -> dict[str, Any]:
    """Return the computing times as a job document has them."""
    if timing.period_seconds is not None:
        return {"period_seconds": timing.period_seconds}
    return {"compute_seconds": {str(phase): seconds for phase, seconds in timing.compute}}


def _call(call: CollectiveCall, priorities: Mapping[str, int]) -> dict[str, Any]:
    row = {"name": call.name, "op": call.op, "ranks": list(call.ranks), "bytes": call.bytes, "phase": call.phase}
    if call.algorithm is not None:
        row["algorithm"] = call.algorithm
    if call.channels is not None:
        row["channels"] = call.channels
    if call.qps is not None:
        row |= _qps(call.qps)
    if call.protocol is not None:
        row["protocol"] = call.protocol
    if call.name in priorities:
        row["class"] = priorities[call.name]
    return row | _waits(call.waits)


def _waits(waits: Waits) -> dict[str, Any]:
    """Return what a collective of ``collectives`` waits for as a job document has it."""
    overlap = {} if waits.computing else {"overlap": "compute"}
    until = {} if waits.until is None else {"until": waits.until}
    return overlap | ({"after": list(waits.after)} if waits.after else {}) | until


def _qps(qps: QueuePairs) -> dict[str, Any]:
    return {"qps": qps.count, "qp_mode": qps.mode}


def _flows(job: Job) -> list[dict[str, Any]]:
    flows, ports = job.flows, dict[int, dict[str, Any]]()
    for i in np.flatnonzero(flows.udp_src).tolist():
        code = int(flows.udp_src[i])
        known = {"udp_src": code} if code <= MAX_PORT else flow_ports(code)._asdict()
        ports[i] = {name: value for name, value in known.items() if value is not None}
    ports |= {i: {"qp_ports": list(of_qps)} for i, of_qps in flows.qp_ports.items()}
    protocols = {call.name: job.protocol_of(call) for call in job.collectives}
    others = {name for name in flows.collective if protocols.get(name, job.protocol) != ROCE}
    roce = {"protocol": ROCE}
    return [
        {"src": src, "dst": dst, "bytes": size, "collective": collective}
        | (roce if collective in others and flows.udp_src[i] <= MAX_PORT else {})
        | ports.get(i, {})
        for i, (src, dst, size, collective) in enumerate(
            zip(flows.src, flows.dst, flows.bytes.tolist(), flows.collective, strict=True)
        )
    ]


def _matrix(matrix: Matrix) -> dict[str, Any]:
    return {"hosts": list(matrix.hosts), "bytes": matrix.bytes.tolist(), "collective": matrix.collective}
