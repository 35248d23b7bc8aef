"""The configuration of routers for BGP: what each announces over which interface (RFC 7938: eBGP within a fabric).

It takes the place of static routes. A router announces its segment ids, and a leaf also the networks of its hosts.
Switches of the top layer have one AS number, aggregation switches one for each pod, and each leaf has one of its own:
a path that came down to a leaf or a pod never goes up from there again, since BGP drops paths with an AS twice.

Where two switches have several cables, the id of the n-th cable is announced over the n-th cable only. So neighbours
have a route to this id as long as this cable works, and whoever hears their routes knows it of each cable.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from controller.model.fabric import Fabric
from controller.southbound.srv6.router_configuration import (
    DEFAULT_CABLES,
    CableAddresses,
    InterfaceName,
    link_ends,
)
from controller.southbound.srv6.segment_ids import IdRange, SegmentIds

TOP_AS, FIRST_POD_AS, FIRST_LEAF_AS, CONTROLLER_AS = 4200000000, 4210000000, 4220000000, 4230000000
"""AS numbers for private use (RFC 6996)."""

MOST_ASN = 2**32 - 2
"""The largest AS number but for a reserved one (RFC 7300)."""

FIRST_ROUTER_ID = IPv4Address("100.64.0.1")
"""Router ids only have to differ (RFC 6286)."""


@dataclass(frozen=True)
class BgpObserver:
    """Who hears the routes of a router, and announces nothing: a controller, which opens the connection."""

    address: IPv4Address | IPv6Address
    asn: int = CONTROLLER_AS


@dataclass(frozen=True)
class BgpNeighbor:
    """The router at the other end of a cable.

    Attributes:
        interface: own interface of the cable.
        withheld: own networks that are not announced over it.
        choice: the tier of the cable and its number among the uplinks of the router: tagged networks of another number
            are announced as further away; ``None``: the cable leads down, or no network is tagged.
    """

    interface: str
    withheld: tuple[IPv6Network, ...]
    choice: tuple[int, int] | None = None


@dataclass(frozen=True)
class TaggedNetwork:
    """A network that others reach best by certain uplinks: the number of the one on each tier, from the leaf up."""

    network: IPv4Network
    choices: tuple[int, ...]


@dataclass(frozen=True)
class BgpConfiguration:
    """What one router is configured with.

    Attributes:
        name: of the switch.
        asn: its AS number.
        router_id: its router id.
        neighbors: the routers at its cables.
        networks: what it announces, IPv6.
        networks_of_hosts: those of hosts, IPv4.
        observers: who hears its routes.
        tagged: what it announces with tags (``controller/southbound/path_addresses``).
    """

    name: str
    asn: int
    router_id: IPv4Address
    neighbors: tuple[BgpNeighbor, ...]
    networks: tuple[IPv6Network, ...]
    networks_of_hosts: tuple[IPv4Network, ...]
    observers: tuple[BgpObserver, ...] = ()
    tagged: tuple[TaggedNetwork, ...] = ()


def as_numbers(fabric: Fabric) -> dict[str, int]:
    """Return the AS number of each switch."""
    numbers = {leaf.name: FIRST_LEAF_AS + i for i, leaf in enumerate(fabric.leaves)}
    if len(fabric.layers) == 3:
        pods = fabric.pods.of_agg.tolist()
        numbers |= {agg.name: FIRST_POD_AS + pod for agg, pod in zip(fabric.layers[1], pods, strict=True)}
    return numbers | {switch.name: TOP_AS for switch in fabric.layers[-1]}


def bgp_configurations(
    ids: SegmentIds,
    interface: InterfaceName,
    cables: IPv6Network = DEFAULT_CABLES,
    observers: tuple[BgpObserver, ...] = (),
) -> tuple[BgpConfiguration, ...]:
    """Return the configuration of each switch, layer by layer.

    Args:
        ids: the ids of the fabric, which are checked.
        interface: see ``InterfaceName``.
        cables: the network from which ends of cables have their addresses.
        observers: who hears the routes of all routers.

    Raises:
        InputError: the port of a cable or host is unknown.
    """
    fabric = ids.fabric
    ends, addresses, asns = link_ends(fabric, interface), CableAddresses(fabric, cables), as_numbers(fabric)
    at: dict[str, list[tuple[str, int]]] = {switch.name: [] for switch in fabric.switches}
    for cable, number in enumerate(fabric.cable_number.tolist()):
        for link in (fabric.first_cable_link + 2 * cable, fabric.first_cable_link + 2 * cable + 1):
            name, port = ends[link]
            at[name].append((port, number))
    made: list[BgpConfiguration] = []
    for layer, switches in enumerate(fabric.layers):
        for index, switch in enumerate(switches):
            every = ids.switch(layer, index)
            of_cable = {number: ids.prefix(IdRange(every.first + number)) for _, number in at[switch.name]}
            networks = [ids.prefix(every)]
            single = of_cable if every.count > 1 else {}
            networks += sorted(single.values())
            if layer == 0:
                networks += [addresses.of_leaf(index), *fabric.ipv6_leaf_prefixes[index]]
            neighbors = (
                BgpNeighbor(port, tuple(single[other] for other in sorted(single) if other != number))
                for port, number in at[switch.name]
            )
            made.append(
                BgpConfiguration(
                    switch.name,
                    asns[switch.name],
                    FIRST_ROUTER_ID + len(made),
                    tuple(neighbors),
                    tuple(networks),
                    fabric.leaf_prefixes[index] if layer == 0 else (),
                    observers,
                )
            )
    return tuple(made)
