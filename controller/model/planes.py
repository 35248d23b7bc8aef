"""Planes: the ports of NICs that have several, each with an address of its own, or as a bond.

A NIC with P ports is P entries of ``Fabric.hosts`` that have its name in common (``Host.nic``): P places where a
network ends. The p-th port of each NIC is in plane p. Cables may leave the planes unconnected (each plane is a network
of its own: multi-plane fabrics), or join them (each NIC has ports on two leaves below the same spines: dual-ToR), or
both. A *network* is what cables connect. A flow between two NICs is sent in stripes, one QP a plane
(``workload.stripes``). Its way is that of its two ports, and then a path between their leaves, whose number has the
same meaning in each network.

A *bond* is ports of a NIC, each in a network of its own, that share one address. An address belongs to a NIC, and an
address in a network names a port. Since a packet may tell no more than its addresses and UDP ports, the flows between
two bonds have unlike source ports, whichever ports they take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from controller.model.errors import InputError
from controller.model.fabric_parts import FabricParts, Host
from controller.model.paths.grouping import place_among_equals

IntArray = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Planes:
    """The P planes of a fabric; P is 1 where no NIC has several ports.

    Attributes:
        of_host: [H] plane of each host, which is a port.
        nic_of_host: [H] NIC of each host.
        ports: [N, P] host that is the port of each NIC in each plane; -1: none (a host that no file has).
        network: for each layer, the network [M] of each switch; one for all where no NIC has several ports.
        network_of_plane: [P] network of the ports of each plane.
        of_leaf: [L] plane of each leaf's ports; -1: it has ports of several planes, or none.
        address: [H] host that stands for the address of each: the first port of its bond, or itself.
    """

    of_host: IntArray
    nic_of_host: IntArray
    ports: IntArray
    network: tuple[IntArray, ...]
    network_of_plane: IntArray
    of_leaf: IntArray
    address: IntArray

    @property
    def count(self) -> int:
        """The number P of planes."""
        return int(self.ports.shape[1])

    @cached_property
    def bonds(self) -> bool:
        """Whether some ports share an address."""
        return bool((self.address != np.arange(len(self.address))).any())

    @property
    def n_networks(self) -> int:
        """The number of networks that no cable joins; 1 where no NIC has several ports."""
        return 1 + int(self.network_of_plane.max(initial=0))

    def of_layer(self, layer: int) -> IntArray:
        """Return the plane [M] of each switch of a layer, -1: it forwards for several planes."""
        if layer == 0:
            return self.of_leaf
        alone = np.bincount(self.network_of_plane, minlength=self.n_networks) == 1
        first = np.searchsorted(self.network_of_plane, np.arange(self.n_networks))
        plane: IntArray = np.where(alone, first, -1).astype(np.int32)[self.network[layer]]
        return plane


def planes_of(parts: FabricParts, network: IntArray, host_leaf: IntArray) -> Planes:
    """Return the planes of a fabric: network by network, and within one in the order of a NIC's ports.

    Args:
        parts: the fabric's hosts and switches.
        network: [L + M + ..] connected component of each switch, numbered by their first switches.
        host_leaf: [H] leaf of each host.
    """
    sizes = [len(layer) for layer in parts.layers]
    if all(host.nic is None for host in parts.hosts):
        every = np.arange(len(parts.hosts), dtype=np.int32)
        none = tuple(np.zeros(size, np.int32) for size in sizes)
        return Planes(np.zeros_like(every), every, every[:, None], none, np.zeros(1, np.int32), none[0], every)
    networks = np.unique(network[: sizes[0]])
    number = np.where(np.isin(network, networks), np.searchsorted(networks, network), 0).astype(np.int32)
    of_switch = tuple(np.split(number, np.cumsum(sizes)[:-1]))
    index = {name: i for i, name in enumerate(parts.nic_names)}
    nic = np.array([index[host.nic or host.name] for host in parts.hosts], dtype=np.int32)
    own = of_switch[0][host_leaf]
    turn = place_among_equals(nic.astype(np.int64) * len(networks) + own)
    width = np.zeros(len(networks), dtype=np.int64)
    np.maximum.at(width, own, turn + 1)
    of_host = ((np.cumsum(width) - width)[own] + turn).astype(np.int32)
    ports = np.full((len(index), int(width.sum())), -1, dtype=np.int32)
    ports[nic, of_host] = np.arange(len(nic))
    of_network = np.repeat(np.arange(len(networks)), width).astype(np.int32)
    of_leaf = _of_leaves(sizes[0], host_leaf, of_host)
    return Planes(of_host, nic, ports, of_switch, of_network, of_leaf, _addresses(parts.hosts))


def _addresses(hosts: Sequence[Host]) -> IntArray:
    first: dict[tuple[str, str], int] = {}
    owners = [first.setdefault((host.nic or host.name, host.ip), i) for i, host in enumerate(hosts)]
    return np.array(owners, dtype=np.int32)


def _of_leaves(n_leaves: int, host_leaf: IntArray, of_host: IntArray) -> IntArray:
    lowest, highest = np.full(n_leaves, np.iinfo(np.int32).max), np.full(n_leaves, -1)
    np.minimum.at(lowest, host_leaf, of_host)
    np.maximum.at(highest, host_leaf, of_host)
    plane: IntArray = np.where(lowest == highest, highest, -1).astype(np.int32)
    return plane


def check_planes(parts: FabricParts, planes: Planes, network: IntArray, host_leaf: IntArray) -> None:
    """Check that all NICs have as many ports in each network, and that every switch is in one.

    Raises:
        InputError: it is not so.
    """
    if all(host.nic is None for host in parts.hosts):
        return
    n_leaves = len(parts.leaves)
    for switch, alone in zip(parts.switches, ~np.isin(network, network[:n_leaves]), strict=True):
        if alone:
            raise InputError(
                "no cable leads from it to a leaf, so it is in no plane", field="switches", value=switch.name
            )
    count = np.zeros((len(planes.ports), planes.n_networks), dtype=np.int64)
    np.add.at(count, (planes.nic_of_host, planes.network[0][host_leaf]), 1)
    rows, first, many = np.unique(count, axis=0, return_index=True, return_counts=True)
    if len(rows) == 1:
        return
    usual = rows[many.argmax()]
    nic, where = np.argwhere(count != usual)[0].tolist()
    leaf = parts.leaves[int(np.flatnonzero(planes.network[0] == where)[0])].name
    other = parts.nic_names[int(first[many.argmax()])]
    raise InputError(
        f"all NICs need the same number of ports in each network: this one has {count[nic, where]} in that of {leaf}, "
        f"{other} has {usual[where]}",
        field="hosts",
        value=parts.nic_names[nic],
    )
