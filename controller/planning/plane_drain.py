"""Draining of whole planes and of leaves, where NICs have a port in each of several planes.

A drained plane keeps its cables, and so does a drained leaf (alone, or with its pod): packets that are on their way,
and packets that hosts go on sending there, arrive. But plans send no stripe of a connection over a port in that plane
or on that leaf as long as other ports join its NICs. Flows that are given between two ports stay there, since nothing
says that another port may send them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from controller.model.assignment import UNROUTABLE
from controller.model.fabric import BoolArray, Fabric, IntArray
from controller.model.paths.plane_places import plane_names, planes_of_cables
from controller.model.traffic import Traffic
from controller.routing.kernels import units
from controller.routing.problem.live_planes import on_live_planes


@dataclass(frozen=True)
class PortsAside:
    """The ports of NICs that plans avoid although they are up.

    Attributes:
        planes: drained planes, from 0, ascending.
        leaves: drained leaves, by index, ascending.
    """

    planes: tuple[int, ...] = ()
    leaves: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self.planes or self.leaves)

    def of_hosts(self, fabric: Fabric) -> BoolArray:
        """Return whether each port is one of them [H]."""
        in_plane = np.isin(fabric.planes.of_host, self.planes)
        avoided: BoolArray = in_plane | np.isin(fabric.host_leaf, self.leaves)
        return avoided


NONE_ASIDE = PortsAside()


def ports_aside(fabric: Fabric, drained: Iterable[str]) -> PortsAside:
    """Return the ports that some drained ids stand for: those of planes, of leaves, and of the leaves of pods.

    A switch that has the name of a plane or pod stands for itself.
    """
    names = plane_names(fabric)
    wanted = set(drained) if names else set()
    if not wanted:
        return NONE_ASIDE
    pods = [p for p, name in enumerate(fabric.pod_names) if name in wanted and name not in fabric.layer_of]
    chosen = np.isin(fabric.pod_of_leaf, pods) if pods else np.zeros(fabric.n_leaves, dtype=np.bool_)
    chosen[[fabric.leaf_index[name] for name in wanted if name in fabric.leaf_index]] = True
    planes = tuple(p for p, name in enumerate(names) if name in wanted and name not in fabric.layer_of)
    return PortsAside(planes, tuple(np.flatnonzero(chosen).tolist()))


def on_planes_in_use(fabric: Fabric, traffic: Traffic, aside: PortsAside) -> Traffic:
    """Return the traffic with every stripe between ports that are joined, if possible ports that are not set aside.

    Args:
        fabric: the fabric with its present failures, without what is drained otherwise.
        traffic: the flows, in whatever planes they are now; only ``src`` and ``dst`` change.
        aside: the ports that are set aside.
    """
    usual = on_live_planes(fabric, traffic)
    if not aside or not traffic.n_flows:
        return usual
    left = without_ports(fabric, aside)
    moved = on_live_planes(left, traffic)
    joined = _joined(left, moved.src, moved.dst)
    src, dst = np.where(joined, moved.src, usual.src), np.where(joined, moved.dst, usual.dst)
    if np.array_equal(src, traffic.src) and np.array_equal(dst, traffic.dst):
        return traffic
    return dataclasses.replace(traffic, src=src.astype(np.int32), dst=dst.astype(np.int32))


def needed_aside(fabric: Fabric, aside: PortsAside) -> PortsAside:
    """Return the planes and leaves that are set aside and join two NICs which no other ports join.

    Args:
        fabric: the fabric with its present failures, without what is drained otherwise.
        aside: the ports that are set aside.
    """
    if not aside:
        return NONE_ASIDE
    avoided = aside.of_hosts(fabric)
    kinds = _kinds_of_nics(fabric, avoided)
    one, other = kinds.pairs()
    planes, network = fabric.planes, fabric.planes.network_of_plane
    ways = [(s, d) for s in range(planes.count) for d in np.flatnonzero(network == network[s]).tolist()]
    lost = np.ones(len(one), dtype=np.bool_)
    joined = []
    for src, dst in ways:
        a, b = planes.ports[kinds.first[one], src], planes.ports[kinds.first[other], dst]
        joins = _joined(fabric, a, b)
        lost &= ~joins | avoided[a] | avoided[b]
        joined.append(joins)
    used = np.zeros((len(kinds.first), planes.count), dtype=np.bool_)
    for (src, dst), joins in zip(ways, joined, strict=True):
        used[one[joins & lost], src] = used[other[joins & lost], dst] = True
    nic, plane = np.nonzero(used[kinds.of_nic] & (planes.ports >= 0))
    serving = planes.ports[nic, plane]
    leaves = set(fabric.host_leaf[serving].tolist())
    return PortsAside(
        tuple(p for p in aside.planes if used[:, p].any()), tuple(leaf for leaf in aside.leaves if leaf in leaves)
    )


def without_ports(fabric: Fabric, aside: PortsAside) -> Fabric:
    """Return the fabric without the ports that are set aside, and without all cables of these planes and leaves."""
    below = (fabric.cable_tier == 0) & np.isin(fabric.cable_lower, aside.leaves)
    cables = np.flatnonzero(below | np.isin(planes_of_cables(fabric), aside.planes)).tolist()
    hosts = np.flatnonzero(aside.of_hosts(fabric)).tolist()
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


class _Kinds(NamedTuple):
    """NICs by kinds, such that those of one kind are joined with all others in the same planes.

    Attributes:
        first: [C] one NIC of each kind.
        many: [C] how many NICs it has.
        of_nic: [N] kind of each NIC.
    """

    first: IntArray
    many: IntArray
    of_nic: IntArray

    def pairs(self) -> tuple[IntArray, IntArray]:
        """Return all pairs of kinds [M], [M] of which there are two different NICs."""
        one, other = (each.reshape(-1) for each in np.indices((len(self.first), len(self.first)), dtype=np.int32))
        # A NIC that is like no other one makes no pair with itself.
        pairs = (one != other) | (self.many[one] > 1)
        return one[pairs], other[pairs]


def _kinds_of_nics(fabric: Fabric, avoided: BoolArray) -> _Kinds:
    """Return the kinds of NICs; ports that are avoided [H] are unlike others.

    Leaves of one pod with the same live cables, at least one, are joined with each other and with the same other
    leaves. So NICs whose ports are on such leaves in every plane are alike.
    """
    planes, links = fabric.planes, fabric.tiers[0]
    wired = (links.up >= 0).any(axis=1) & (links.down >= 0).any(axis=1)
    alone = np.where(wired, -1, np.arange(fabric.n_leaves))
    rows = np.column_stack([fabric.pod_of_leaf, alone, links.up >= 0, links.down >= 0])
    kind = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    port = np.maximum(planes.ports, 0)
    up = fabric.link_up[: fabric.n_hosts][port] & (planes.ports >= 0)
    alike = np.where(up, 2 * kind[fabric.host_leaf[port]] + avoided[port], -1)
    _, first, of_nic, many = np.unique(alike, axis=0, return_index=True, return_inverse=True, return_counts=True)
    return _Kinds(first.astype(np.int32), many.astype(np.int32), of_nic.reshape(-1).astype(np.int32))
