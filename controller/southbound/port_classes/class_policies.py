"""What routers do with packets whose source ports are of a class: send them over the uplink that it names.

It depends on the fabric alone. The ports of a path are a range (``southbound/enforcement/source_port.py``), so a router
needs one match for each uplink, or in the second of two tiers one for each uplink and choice of the leaves
below. Where the uplink of a class does not work, packets are routed as all others are: by ECMP.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Network

import numpy as np

from controller.model.errors import InputError
from controller.model.fabric import BoolArray, Fabric
from controller.model.traffic import FIRST_PORT, LAST_PORT
from controller.southbound.enforcement.flow_encoding import PORT_BITS
from controller.southbound.enforcement.source_port import choice_bits
from controller.southbound.port_classes.next_hops import HopAddress
from controller.southbound.srv6.router_configuration import InterfaceName, NextHop, link_ends


@dataclass(frozen=True)
class ClassPolicy:
    """Packets from UDP ports ``first`` to ``last`` go to the next hop, if they are for one of its prefixes.

    Attributes:
        first: the lowest port of the class.
        last: the highest one; of the last class, the last but one: no flow sends from ``LAST_PORT``.
        next_hop: the switch above.
        prefixes: of the leaves that it leads to.
    """

    first: int
    last: int
    next_hop: NextHop
    prefixes: tuple[IPv4Network, ...]


@dataclass(frozen=True)
class RouterPolicies:
    """The classes of one router.

    Attributes:
        name: of the switch.
        inward: the interfaces from which packets of classes come: those of hosts and of switches below.
        own: the prefixes below the router, to which its classes do not apply.
        others: all other prefixes.
        classes: by ascending ports; no two have a port in common.
    """

    name: str
    inward: tuple[str, ...]
    own: tuple[IPv4Network, ...]
    others: tuple[IPv4Network, ...]
    classes: tuple[ClassPolicy, ...]

    def missed(self, policy: ClassPolicy) -> list[IPv4Network]:
        """Return the prefixes of other leaves that the uplink of a class does not lead to."""
        reached = set(policy.prefixes)
        return [prefix for prefix in self.others if prefix not in reached]


def router_policies(fabric: Fabric, interface: InterfaceName, hop: HopAddress) -> tuple[RouterPolicies, ...]:
    """Return the policies of each switch that has uplinks, layer by layer.

    Args:
        fabric: the fabric; what is up does not matter: routers see that themselves.
        interface: see ``InterfaceName``.
        hop: returns the address of the switch at the far end of an uplink.

    Raises:
        InputError: cables are parallel, whose choice at the upper switch no port of the lower one makes; the paths need
            more bits than ports have; or a port or an address is unknown.
    """
    parallel = (fabric.cable_number > 0).nonzero()[0].tolist()
    if parallel:
        raise InputError(
            "is parallel to another cable, and policies of leaves cannot choose among cables of the switch above",
            field="links",
            value=fabric.cable_names[parallel[0]],
        )
    if sum(choice_bits(fabric)) > PORT_BITS:
        raise InputError(f"{fabric.n_paths} paths have no ports: there are {PORT_BITS} bits for them", field="links")
    return _Policies(fabric, link_ends(fabric, interface), hop).of_all()


class _Policies:
    def __init__(self, fabric: Fabric, ends: dict[int, tuple[str, str]], hop: HopAddress) -> None:
        self._fabric, self._ends, self._hop = fabric, ends, hop
        ways = fabric.ways
        self._up = [ways.tier(tier).up for tier in range(ways.n_tiers)]
        # Whether a choice of a lower switch can be its way in.
        self._down: list[BoolArray] = [ways.tier(tier).down >= 0 for tier in range(ways.n_tiers)]
        width = int(ways.width[0])
        self._above = ways.above[: fabric.n_leaves * width].reshape(-1, width) if ways.n_tiers > 1 else None
        inward: dict[str, list[str]] = {}
        for link, (switch, port) in ends.items():
            is_up = link >= fabric.first_cable_link and not (link - fabric.first_cable_link) % 2
            if not is_up:
                inward.setdefault(switch, []).append(port)
        self._inward = inward

    def of_all(self) -> tuple[RouterPolicies, ...]:
        fabric, bits = self._fabric, choice_bits(self._fabric)
        made = []
        for leaf, switch in enumerate(fabric.leaves):
            shift = PORT_BITS - bits[0]
            same = np.arange(fabric.n_leaves) == leaf
            classes = [
                self._policy(k << shift, shift, link, self._from_leaf(leaf, k) & ~same)
                for k, link in enumerate(self._up[0][leaf].tolist())
                if link >= 0
            ]
            made.append(self._router(switch.name, same, classes))
        if self._above is None:
            return tuple(made)
        shift = PORT_BITS - bits[0] - bits[1]
        for agg, switch in enumerate(fabric.layers[1]):
            leaves, choices = np.nonzero(self._above == agg)
            pod = np.isin(np.arange(fabric.n_leaves), leaves)
            classes = [
                self._policy(((k << bits[1]) | j) << shift, shift, link, self._from_agg(agg, k)(j) & ~pod)
                for k in sorted(set(choices.tolist()))
                for j, link in enumerate(self._up[1][agg].tolist())
                if link >= 0
            ]
            made.append(self._router(switch.name, pod, classes))
        return tuple(made)

    def _from_leaf(self, leaf: int, k: int) -> BoolArray:
        """Return [L] the leaves that choice k of a leaf leads to."""
        reached: BoolArray = self._down[0][:, k] & (self._fabric.ways.group[0] == self._fabric.ways.group[0, leaf])
        if self._above is not None and (agg := int(self._above[leaf, k])) >= 0:
            far = self._from_agg(agg, k)
            for j, link in enumerate(self._up[1][agg].tolist()):
                if link >= 0:
                    reached = reached | far(j)
        return reached

    def _from_agg(self, agg: int, k: int) -> Callable[[int], BoolArray]:
        """Return what returns [L] the leaves of other pods that choice j of an aggregation switch leads to."""
        assert self._above is not None
        theirs, groups = self._above[:, k], self._fabric.ways.group
        pod = np.flatnonzero(theirs == agg)
        other = (
            (groups[0] != groups[0, pod[0]]) & (groups[1] == groups[1, pod[0]]) & (theirs >= 0) & self._down[0][:, k]
        )

        def reached(j: int) -> BoolArray:
            return np.asarray(other & self._down[1][theirs, j])

        return reached

    def _policy(self, first: int, shift: int, link: int, reached: BoolArray) -> ClassPolicy:
        first += FIRST_PORT
        name, interface = self._ends[link]
        next_hop = NextHop(self._hop(name, interface, link), interface)
        last = min(first + (1 << shift) - 1, LAST_PORT - 1)
        return ClassPolicy(first, last, next_hop, self._prefixes(reached))

    def _router(self, name: str, own: BoolArray, classes: list[ClassPolicy]) -> RouterPolicies:
        return RouterPolicies(
            name, tuple(self._inward.get(name, ())), self._prefixes(own), self._prefixes(~own), tuple(classes)
        )

    def _prefixes(self, leaves: BoolArray) -> tuple[IPv4Network, ...]:
        every = (prefix for leaf in np.flatnonzero(leaves).tolist() for prefix in self._fabric.leaf_prefixes[leaf])
        # The ports of a bond have one address, below leaves of several networks.
        return tuple(dict.fromkeys(every))
