"""Which plane each flow takes where NICs have a port in each of several planes, by what is live."""

from __future__ import annotations

import dataclasses

import numpy as np

from controller.model.assignment import UNROUTABLE
from controller.model.fabric import BoolArray, Fabric, IntArray
from controller.model.traffic import Traffic
from controller.routing.kernels import units


def on_live_planes(fabric: Fabric, traffic: Traffic) -> Traffic:
    """Return the traffic with every stripe in its own plane or, if no live path joins the NICs there, in another one.

    The plane of its own is that of its number (``workload.stripes``). The lost stripes of a connection take its live
    planes in turn, each connection from another one on, so that they load all planes alike. A stripe that no plane
    carries stays in its own. Flows that were given between ports (``Collective.between_ports``) stay in theirs.

    Args:
        fabric: the fabric with its present failures.
        traffic: the flows, in whatever planes they are now; only ``src`` and ``dst`` change.
    """
    planes = fabric.planes
    if planes.count == 1 or not traffic.n_flows:
        return traffic
    given = np.array([row.between_ports for row in traffic.collectives], dtype=np.bool_)[traffic.collective]
    own = np.where(given, planes.of_host[traffic.src], traffic.number % planes.count)
    nics = (planes.nic_of_host[traffic.src], planes.nic_of_host[traffic.dst])
    lost = np.flatnonzero(~given & ~_joined(fabric, nics[0], nics[1], own))
    plane = own.copy()
    if len(lost):
        src, dst = (np.repeat(nic[lost], planes.count) for nic in nics)
        every = np.tile(np.arange(planes.count, dtype=np.int32), len(lost))
        live = _joined(fabric, src, dst, every).reshape(-1, planes.count)
        many = live.sum(axis=1)
        connection = traffic.connection[lost]
        turn = connection + _place_among_equals(connection)
        # The live plane with this place among the live ones.
        place = np.cumsum(live, axis=1) - 1
        chosen = (live & (place == (turn % np.maximum(many, 1))[:, None])).argmax(axis=1)
        plane[lost] = np.where(many > 0, chosen, own[lost])
    src, dst = (planes.ports[nic, plane] for nic in nics)
    if np.array_equal(src, traffic.src) and np.array_equal(dst, traffic.dst):
        return traffic
    return dataclasses.replace(traffic, src=src, dst=dst)


def _joined(fabric: Fabric, src: IntArray, dst: IntArray, plane: IntArray) -> BoolArray:
    """Return whether a live path joins two NICs [F] in a plane [F]."""
    ports, host_up = fabric.planes.ports, fabric.link_up[: fabric.n_hosts]
    _, _, fixed = units.classify_on_ways(
        ports[src, plane], ports[dst, plane], fabric.host_leaf, host_up, fabric.live_ways
    )
    joined: BoolArray = fixed != UNROUTABLE
    return joined


def _place_among_equals(number: IntArray) -> IntArray:
    """Return [N] how many earlier entries of an array are equal to each."""
    order = np.argsort(number, kind="stable")
    first = np.searchsorted(number[order], number[order])
    place = np.empty(len(number), dtype=np.int32)
    place[order] = np.arange(len(number)) - first
    return place
