"""Circuits of optical switches or patch panels for jobs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from controller.circuits.fabric.optical_fabric import OpticalFabric
from controller.circuits.fabric.optical_file import parse_optical_fabric
from controller.circuits.planning.circuit_plan import CircuitPlan, plan_circuits
from controller.model.job import Job


def optical_fabric(document: Mapping[str, Any]) -> OpticalFabric:
    """Return the optical fabric that a document describes (docs/reference/topology.md).

    Raises:
        InputError: a field is invalid; it names the first one.
    """
    return parse_optical_fabric(dict(document))


def circuits(
    fabric: OpticalFabric,
    jobs: Iterable[Job],
    *,
    policy: str = "search",
    seed: int = 0,
    effort: float = 1.0,
    paths: int = 1,
) -> CircuitPlan:
    """Plan circuits, next hops and ring orders.

    Args:
        fabric: the optical fabric.
        jobs: the jobs; those without placement get free servers.
        policy: ``search``, or ``totient``: TotientPerms with coin change (TopoOpt, NSDI 2023).
        seed: of all that is drawn; equal arguments give an equal plan.
        effort: a factor of the steps of the search.
        paths: the most paths from a server to another one, over which the bytes are divided.

    Raises:
        InputError: no policy has this name, a job does not fit the fabric, or no circuits can serve it.
    """
    rows = [(job.name, job) for job in jobs]
    return plan_circuits(fabric, rows, policy=policy, seed=seed, effort=effort, paths=paths, clock=time.perf_counter)
