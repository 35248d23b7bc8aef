"""Stripes: the planes over which the connections of a job are spread, where NICs have a port in each of several planes.

A job runs on NICs. A connection between two NICs has one QP in each plane, or the QPs a plane that are the default; a
job that says how many QPs a connection has, has so many in total. They take the planes in turn: flow ``number`` of a
collective (``Collective``) is sent from port to port in plane ``number % P``. So a connection proceeds at P times the
rate of its slowest stripe. A flow that is given between two ports stays between them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from controller.model.choices.qp_mode import MOST_QPS
from controller.model.errors import InputError
from controller.model.fabric import Fabric, IntArray
from controller.model.job import FlowList
from controller.model.packets.flow_ports import states_port
from controller.model.queue_pairs import QueuePairs

IN_TURN = -1
"""Plane of a connection whose QPs take the planes in turn."""


def qps_over_planes(fabric: Fabric, default: QueuePairs) -> QueuePairs:
    """Return the QPs of connections of which a job says nothing: the default ones in each plane, as far as allowed."""
    planes = fabric.planes.count
    if planes == 1:
        return default
    return QueuePairs(min(default.count, MOST_QPS // planes) * planes, default.mode)


def host_numbers(fabric: Fabric, names: Sequence[str], field: str) -> IntArray:
    """Return the host [N] of each name, the first port for the name of a NIC.

    Args:
        fabric: the fabric.
        names: [N] of hosts or NICs.
        field: has a place for the number of a name.

    Raises:
        InputError: there is no such host.
    """
    index = fabric.host_index
    numbers = np.array([index.get(name, -1) for name in names], dtype=np.int32)
    missing = np.flatnonzero(numbers < 0)
    if len(missing):
        i = int(missing[0])
        raise InputError("the fabric has no host of this name", field=field.format(i), value=names[i])
    return numbers


def rank_hosts(fabric: Fabric, names: Sequence[str], field: str) -> IntArray:
    """Return the host [N] on which each rank runs, the first port of its NIC; arguments as of ``host_numbers``.

    Raises:
        InputError: there is no such host, or one of the names is that of one of several ports.
    """
    numbers = host_numbers(fabric, names, field)
    for i, name in enumerate(names if fabric.planes.count > 1 else ()):
        host = fabric.hosts[numbers[i]]
        if host.nic is not None and name != host.nic:
            raise InputError(
                f"this is a port of {host.nic}; ranks run on NICs, and use all ports", field=field.format(i), value=name
            )
    return numbers


def planes_of_flows(fabric: Fabric, flows: FlowList) -> tuple[IntArray, IntArray]:
    """Return the planes [F] of the sources and destinations of flows that are given one by one, or ``IN_TURN``.

    A flow that names the port of one end only is in that port's plane at both ends.

    Raises:
        InputError: a flow joins two networks, or its source ports are given, but not its plane.
    """
    planes = fabric.planes
    if planes.count == 1:
        none = np.full(len(flows.src), IN_TURN, dtype=np.int32)
        return none, none
    own = {host.name: plane for host, plane in zip(fabric.hosts, planes.of_host.tolist(), strict=True)}
    src, dst = (np.array([own.get(name, IN_TURN) for name in names], np.int32) for names in (flows.src, flows.dst))
    apart = (src >= 0) & (dst >= 0) & (planes.network_of_plane[src] != planes.network_of_plane[dst])
    for i in np.flatnonzero(apart).tolist():
        raise InputError(
            f"{flows.src[i]} is in plane {src[i] + 1} and {flows.dst[i]} in plane {dst[i] + 1}, which no cable joins",
            field=f"flows[{i}].dst",
            value=flows.dst[i],
        )
    for i in sorted({*np.flatnonzero(states_port(flows.udp_src)).tolist(), *flows.qp_ports}):
        if src[i] == dst[i] == IN_TURN:
            raise InputError(
                f"this NIC has {planes.count} ports, and the flow states source ports: name the port that sends it",
                field=f"flows[{i}].src",
                value=flows.src[i],
            )
    return np.where(src == IN_TURN, dst, src), np.where(dst == IN_TURN, src, dst)


def on_ports(fabric: Fabric, host: IntArray, number: IntArray, plane: IntArray) -> IntArray:
    """Return the port [F] of each host's NIC in the plane of its flow.

    Args:
        fabric: the fabric.
        host: [F] any port of the NIC.
        number: [F] the flow's number within its collective.
        plane: [F] plane of the flow, or ``IN_TURN``.
    """
    planes = fabric.planes
    if planes.count == 1:
        return host
    ports: IntArray = planes.ports[planes.nic_of_host[host], np.where(plane == IN_TURN, number % planes.count, plane)]
    return ports
