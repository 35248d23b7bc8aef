"""A job written out as a document again: what ``fairspine import`` and ``fairspine job`` print."""

from __future__ import annotations

from typing import Any

from controller.model.job import CollectiveCall, FlowList, Job, Matrix


def document_of(job: Job) -> dict[str, Any]:
    """A job as plain data, without what is said by saying nothing; ``job_file.parse_job`` gives an equal job back.

    A job that was described by model and parallelism has its collectives here.
    """
    document: dict[str, Any] = {"name": job.name, "weight": job.weight, "hosts": list(job.hosts)}
    if not job.ports_known:
        document["ports"] = "unknown"
    if not job.pxn:
        document["pxn"] = False
    document |= {"collectives": [_call(call) for call in job.collectives], "flows": _flows(job.flows)}
    if job.matrix is not None:
        document["matrix"] = _matrix(job.matrix)
    if job.phases:
        document["phases"] = dict(job.phases)
    return document


def _call(call: CollectiveCall) -> dict[str, Any]:
    row = {"name": call.name, "op": call.op, "ranks": list(call.ranks), "bytes": call.bytes, "phase": call.phase}
    if call.algorithm is not None:
        row["algorithm"] = call.algorithm
    if call.channels is not None:
        row["channels"] = call.channels
    return row


def _flows(flows: FlowList) -> list[dict[str, Any]]:
    return [
        {"src": src, "dst": dst, "bytes": size, "collective": collective} | ({"udp_src": port} if port else {})
        for src, dst, size, collective, port in zip(
            flows.src, flows.dst, flows.bytes.tolist(), flows.collective, flows.udp_src.tolist(), strict=True
        )
    ]


def _matrix(matrix: Matrix) -> dict[str, Any]:
    return {"hosts": list(matrix.hosts), "bytes": matrix.bytes.tolist(), "collective": matrix.collective}
