"""Draining of whole planes, where NICs have a port in each of several.

A drained plane keeps its cables: packets that are on their way, and packets that hosts go on sending there, arrive. But
plans send no stripe of a connection there as long as another plane that is not drained joins its NICs. Flows that are
given between two ports stay in their plane, since nothing says that another port may send them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

from controller.model.assignment import UNROUTABLE
from controller.model.fabric import BoolArray, Fabric, IntArray
from controller.model.plane_places import plane_names, planes_of_cables
from controller.model.traffic import Traffic
from controller.routing.kernels import units
from controller.routing.live_planes import on_live_planes


def drained_planes(fabric: Fabric, drained: Iterable[str]) -> tuple[int, ...]:
    """Return the planes, from 0, whose names are among some ids; a switch that has the name of a plane is none."""
    names = plane_names(fabric)
    wanted = set(drained) if names else set()
    return tuple(p for p, name in enumerate(names) if name in wanted and name not in fabric.layer_of)


def on_planes_in_use(fabric: Fabric, traffic: Traffic, drained: tuple[int, ...]) -> Traffic:
    """Return the traffic with every stripe in a plane that joins its NICs, if possible in one that is not drained.

    Args:
        fabric: the fabric with its present failures, without what is drained otherwise.
        traffic: the flows, in whatever planes they are now; only ``src`` and ``dst`` change.
        drained: the drained planes, from 0.
    """
    usual = on_live_planes(fabric, traffic)
    if not drained or not traffic.n_flows:
        return usual
    left = without_planes(fabric, drained)
    moved = on_live_planes(left, traffic)
    joined = _joined(left, moved.src, moved.dst)
    src, dst = np.where(joined, moved.src, usual.src), np.where(joined, moved.dst, usual.dst)
    if np.array_equal(src, traffic.src) and np.array_equal(dst, traffic.dst):
        return traffic
    return dataclasses.replace(traffic, src=src.astype(np.int32), dst=dst.astype(np.int32))


def needed_planes(fabric: Fabric, drained: tuple[int, ...]) -> tuple[int, ...]:
    """Return the drained planes in which two NICs are joined that no plane joins which is not drained.

    Args:
        fabric: the fabric with its present failures, without what is drained otherwise.
        drained: the drained planes, from 0.
    """
    if not drained:
        return ()
    one, other = _pairs(fabric)
    planes, network = fabric.planes, fabric.planes.network_of_plane
    lost = np.ones(len(one), dtype=np.bool_)
    served = {plane: np.zeros(len(one), dtype=np.bool_) for plane in drained}
    for src in range(planes.count):
        for dst in np.flatnonzero(network == network[src]).tolist():
            joined = _joined(fabric, planes.ports[one, src], planes.ports[other, dst])
            if src not in drained and dst not in drained:
                lost &= ~joined
            for plane in {src, dst}.intersection(drained):
                served[plane] |= joined
    return tuple(plane for plane in drained if (served[plane] & lost).any())


def without_planes(fabric: Fabric, planes: tuple[int, ...]) -> Fabric:
    """Return the fabric without all links of some planes, those of hosts included."""
    cables = np.flatnonzero(np.isin(planes_of_cables(fabric), planes)).tolist()
    hosts = np.flatnonzero(np.isin(fabric.planes.of_host, planes)).tolist()
    names = [fabric.cable_names[c] for c in cables] + [f"{fabric.hosts[h].name}-{fabric.hosts[h].leaf}" for h in hosts]
    return fabric.without_links(names)


def moved_to_other_planes(fabric: Fabric, before: Traffic, after: Traffic) -> IntArray:
    """Return the flows of ``after``, ascending, that another port of the same NIC sends or receives in ``before``."""
    if fabric.planes.count == 1 or not before.n_flows:
        return np.zeros(0, dtype=np.int32)
    number = {(row.job, row.name): k for k, row in enumerate(before.collectives)}
    same = np.array([number.get((row.job, row.name), -1) for row in after.collectives], dtype=np.int64)
    key = (before.collective.astype(np.int64) << 32) + before.number
    order = np.argsort(key, kind="stable")
    wanted = (same[after.collective] << 32) + after.number
    at = order[np.minimum(np.searchsorted(key[order], wanted), len(key) - 1)]
    nic = fabric.planes.nic_of_host
    known = (key[at] == wanted) & (nic[before.src[at]] == nic[after.src]) & (nic[before.dst[at]] == nic[after.dst])
    moved = known & ((before.src[at] != after.src) | (before.dst[at] != after.dst))
    return np.flatnonzero(moved).astype(np.int32)


def _joined(fabric: Fabric, src: IntArray, dst: IntArray) -> BoolArray:
    """Return whether a live path joins two ports [F]; a port of -1 is none."""
    host_up = fabric.link_up[: fabric.n_hosts]
    there = (src >= 0) & (dst >= 0)
    _, _, fixed = units.classify_on_ways(
        np.maximum(src, 0), np.maximum(dst, 0), fabric.host_leaf, host_up, fabric.live_ways
    )
    joined: BoolArray = there & (fixed != UNROUTABLE)
    return joined


def _pairs(fabric: Fabric) -> tuple[IntArray, IntArray]:
    """Return pairs of NICs [N], [N] such that every other pair is joined in the same planes as one of them.

    Leaves of one pod with the same live cables, at least one, are joined with each other and with the same other
    leaves. So NICs whose ports are on such leaves in every plane are alike: one of them speaks for all.
    """
    planes, links = fabric.planes, fabric.tiers[0]
    wired = (links.up >= 0).any(axis=1) & (links.down >= 0).any(axis=1)
    alone = np.where(wired, -1, np.arange(fabric.n_leaves))
    rows = np.column_stack([fabric.pod_of_leaf, alone, links.up >= 0, links.down >= 0])
    kind = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    port = np.maximum(planes.ports, 0)
    up = fabric.link_up[: fabric.n_hosts][port] & (planes.ports >= 0)
    alike = np.where(up, kind[fabric.host_leaf[port]], -1)
    _, first, many = np.unique(alike, axis=0, return_index=True, return_counts=True)
    one, other = (each.reshape(-1) for each in np.indices((len(first), len(first))))
    # A NIC that is like no other one makes no pair with itself.
    pairs = (one != other) | (many[one] > 1)
    return first[one[pairs]].astype(np.int32), first[other[pairs]].astype(np.int32)
