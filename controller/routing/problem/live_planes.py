"""Which ports each flow takes where NICs have several, by what is live."""

from __future__ import annotations

import dataclasses

import numpy as np

from controller.model.assignment import UNROUTABLE
from controller.model.fabric import BoolArray, Fabric, IntArray
from controller.model.paths.grouping import place_among_equals
from controller.model.traffic import Traffic
from controller.routing.kernels import units


def on_live_planes(fabric: Fabric, traffic: Traffic) -> Traffic:
    """Return the traffic with every stripe in its own plane or, if no live path joins the NICs there, between others.

    The plane of its own is that of its number (``workload.stripes``). A lost stripe keeps one of its two ports if a
    live path joins that with another port of the other NIC (dual-ToR). The lost stripes of a connection take its live
    planes, or pairs of ports, in turn, each connection from another one on, so that they load all alike. A stripe that
    nothing carries stays in its own plane. Flows that were given between ports (``Collective.between_ports``) stay.

    Args:
        fabric: the fabric with its present failures.
        traffic: the flows, in whatever planes they are now; only ``src`` and ``dst`` change.
    """
    planes = fabric.planes
    if planes.count == 1 or not traffic.n_flows:
        return traffic
    given = np.array([row.between_ports for row in traffic.collectives], dtype=np.bool_)[traffic.collective]
    own = traffic.number % planes.count
    src, dst = (planes.ports[planes.nic_of_host[end], own] for end in (traffic.src, traffic.dst))
    src, dst = np.where(given, traffic.src, src), np.where(given, traffic.dst, dst)
    lost = np.flatnonzero(~given & ~_joined(fabric, src, dst))
    if len(lost):
        # The pairs of planes between which there may be a path.
        first, second = np.nonzero(planes.network_of_plane[:, None] == planes.network_of_plane)
        ends = [planes.ports[planes.nic_of_host[end[lost]]] for end in (src, dst)]
        pairs = [each[:, plane] for each, plane in zip(ends, (first, second), strict=True)]
        live = _joined(fabric, *(each.reshape(-1) for each in pairs)).reshape(len(lost), -1)
        half = live & ((first == own[lost, None]) | (second == own[lost, None]))
        live = np.where(half.any(axis=1, keepdims=True), half, live)
        many = live.sum(axis=1)
        connection = traffic.connection[lost]
        turn = connection + place_among_equals(connection)
        # The live pair with this place among the live ones.
        place = np.cumsum(live, axis=1) - 1
        chosen = (live & (place == (turn % np.maximum(many, 1))[:, None])).argmax(axis=1)
        rows, moved = np.flatnonzero(many), lost[many > 0]
        src[moved], dst[moved] = (each[rows, chosen[rows]] for each in pairs)
    if np.array_equal(src, traffic.src) and np.array_equal(dst, traffic.dst):
        return traffic
    return dataclasses.replace(traffic, src=src, dst=dst)


def _joined(fabric: Fabric, src: IntArray, dst: IntArray) -> BoolArray:
    """Return whether a live path joins two ports [F]."""
    host_up = fabric.link_up[: fabric.n_hosts]
    _, _, fixed = units.classify_on_ways(src, dst, fabric.host_leaf, host_up, fabric.live_ways)
    joined: BoolArray = fixed != UNROUTABLE
    return joined
