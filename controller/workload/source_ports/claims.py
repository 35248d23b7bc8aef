"""Source ports that a job states for its flows, which no other flow between the same addresses may have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from controller.model.errors import InputError
from controller.model.fabric import BoolArray, Fabric, IntArray
from controller.model.job import Job
from controller.model.packets.flow_ports import KIND_SHIFT, PORT_MASK, PortKind
from controller.model.traffic import Int64Array, key_parts, unit_key


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
        InputError: another job's flow between the same addresses has one of these ports, or states the other end's; or
            another flow of the job that goes by other ports of the same bonds has one of them.
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
                f"{field[before]} is the same port, between the same addresses",
                field=field[i],
                value=int(port[i]) & PORT_MASK,
            )
    crossing = np.flatnonzero(crossed(key, taken) & carries)
    if len(crossing):
        first = int(crossing[0])
        ends = f"from {job.flows.src[flow[first]]} to {job.flows.dst[flow[first]]}"
        reason = (
            f"{owner(int(of_other_end(key[first], taken)))} {ends} states the port of the other end: packets could "
        )
        raise InputError(reason + "be of both", field=field[first], value=int(port[first]) & PORT_MASK)
    clash = np.flatnonzero(np.isin(key, taken) & carries)
    if len(clash):
        first = int(clash[0])
        ends = f"from {job.flows.src[flow[first]]} to {job.flows.dst[flow[first]]}"
        raise InputError(
            f"{owner(int(key[first]))} {ends} already has this port",
            field=field[first],
            value=int(port[first]) & PORT_MASK,
        )


def crossed(key: Int64Array, taken: Int64Array) -> BoolArray:
    """Return which flows [N] of TCP state the port of one end, while a flow of ``taken`` states that of the other end.

    Then a packet may have both ports, and no order of rules is right for both flows.

    Args:
        key: [N] ``unit_key`` of flows whose ports are known.
        taken: ``unit_key`` of other flows.
    """
    pair, swapped = _ends(key)
    of_both: BoolArray = np.isin(swapped, _ends(taken)[0]) & (pair != swapped)
    return of_both


def of_other_end(key: int, taken: Int64Array) -> int:
    """Return the first of the keys ``taken`` for which ``crossed`` is true."""
    _, swapped = _ends(np.array([key], dtype=np.int64))
    return int(taken[np.flatnonzero(_ends(taken)[0] == swapped[0])[0]])


def _ends(key: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return keys without ports, and the same with the other end of TCP connections as the one that listens."""
    src, dst, code = key_parts(key)
    kind = code >> KIND_SHIFT
    other = np.where(
        kind == PortKind.TCP_TO, PortKind.TCP_FROM, np.where(kind == PortKind.TCP_FROM, PortKind.TCP_TO, kind)
    )
    return unit_key(src, dst, kind << KIND_SHIFT), unit_key(src, dst, other << KIND_SHIFT)
