"""How BGP leads each address over its path: a leaf tags what it announces with the choices of the path (communities).

Over each uplink a switch announces the addresses whose choice it is as they are, and those of other choices with its
AS number three times. So the route over the planned path is the shortest one everywhere, and the others are used when
it is gone. Tags do not depend on who announces: an aggregation switch is configured by its own uplinks alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from controller.southbound.path_addresses.path_addresses import PathAddresses
from controller.southbound.srv6.bgp_configuration import BgpConfiguration, TaggedNetwork
from controller.southbound.srv6.router_configuration import InterfaceName, link_ends


def with_path_addresses(
    routers: Sequence[BgpConfiguration], addresses: PathAddresses, interface: InterfaceName
) -> tuple[BgpConfiguration, ...]:
    """Return the configurations of all switches with the addresses of paths.

    Raises:
        InputError: ``PathAddresses.check`` refuses them, or the port of a cable or host is unknown.
    """
    addresses.check()
    fabric, ends = addresses.fabric, link_ends(addresses.fabric, interface)
    chosen: dict[tuple[str, str], tuple[int, int]] = {}
    for tier in range(fabric.ways.n_tiers):
        for links in fabric.ways.tier(tier).up.tolist():
            chosen |= {ends[link]: (tier, k) for k, link in enumerate(links) if link >= 0}
    leaves = {switch.name: leaf for leaf, switch in enumerate(fabric.leaves)}

    def tagged(leaf: int) -> tuple[TaggedNetwork, ...]:
        classes = addresses.classes(leaf).items()
        return tuple(TaggedNetwork(addresses.of_leaf(leaf, number), choices) for number, choices in classes)

    return tuple(
        dataclasses.replace(
            router,
            tagged=tagged(leaves[router.name]) if router.name in leaves else (),
            neighbors=tuple(
                dataclasses.replace(each, choice=chosen.get((router.name, each.interface))) for each in router.neighbors
            ),
        )
        for router in routers
    )
