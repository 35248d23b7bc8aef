"""The cables that packets with a carrier go over: what its loss, or the return of a probe, says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from ipaddress import IPv6Address
from itertools import pairwise
from typing import NamedTuple

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.southbound.srv6.router_configuration import CableAddresses
from controller.southbound.srv6.segment_ids import SegmentIds

Place = tuple[int, int]
"""A switch: its layer, and its index within the layer."""

NO_CABLES: frozenset[int] = frozenset()


class _Hop(NamedTuple):
    """A cable on a way, and the switch from which packets are sent over it."""

    cable: int
    begins: Place


def replaceable_cables(fabric: Fabric) -> frozenset[int]:
    """Return the cables for which routers take others as soon as they see that they are down.

    These are parallel ones, and those above the first tier. Packets over them come back all the same.
    """
    columns = fabric.cable_tier, fabric.cable_lower, fabric.cable_upper
    ends = list(zip(*(each.tolist() for each in columns), strict=True))
    many = Counter(ends)
    return frozenset(cable for cable, end in enumerate(ends) if end[0] or many[end] > 1)


class CarrierCables:
    """A ``controller.southbound.enforcement.host_plans.PathCables``; any thread may call it."""

    def __init__(self, ids: SegmentIds, addresses: CableAddresses) -> None:
        """Look up the neighbours of each switch by their ids."""
        fabric = ids.fabric
        self._ids, self._addresses = ids, addresses
        self._leaf: list[int] = fabric.host_leaf.tolist()
        self._tier: list[int] = fabric.cable_tier.tolist()
        self._next: dict[tuple[Place, int], tuple[int, Place]] = {}
        self._ends: list[tuple[Place, Place]] = []
        columns = fabric.cable_tier, fabric.cable_lower, fabric.cable_upper, fabric.cable_number
        for cable, (tier, lower, upper, number) in enumerate(zip(*(each.tolist() for each in columns), strict=True)):
            below, above = (tier, lower), (tier + 1, upper)
            self._ends.append((below, above))
            self._next[below, ids.over_cable(*above, number)] = cable, above
            self._next[above, ids.over_cable(*below, number)] = cable, below
        replaceable = replaceable_cables(fabric)
        self._testable = [cable not in replaceable for cable in range(len(fabric.cables))]
        """Whether a probe shows that a cable is down where routers see it, and choose another way themselves."""
        self._way = lru_cache(maxsize=1 << 16)(self._walked)

    def suspects(self, host: int, carrier: IPv6Address, at: str | None, *, probed: bool) -> frozenset[int]:
        """Return the cables of which one at least is down if a path of a host is dead.

        Args:
            host: the host whose packets are lost.
            carrier: of the path, or the address of a probe.
            at: address of the router that could not forward a packet; ``None``: none has said so.
            probed: whether probes were lost; else, a router has said that it could not forward.
        """
        hops = self._way(self._leaf[host], carrier)
        if probed or not hops:
            return frozenset(hop.cable for hop in hops)
        router = None if at is None else self._switch_at(at)
        lost = [hop.cable for hop in hops if router in (None, hop.begins)]
        # Of the others, nothing would show later that they work again.
        return frozenset(lost) if all(self._testable[cable] for cable in lost) else NO_CABLES

    def confirmed(self, host: int, carrier: IPv6Address) -> frozenset[int]:
        """Return the cables that work if the probes of a path of a host come back.

        Cables above the first tier, and parallel ones, may be down all the same where routers see that, and so may all
        cables of a probe together: then packets take others, and none is lost.
        """
        hops = self._way(self._leaf[host], carrier)
        cables = frozenset(hop.cable for hop in hops)
        turns = {second.begins for first, second in pairwise(hops) if first.cable == second.cable}
        if any(layer for layer, _ in turns):
            # A leaf whose ends of all cables there have no signal has sent the probe back itself (``cable_probes``).
            return frozenset(cable for cable in cables if self._tier[cable])
        return cables

    def shown(self, host: int, carrier: IPv6Address, entered: Collection[int]) -> frozenset[int]:
        """Return the cables that surely carry packets if the probes of a path of a host come back.

        Args:
            host: the host.
            carrier: of the path, or the address of a probe.
            entered: cables of its leaf that the leaf does not pass over, as bypass probes show (``cable_probes``).
        """
        hops = self._way(self._leaf[host], carrier)
        if not hops or hops[0].cable not in entered:
            return NO_CABLES
        sure = set[int]()
        for hop in hops:
            if self._tier[hop.cable]:
                # Aggregation switches may pass over cores, and send the packet elsewhere.
                break
            sure.add(hop.cable)
        return frozenset(cable for cable in sure if self._testable[cable])

    def bypassed(self, host: int, probe: IPv6Address) -> int | None:
        """Return the cable that is down if a bypass probe of a host comes back; ``None``: it is no such probe."""
        try:
            ids = self._ids.ids_of(probe)
        except InputError:
            return None
        hops = self._way(self._leaf[host], probe)
        if len(hops) != 1 or len(ids) != 2 or ids[1] != self._ids.host(host, inner=6):
            return None
        return hops[0].cable if self._testable[hops[0].cable] else None

    def _walked(self, leaf: int, carrier: IPv6Address) -> tuple[_Hop, ...]:
        try:
            ids = self._ids.ids_of(carrier)
        except InputError:
            return ()
        at, hops = (0, leaf), []
        for number in ids:
            step = self._next.get((at, number))
            if step is None:
                break
            hops.append(_Hop(step[0], at))
            at = step[1]
        return tuple(hops)

    def _switch_at(self, address: str) -> Place | None:
        """Return the switch with an address; ``None``: no end of a cable has it."""
        try:
            own = IPv6Address(address)
        except ValueError:
            return None
        number, upper = divmod(int(own) - int(self._addresses.network.network_address), 2)
        return self._ends[number][upper] if 0 <= number < len(self._ends) else None
