"""Jobs as documents, the output of ``fairspine import`` and ``fairspine job``."""

from __future__ import annotations

from typing import Any

from controller.model.job import CollectiveCall, FlowList, Job, Matrix
from controller.model.timing import JobTiming


def document_of(job: Job) -> dict[str, Any]:
    """Return a job as plain data without default values; ``job_file.parse_job`` gives an equal job back.

    A job that was described by model and parallelism has its collectives in the document.
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
    if job.timing is not None:
        document |= times_of(job.timing)
    return document


def times_of(timing: JobTiming) -> dict[str, Any]:
    """Return the computing times as a job document has them."""
    if timing.period_seconds is not None:
        return {"period_seconds": timing.period_seconds}
    return {"compute_seconds": {str(phase): seconds for phase, seconds in timing.compute}}


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
