"""The addresses of hosts: one for each path. Those of a leaf and a path are one network, which routers announce.

Behind the block, an address has the class of the path (the choices of its uplinks side by side, as in
``southbound/enforcement/source_port.py``), the leaf, and the place of the host at its leaf. The first and the last one
are free, so that the network may be one of an interface.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, ip_network

import numpy as np

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.southbound.enforcement.source_port import choice_bits, path_bits

DEFAULT_BLOCK = "10.64.0.0/10"

ADDRESS_BITS = 32


@dataclass(frozen=True)
class PathAddresses:
    """The addresses of a fabric's hosts.

    Attributes:
        fabric: the fabric.
        block: the network that has all of them.
        field: how errors name the block.
    """

    fabric: Fabric
    block: IPv4Network
    field: str

    @staticmethod
    def of(fabric: Fabric, block: str, field: str) -> PathAddresses:
        """Return the addresses in a block.

        Raises:
            InputError: it is no IPv4 network.
        """
        try:
            network = ip_network(block)
        except ValueError:
            raise InputError("is not an IPv4 prefix", field=field, value=block) from None
        if not isinstance(network, IPv4Network):
            raise InputError("is not an IPv4 prefix", field=field, value=block)
        return PathAddresses(fabric, network, field)

    @cached_property
    def _seat_bits(self) -> int:
        return (max(self.fabric.seats, default=0) + 2).bit_length()

    @cached_property
    def _leaf_bits(self) -> int:
        return (self.fabric.n_leaves - 1).bit_length()

    def check(self) -> None:
        """See whether each host can have an address for each path.

        Raises:
            InputError: cables are parallel; ports of a NIC share an address; the block is too small; or addresses of
                the fabric are in it.
        """
        fabric = self.fabric
        if fabric.planes.bonds:
            raise InputError("ports that share an address cannot have one for each path", field="hosts")
        parallel = (fabric.cable_number > 0).nonzero()[0].tolist()
        if parallel:
            reason = "is parallel to another cable, and routes to an address use both"
            raise InputError(reason, field="links", value=fabric.cable_names[parallel[0]])
        needed = sum(choice_bits(fabric)) + self._leaf_bits + self._seat_bits
        if needed > ADDRESS_BITS - self.block.prefixlen:
            reason = f"has {ADDRESS_BITS - self.block.prefixlen} bits for hosts, and {needed} are needed"
            raise InputError(reason, field=self.field, value=str(self.block))
        own = next((each for leaf in fabric.leaf_prefixes for each in leaf if each.overlaps(self.block)), None)
        if own is not None:
            raise InputError(f"overlaps {own} of the fabric", field=self.field, value=str(self.block))

    def of_leaf(self, leaf: int, number: int) -> IPv4Network:
        """Return the network of the addresses of a leaf's hosts for a class."""
        host = ((number << self._leaf_bits) | leaf) << self._seat_bits
        return IPv4Network((int(self.block.network_address) + host, ADDRESS_BITS - self._seat_bits))

    def of_host(self, host: int, number: int) -> IPv4Address:
        """Return the address of a host for a class."""
        leaf = self.of_leaf(int(self.fabric.host_leaf[host]), number)
        return leaf.network_address + 1 + self.fabric.seats[host]

    def to_host(self, host: int, path: int) -> IPv4Address:
        """Return the address by which packets reach a host over a path."""
        (number,) = path_bits(self.fabric, np.array([path], dtype=np.int32)).tolist()
        return self.of_host(host, number)

    def classes(self, leaf: int) -> dict[int, tuple[int, ...]]:
        """Return the classes of paths that end at a leaf, each with the choices of its uplinks, from the leaf up."""
        ways, bits = self.fabric.ways, choice_bits(self.fabric)
        made: dict[int, tuple[int, ...]] = {}
        for k in np.flatnonzero(ways.tier(0).up[leaf] >= 0).tolist():
            if ways.n_tiers == 1:
                made[k] = (k,)
                continue
            agg = int(ways.above[leaf * int(ways.width[0]) + k])
            # Paths within a pod have no second choice: their classes are those of the first one.
            for j in {0, *np.flatnonzero(ways.tier(1).up[agg] >= 0).tolist()}:
                made[(k << bits[1]) | j] = (k, j)
        return made
