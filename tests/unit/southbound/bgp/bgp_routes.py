"""Which routes BGP finds on a fabric of routers that are configured as exported, with any cables down."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Network, IPv6Network
from typing import NamedTuple

from controller.model.fabric import Fabric
from controller.southbound.srv6.bgp_configuration import BgpConfiguration, bgp_configurations
from controller.southbound.srv6.router_configuration import link_ends
from controller.southbound.srv6.segment_ids import SegmentIds


class Route(NamedTuple):
    """The AS numbers on the way, and the links over which packets may be sent."""

    path: tuple[int, ...]
    links: frozenset[int]


Prefix = IPv4Network | IPv6Network
Routes = dict[str, dict[Prefix, Route]]


def port_name(_switch: str, port: int) -> str:
    return f"eth{port}"


def speakers(ids: SegmentIds) -> dict[str, BgpConfiguration]:
    return {each.name: each for each in bgp_configurations(ids, port_name)}


def bgp_routes(ids: SegmentIds, down: Collection[int], routers: dict[str, BgpConfiguration] | None = None) -> Routes:
    """The routes of all routers, once nothing changes any more (RFC 4271: the shortest path of AS numbers)."""
    fabric, routers = ids.fabric, routers or speakers(ids)
    sessions = _sessions(fabric, down)
    tags: dict[Prefix, tuple[int, ...]] = {
        each.network: each.choices for router in routers.values() for each in router.tagged
    }
    own: Routes = {
        name: dict.fromkeys((*each.networks, *(tagged.network for tagged in each.tagged)), Route((), frozenset()))
        for name, each in routers.items()
    }
    choice = {(name, each.interface): each.choice for name, router in routers.items() for each in router.neighbors}
    withheld = {(name, each.interface): each.withheld for name, router in routers.items() for each in router.neighbors}
    routes: Routes = {name: dict(mine) for name, mine in own.items()}
    while True:
        after: Routes = {name: dict(mine) for name, mine in own.items()}
        for link, (near, far, far_interface) in sessions.items():
            asn = routers[far].asn
            for prefix, route in routes[far].items():
                mine, tagged = choice[far, far_interface], tags.get(prefix, ())
                is_other = mine is not None and mine[0] < len(tagged) and tagged[mine[0]] != mine[1]
                path = (asn,) * (1 + 2 * is_other) + route.path
                if prefix in withheld[far, far_interface] or routers[near].asn in path or prefix in own[near]:
                    continue
                before = after[near].get(prefix)
                if before is None or len(path) < len(before.path):
                    after[near][prefix] = Route(path, frozenset({link}))
                elif len(path) == len(before.path):
                    after[near][prefix] = Route(before.path, before.links | {link})
        if after == routes:
            return routes
        routes = after


def far_end(fabric: Fabric, link: int) -> str:
    """The switch to which a link of a cable leads."""
    cable, is_down = divmod(link - fabric.first_cable_link, 2)
    return fabric.cables[cable].lower if is_down else fabric.cables[cable].upper


def _sessions(fabric: Fabric, down: Collection[int]) -> dict[int, tuple[str, str, str]]:
    """By link: the router at its near end, and the one at its far end with the interface there."""
    ends = link_ends(fabric, port_name)
    sessions = {}
    for cable in set(range(len(fabric.cables))) - set(down):
        first = fabric.first_cable_link + 2 * cable
        for link, back in ((first, first + 1), (first + 1, first)):
            sessions[link] = (ends[link][0], *ends[back])
    return sessions
