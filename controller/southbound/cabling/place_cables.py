"""Where the cables of an intended fabric are in the network, and which of them are down."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from functools import cached_property
from itertools import compress

from controller.model.fabric import Cable, Fabric
from controller.model.network_state import NetworkState, PortId, port_ids
from controller.model.switch_key import SwitchKey
from controller.southbound.hosts.intended_hosts import IntendedHosts


class IntendedPlaces:
    """The ports of everything in a fabric file; they do not change with the network.

    Attributes:
        ends: [C] both ends of each cable, the lower switch's first; ``None``: the file does not name both.
        peers: the other end of each port that the file gives to a cable.
        hosts: where each host is allowed to be.
        host_ports: the host of each port that the file gives to a host.
    """

    def __init__(self, intended: Fabric) -> None:
        """Look up the ports of the intended fabric."""
        key = self.key = {switch.name: switch.key for switch in intended.switches}
        named = [c.lower_port is not None and c.upper_port is not None for c in intended.cables]
        cables = list(compress(intended.cables, named))
        lower = port_ids([key[c.lower] for c in cables], [c.lower_port or 0 for c in cables])
        upper = port_ids([key[c.upper] for c in cables], [c.upper_port or 0 for c in cables])
        ends = iter(zip(lower, upper, strict=True))
        self.ends = [next(ends) if both else None for both in named]
        self.peers = dict(zip(lower, upper, strict=True))
        self.peers.update(zip(upper, lower, strict=True))
        self.hosts = IntendedHosts.of(intended)
        self.host_ports = {at: self.hosts.hosts[ip].name for ip, at in self.hosts.ports.items()}


_newest_places: tuple[Fabric, IntendedPlaces] | None = None


def places_of(intended: Fabric) -> IntendedPlaces:
    """Return the places, computed once for a file. Safe for threads: each sees a complete answer or none."""
    global _newest_places
    newest = _newest_places
    if newest is None or newest[0] is not intended:
        newest = _newest_places = intended, IntendedPlaces(intended)
    return newest[1]


CablesElsewhere = dict[tuple[str, str], list[tuple[int, int]]]
"""By lower and upper switch: the ports of cables that are there, in order."""


def cables_elsewhere(
    intended: Fabric, observed: NetworkState, places: IntendedPlaces
) -> tuple[CablesElsewhere, list[tuple[str, str]]]:
    """Return cables that are not where the file has one: those of neighbouring layers, and others by their ends' names.

    Nearly all cables of a large fabric are where they belong; these are passed over by one comparison.
    """
    known, peers, layer_of = intended.switch_by_key, places.peers, intended.layer_of
    elsewhere: CablesElsewhere = defaultdict(list)
    extra: list[tuple[str, str]] = []
    strange = {a: b for a, b in observed.links.items() if peers.get(a) != b}
    for a, b in observed.cables(strange):
        if a.switch not in known or b.switch not in known:
            continue
        ends = ((known[a.switch].name, a.port), (known[b.switch].name, b.port))
        if layer_of[ends[0][0]] > layer_of[ends[1][0]]:
            ends = (ends[1], ends[0])
        (lower, lower_port), (upper, upper_port) = ends
        if layer_of[lower] + 1 == layer_of[upper]:
            elsewhere[lower, upper].append((lower_port, upper_port))
        else:
            extra.append((lower, upper))
    return elsewhere, extra


def place_cables(
    intended: Fabric, places: IntendedPlaces, observed: NetworkState, elsewhere: CablesElsewhere, before: Fabric | None
) -> tuple[list[Cable], list[int], int]:
    """Give each intended cable a found one, its own ports first, then one of ``elsewhere`` (it is taken out).

    A cable that is not found is down where there is evidence for that, and else stays as it was ``before``. What agents
    of hosts have shown of a cable is taken as it is: no switch says anything of it. One that is unknown to them counts
    as up again as soon as no packets are lost there.

    Returns:
        The cables; those that are missing; how many are not known to be there, nor to be missing.
    """
    cables = list(intended.cables)
    links, ports = observed.links, observed.ports
    missing, left, unconfirmed = [], [], 0
    is_moved = False
    for c, ends in enumerate(places.ends):
        reason = observed.shown_cables.get(c)
        if reason is not None:
            if reason and cables[c].up:
                cables[c] = dataclasses.replace(cables[c], up=False)
                missing.append(c)
            continue
        if c in observed.passed_cables:
            continue
        if ends is not None:
            a, b = ends
            if links.get(a) == b and links.get(b) == a and ports.get(a) and ports.get(b):
                continue
        cable = cables[c]
        rest = elsewhere.get((cable.lower, cable.upper))
        if rest:
            lower_port, upper_port = rest.pop(0)
            cables[c] = dataclasses.replace(cable, lower_port=lower_port, upper_port=upper_port)
            is_moved = True
        else:
            left.append(c)
    taken, leaves = _Taken(cables, left), intended.leaf_index
    for c in left:
        cable, ends = cables[c], places.ends[c]
        last = before.cables[c] if before is not None else cable
        at_leaf, at_spine = last.lower_port, last.upper_port
        if is_moved or ends is None or (at_leaf, at_spine) != (cable.lower_port, cable.upper_port):
            # A port that another cable was moved to is no longer this one's.
            at_leaf, at_spine = (port if (name, port) not in taken else None for name, port in _ends(last))
            ends = _end(places.key[cable.lower], at_leaf), _end(places.key[cable.upper], at_spine)
        stays = (at_leaf, at_spine) == (last.lower_port, last.upper_port)
        up = cable.up and last.up and stays and not is_down(*ends, observed, of_leaf=cable.lower in leaves)
        if stays and up == last.up and cable.gbps == last.gbps:
            cables[c] = last
        else:
            cables[c] = dataclasses.replace(last, up=up, gbps=cable.gbps, lower_port=at_leaf, upper_port=at_spine)
        if up:
            # What the observer cannot see will never be confirmed: nothing waits for that.
            unconfirmed += observed.unobserved.isdisjoint((ends[0].switch, ends[1].switch))
        elif cable.up:
            missing.append(c)
    return cables, missing, unconfirmed


class _Taken:
    """The ports of all cables but some, computed at the first request: most fabrics never need them."""

    def __init__(self, cables: list[Cable], left: list[int]) -> None:
        self._cables, self._left = cables, left

    def __contains__(self, end: tuple[str, int | None]) -> bool:
        return end in self._ends

    @cached_property
    def _ends(self) -> set[tuple[str, int | None]]:
        lost = set(self._left)
        return {end for c, cable in enumerate(self._cables) if c not in lost for end in _ends(cable)}


def _ends(cable: Cable) -> tuple[tuple[str, int | None], tuple[str, int | None]]:
    return (cable.lower, cable.lower_port), (cable.upper, cable.upper_port)


def _end(key: SwitchKey, port: int | None) -> PortId:
    return PortId(key, port or 0)


def is_down(lower: PortId, upper: PortId, observed: NetworkState, *, of_leaf: bool = True) -> bool:
    """Return whether there is evidence that a cable which discovery does not show is down.

    A leaf that is not connected may still forward by the rules that it has, and only it reaches its hosts: only a port
    that is down at the other end counts. A switch above leaves that stays away is passed over, since there are others.

    Args:
        lower: the port of the lower switch.
        upper: the port of the upper switch.
        observed: the network.
        of_leaf: whether the lower switch is a leaf.
    """
    if observed.ports.get(lower) is False or observed.ports.get(upper) is False:
        return True
    if observed.unobserved and not observed.unobserved.isdisjoint((lower.switch, upper.switch)):
        return False
    if of_leaf and lower.switch not in observed.switches:
        return False
    away = {lower.switch, upper.switch} - observed.switches
    if away:
        # Without any link, all connections have ended; it is unlikely that all spines have failed at once.
        return not observed.starting and away.isdisjoint(observed.lost) and bool(observed.links)
    if not {lower, upper} <= observed.ports.keys():
        # One of the switches has no such port.
        return not observed.starting
    if not observed.silent.isdisjoint((lower, upper)):
        return True
    return observed.links.get(lower, upper) != upper or observed.links.get(upper, lower) != lower
