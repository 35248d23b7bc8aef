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
from controller.model.fabric import Fabric
from controller.views.times import when


def host_finder(fabric: Fabric | None) -> Callable[[int], str | None]:
    """Return a function from an address, as a number of ``address_finder``, to the name of the host that has it."""
    known = {} if fabric is None else dict(zip(_numbers(fabric), fabric.host_names, strict=True))
    return known.get


def address_finder(fabric: Fabric) -> Callable[[str], int | None]:
    """Return a function from a host's name or IPv4 address to the address as an integer.

    A port of a bond is known by its name alone. Its number is above those of all addresses: a packet tells no more than
    the address, which is not enough to know the port.
    """
    known = dict(zip(fabric.host_names, _numbers(fabric), strict=True))
    by_address = {host.ip: known[host.name] for host in fabric.hosts if known[host.name] < _ADDRESSES}
    return lambda text: known.get(text, by_address.get(text))


_ADDRESSES = 1 << 32


def _numbers(fabric: Fabric) -> list[int]:
    address = fabric.planes.address
    shared = (np.bincount(address, minlength=fabric.n_hosts)[address] > 1).tolist()
    plane = fabric.planes.of_host.tolist()
    return [
        int(IPv4Address(host.ip)) + (_ADDRESSES * (1 + plane[i]) if shared[i] else 0)
        for i, host in enumerate(fabric.hosts)
    ]


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
