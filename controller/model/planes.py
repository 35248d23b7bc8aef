"""Planes: leaf-spine networks of their own, each of which has one port of every NIC.

A NIC with P ports is P entries of ``Fabric.hosts`` that have its name in common (``Host.nic``), each with an address of
its own: P places where a leaf-spine network ends. No cable joins two planes, so a packet stays in the plane of the port
that sends it. A flow between two NICs is sent in stripes, one QP a plane (``workload.stripes``). Its way is a plane,
which is that of the two ports, and then a path within the plane, whose number has the same meaning in each plane.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controller.model.errors import InputError
from controller.model.fabric_parts import FabricParts

IntArray = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Planes:
    """The P planes of a fabric; P is 1 where no NIC has several ports.

    Attributes:
        of_leaf: [L] plane of each leaf.
        of_spine: [S] plane of each spine; without meaning where there are three layers.
        of_host: [H] plane of each host, which is a port.
        nic_of_host: [H] NIC of each host.
        ports: [N, P] host that is the port of each NIC in each plane; -1: none (a host that no file has).
    """

    of_leaf: IntArray
    of_spine: IntArray
    of_host: IntArray
    nic_of_host: IntArray
    ports: IntArray

    @property
    def count(self) -> int:
        """The number P of planes."""
        return int(self.ports.shape[1])


def planes_of(parts: FabricParts, network: IntArray, host_leaf: IntArray) -> Planes:
    """Return the planes of a fabric, numbered by their first leaves.

    Args:
        parts: the fabric's hosts and switches.
        network: [L + S] connected component of each leaf and spine, numbered by their first switches.
        host_leaf: [H] leaf of each host.
    """
    n_leaves = len(parts.leaves)
    if len(parts.layers) > 2 or all(host.nic is None for host in parts.hosts):
        every = np.arange(len(parts.hosts), dtype=np.int32)
        leaves, spines = np.zeros(n_leaves, np.int32), np.zeros(len(network) - n_leaves, np.int32)
        return Planes(leaves, spines, np.zeros_like(every), every, every[:, None])
    found, inverse = np.unique(network[:n_leaves], return_inverse=True)
    of_leaf: IntArray = inverse.reshape(-1).astype(np.int32)
    of_spine = np.where(np.isin(network[n_leaves:], found), np.searchsorted(found, network[n_leaves:]), 0)
    of_host: IntArray = of_leaf[host_leaf].astype(np.int32)
    number = {name: i for i, name in enumerate(parts.nic_names)}
    nic = np.array([number[host.nic or host.name] for host in parts.hosts], dtype=np.int32)
    ports = np.full((len(number), len(found)), -1, dtype=np.int32)
    place, first = np.unique(nic.astype(np.int64) * len(found) + of_host, return_index=True)
    ports.reshape(-1)[place] = first
    return Planes(of_leaf, of_spine.astype(np.int32), of_host, nic, ports)


def check_planes(parts: FabricParts, planes: Planes, network: IntArray) -> None:
    """Check that each NIC has one port in each plane, and that planes have equal numbers of spines.

    Raises:
        InputError: it is not so, or NICs of a fabric of three layers have several ports.
    """
    several = [host for host in parts.hosts if host.nic is not None]
    if not several:
        return
    if len(parts.layers) > 2:
        raise InputError(
            f"{several[0].name} is a port of it: NICs have several ports in leaf-spine fabrics only, not where there "
            "are aggregation switches",
            field="hosts",
            value=several[0].nic,
        )
    n_leaves = len(parts.leaves)
    for spine, alone in zip(parts.spines, ~np.isin(network[n_leaves:], network[:n_leaves]), strict=True):
        if alone:
            raise InputError("no cable connects it, so it is in no plane", field="switches", value=spine.name)
    first = [parts.leaves[int(np.flatnonzero(planes.of_leaf == plane)[0])].name for plane in range(planes.count)]
    for host, (nic, plane) in enumerate(zip(planes.nic_of_host.tolist(), planes.of_host.tolist(), strict=True)):
        if planes.ports[nic, plane] != host:
            _refuse_two_ports(parts, int(planes.ports[nic, plane]), host)
    width = np.bincount(planes.of_spine, minlength=planes.count)
    for one, other in itertools.pairwise(range(planes.count)):
        if width[one] != width[other]:
            raise InputError(
                f"planes need the same number of spines: that of {first[one]} has {width[one]}, that of "
                f"{first[other]} has {width[other]}",
                field="switches",
                value=first[other],
            )
    for nic, plane in np.argwhere(planes.ports < 0).tolist():
        raise InputError(
            f"each NIC needs one port in each of the {planes.count} planes; this one has none in that of "
            f"{first[plane]}",
            field="hosts",
            value=parts.nic_names[nic],
        )


def _refuse_two_ports(parts: FabricParts, one: int, other: int) -> None:
    first, second = parts.hosts[one], parts.hosts[other]
    raise InputError(
        f"{first.name} on {first.leaf} and {second.name} on {second.leaf}, ports of {second.nic}, are in one plane; "
        "a NIC has one port in each plane",
        field=f"hosts[{other}].leaf",
        value=second.leaf,
    )
