"""Documents of learned jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ipaddress import IPv4Address
from typing import Any

import numpy as np
import orjson

from controller.core.learned_trial import PlanningValues
from controller.learning.learned_job import LearnedJob
from controller.learning.life import expires
from controller.model.fabric import Fabric, Host
from controller.views.times import when


def host_finder(fabric: Fabric | None) -> Callable[[int], str | None]:
    """Return a function from an IPv4 address to the name of the host that has it; that of a bond names no host."""
    known = {} if fabric is None else {int(IPv4Address(host.ip)): host.name for host in _apart(fabric)}
    return known.get


def address_finder(fabric: Fabric) -> Callable[[str], int | None]:
    """Return a function from a host's name or IPv4 address to the address as an integer; not for ports of a bond."""
    hosts = _apart(fabric)
    known = {host.name: int(IPv4Address(host.ip)) for host in hosts}
    by_address = {host.ip: known[host.name] for host in hosts}
    return lambda text: known.get(text, by_address.get(text))


def _apart(fabric: Fabric) -> list[Host]:
    """Return the hosts whose addresses tell them apart from all others: sightings know no port of a bond."""
    ports = np.bincount(fabric.planes.address, minlength=fabric.n_hosts)[fabric.planes.address].tolist()
    return [host for host, many in zip(fabric.hosts, ports, strict=True) if host.ip and many == 1]


def summary(job: LearnedJob, values: PlanningValues) -> dict[str, Any]:
    """Return what lists tell of a learned job."""
    speeds = values.speeds.get(job.name)
    return {
        "name": job.name,
        "hosts": len({address for key in job.qps for address in (key.src, key.dst)}),
        "flows": sum(len(group.qps) for group in job.groups),
        "bytes": sum(sum(group.bytes) for group in job.groups),
        "period_seconds": job.period_seconds or None,
        "iterations": job.iterations,
        "confidence": round(job.confidence, 3),
        "planned": job.name in values.planned,
        "hashed_speed": None if speeds is None else speeds.hashed_speed,
        "planned_speed": None if speeds is None else speeds.planned_speed,
        "seen": when(job.seen),
        "expires": when(expires(job)),
        "groups": [
            {
                "shape": group.shape,
                "phase": group.phase,
                "flows": len(group.qps),
                "hosts": len({address for key in group.qps for address in (key.src, key.dst)}),
                "bytes": group.bytes[0],
            }
            for group in job.groups
        ],
    }


def learned_list(
    learning: str, qps: int, ignored: int, jobs: Iterable[LearnedJob], values: PlanningValues
) -> bytes:  # fmt: skip
    """Return the list of learned jobs."""
    rows = [summary(job, values) for job in jobs]
    return orjson.dumps({"learning": learning, "qps": qps, "ignored": ignored, "jobs": rows})


def learned_document(job: LearnedJob, fabric: Fabric | None, values: PlanningValues) -> bytes:
    """Return a learned job with the document that would be pushed for it."""
    return orjson.dumps({"summary": summary(job, values), "job": job.document(host_finder(fabric))})
