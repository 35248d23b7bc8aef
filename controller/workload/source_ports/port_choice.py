"""The source ports of a job's flows: those that it had before, or free ones near the preferred ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from controller.model.errors import InputError
from controller.model.fabric import Fabric, IntArray
from controller.model.job import Job
from controller.model.packets.flow_ports import is_roce
from controller.model.queue_pairs import QueuePairs
from controller.model.traffic import ANY_PORT, Int64Array, unit_key
from controller.workload.source_ports.claims import crossed
from controller.workload.source_ports.ports import (
    LAST,
    N_PORTS,
    NoPortLeft,
    all_free,
    assign_ports,
    block_of,
    first_choice,
)


class PortsCollideError(Exception):
    """The flows of several jobs cannot all have their preferred ports, so the jobs choose one after the other."""


def same_ports(
    ports: IntArray, src: IntArray, dst: IntArray, claims: IntArray, taken: Int64Array, *, known: bool
) -> IntArray:
    """Return ports that the flows had before, if they are valid for these flows.

    Args:
        ports: [F] the ports.
        src: [F] addresses of the senders (``Planes.address``).
        dst: [F] addresses of the receivers.
        claims: [F] ports that the job states, ``ANY_PORT`` for none, or codes of other protocols.
        taken: keys (``unit_key``) of the ports of other jobs, ascending.
        known: whether the controller chooses the job's ports.

    Raises:
        InputError: there are more or fewer, or one is no port, is taken, or is not the one that the job states.
    """

    def refuse(bad: NDArray[np.bool_], reason: str) -> None:
        if bad.any():
            flow = int(np.flatnonzero(bad)[0])
            raise InputError(reason, field=f"ports[{flow}]", value=int(ports[flow]))

    if len(ports) != len(src):
        raise InputError(f"the job has {len(src)} flows and {len(ports)} ports", field="ports")
    if known:
        roce = is_roce(claims)
        refuse((ports < 1) | (roce & (ports > LAST)), f"a port must be 1 to {LAST}")
        refuse((claims != ANY_PORT) & (claims != ports), "the flow specifies another port")
        key = unit_key(src, dst, ports)
        refuse(np.isin(key, taken), "another job's flow between the same hosts has this port")
        refuse(crossed(key, taken), "another job's flow between the same hosts states the port of the other end")
        # Flows of other protocols may share a connection, QPs never do.
        repeated = roce.copy()
        repeated[np.unique(key, return_index=True)[1]] = False
        refuse(repeated, "another flow of the job between the same hosts has this port")
    else:
        refuse(ports != claims, "the ports of the job are unknown")
    return ports.astype(np.int32)


def with_ports(
    fabric: Fabric,
    jobs: Sequence[Job],
    labels: Sequence[str],
    qps: Sequence[QueuePairs],
    src: IntArray,
    dst: IntArray,
    collective: IntArray,
    number: IntArray,
    claims: IntArray,
    taken: Int64Array,
) -> IntArray:
    """Return ``claims`` with a port for each flow that has none.

    Args:
        fabric: the fabric.
        jobs: the jobs of these flows.
        labels: [K] ``job/collective`` of each collective of these jobs.
        qps: [K] the QPs of its connections.
        src: [F] addresses of the senders (``Planes.address``).
        dst: [F] addresses of the receivers.
        collective: [F] the collective of each flow, ascending.
        number: [F] the number of each flow in its collective.
        claims: [F] ports that jobs state, ``ANY_PORT`` for none, or codes of other protocols.
        taken: keys (``unit_key``) of the ports of other jobs, ascending.

    Raises:
        InputError: two hosts have more flows than there are ports.
        PortsCollideError: of several jobs, not all flows can have the preferred port.
    """
    lacking = np.flatnonzero(claims == ANY_PORT)
    if len(lacking) < len(claims):
        claimed = np.flatnonzero(claims != ANY_PORT)
        taken = np.sort(np.concatenate([taken, unit_key(src[claimed], dst[claimed], claims[claimed])]))
    pair = unit_key(src[lacking], dst[lacking], np.zeros(len(lacking), dtype=np.int32))
    crowded = _more_than_ports(pair)
    if crowded is not None:
        if len(jobs) > 1:
            raise PortsCollideError
        raise _no_port_left(fabric, jobs[0], src, dst, int(lacking[crowded]))
    count = np.array([each.count for each in qps], dtype=np.int32)
    choice = first_choice(labels, count, collective, number)
    if len(jobs) > 1 and not all_free(pair, choice[lacking], taken):
        raise PortsCollideError
    udp_src = claims.copy()
    if (count == 1).all():
        block, connection = np.ones(len(src), dtype=np.int32), np.arange(1, len(src) + 1, dtype=np.int32)
    else:
        block = np.array([block_of(each.count) for each in qps], dtype=np.int32)[collective]
        # Flows are in order of collectives, and of connections within them.
        edge = number // count[collective]
        begins = np.ones(len(edge), dtype=np.bool_)
        begins[1:] = (edge[1:] != edge[:-1]) | (collective[1:] != collective[:-1])
        connection = np.cumsum(begins, dtype=np.int32)
    try:
        udp_src[lacking] = assign_ports(pair, choice[lacking], taken, connection[lacking], block[lacking])
    except NoPortLeft as error:
        raise _no_port_left(fabric, jobs[0], src, dst, int(lacking[error.flow])) from None
    return udp_src


def _more_than_ports(pair: Int64Array) -> int | None:
    """Return a flow of a pair of hosts with more flows than there are ports, before any port is looked for."""
    if len(pair) <= N_PORTS:
        return None
    _, first, count = np.unique(pair, return_index=True, return_counts=True)
    crowded = np.flatnonzero(count > N_PORTS)
    return int(first[crowded[0]]) if len(crowded) else None


def _no_port_left(fabric: Fabric, job: Job, src: IntArray, dst: IntArray, flow: int) -> InputError:
    ends = f"{fabric.hosts[src[flow]].name} to {fabric.hosts[dst[flow]].name}"
    return InputError(
        f'there are more flows from {ends} than UDP source ports; \'"ports": "unknown"\' avoids this',
        field="flows" if job.flows.src else "collectives",
    )
