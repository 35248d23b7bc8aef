"""What networks show that are cabled like a fabric, and fabrics whose cables lead elsewhere."""

from __future__ import annotations

import dataclasses

from controller.model.fabric import Fabric
from controller.model.network_state import Location, NetworkState, PortId


def seen(fabric: Fabric, *, hosts: bool = False) -> NetworkState:
    """What a network that is cabled like this shows: down cables have both ports down and carry nothing."""
    key = {switch.name: switch.key for switch in fabric.switches}
    ports: dict[PortId, bool] = {}
    links: dict[PortId, PortId] = {}
    for cable in fabric.cables:
        a = PortId(key[cable.lower], cable.lower_port or 0)
        b = PortId(key[cable.upper], cable.upper_port or 0)
        ports[a] = ports[b] = cable.up
        if cable.up:
            links[a], links[b] = b, a
    places = {}
    for host in fabric.hosts:
        at = PortId(key[host.leaf], host.port or 0)
        ports[at] = host.up
        if hosts:
            places[host.ip] = Location(host.mac, at)
    return NetworkState(ports, frozenset(key.values()), links, places)


def rewired(fabric: Fabric, changes: dict[str, tuple[str, str]]) -> Fabric:
    """The fabric with the far ends of some cables moved: name -> (spine, whose port it takes)."""
    by_name = dict(zip(fabric.cable_names, fabric.cables, strict=True))
    cables = []
    for name, cable in by_name.items():
        if name in changes:
            spine, port_of = changes[name]
            cable = dataclasses.replace(cable, upper=spine, upper_port=by_name[port_of].upper_port)
        cables.append(cable)
    return dataclasses.replace(fabric, cables=tuple(cables))
