"""Source ports that a job states for its flows, which no other flow between the same addresses may have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from controller.model.errors import InputError
from controller.model.fabric import Fabric, IntArray
from controller.model.job import Job
from controller.model.traffic import Int64Array, unit_key


def check_claims(fabric: Fabric, job: Job, server: IntArray, taken: Int64Array, owner: Callable[[int], str]) -> None:
    """Check the source ports that a job states.

    Flows between two bonds have unlike ones, by whatever ports they go: packets tell no more apart.

    Args:
        fabric: the fabric.
        job: the job.
        server: [H] server of each host.
        taken: ``unit_key`` of addresses and source port of each flow of other jobs.
        owner: returns the id of the flow that has such a key.

    Raises:
        InputError: another job's flow between the same addresses has one of these ports, or another flow of the job
            that goes by other ports of the same bonds.
    """
    flow, port, field = job.flows.claims()
    address, bonds = fabric.planes.address, fabric.planes.bonds
    if not len(flow) or not (len(taken) or bonds):
        return
    src, dst = (
        np.array([fabric.host_index[names[i]] for i in flow.tolist()], dtype=np.int32)
        for names in (job.flows.src, job.flows.dst)
    )
    key = unit_key(address[src], address[dst], port)
    carries = (job.flows.bytes[flow] > 0) & (server[src] != server[dst])
    known: dict[int, int] = {}
    for i in np.flatnonzero(carries).tolist() if bonds else ():
        before = known.setdefault(int(key[i]), i)
        if (src[before], dst[before]) != (src[i], dst[i]):
            raise InputError(
                f"{field[before]} is the same port, between the same addresses", field=field[i], value=int(port[i])
            )
    clash = np.flatnonzero(np.isin(key, taken) & carries)
    if len(clash):
        first = int(clash[0])
        ends = f"from {job.flows.src[flow[first]]} to {job.flows.dst[flow[first]]}"
        raise InputError(
            f"{owner(int(key[first]))} {ends} already has this port", field=field[first], value=int(port[first])
        )
