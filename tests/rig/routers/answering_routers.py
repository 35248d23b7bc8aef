"""Fabrics of routers that answer hop-limited probes."""

from __future__ import annotations

import dataclasses

from controller.model.fabric import Fabric
from controller.southbound.srv6.router_configuration import CableAddresses, link_ends
from emulation.lab.routers import FORMAT


def addressed_ipv6(fabric: Fabric) -> Fabric:
    """The same fabric of routers with the IPv6 addresses of their ports, from which Linux answers."""
    place = addressed(fabric)
    cables = CableAddresses(place)
    of_switch: dict[str, list[str]] = {}
    for link, (switch, _) in link_ends(place, FORMAT.interface).items():
        of_switch.setdefault(switch, []).append(str(cables.of_link(link, far=False).ip))
    layers = tuple(
        tuple(dataclasses.replace(each, addresses=(*each.addresses, *of_switch[each.name])) for each in switches)
        for switches in place.layers
    )
    return dataclasses.replace(place, layers=layers)


def addressed(fabric: Fabric) -> Fabric:
    """The same fabric of routers with an address each."""
    layers = tuple(
        tuple(
            dataclasses.replace(each, key=each.name, addresses=(f"10.255.{layer}.{n}",))
            for n, each in enumerate(switches, start=1)
        )
        for layer, switches in enumerate(fabric.layers)
    )
    return dataclasses.replace(fabric, layers=layers)
