"""Addresses with a zone: which network an address belongs to, where it exists in several.

The ports of a bond share an address, each in a network of its own (``controller.model.planes``). Where a fabric has
bonds, an address is therefore written with its network, in the form of RFC 4007, section 11: ``10.0.1.1%1`` is the port
in network 1, and in network 0 there is no zone. In other fabrics all addresses are without zones.
"""

from __future__ import annotations

from controller.model.fabric import Fabric

ZONE = "%"
"""Before the network in an address that has a zone."""


def zoned(ip: str, network: int) -> str:
    """Return an address of a network with its zone."""
    return f"{ip}{ZONE}{network}" if network else ip


def plain(ip: str) -> str:
    """Return an address without its zone."""
    return ip.partition(ZONE)[0]


def same_zone(ip: str, mac: str) -> str:
    """Return a MAC address with the zone of an IPv4 address."""
    _, mark, network = ip.partition(ZONE)
    return mac + mark + network


def zone_of_leaves(fabric: Fabric) -> list[int]:
    """Return the zone [L] of the addresses on each leaf: its network if the fabric has bonds, else 0."""
    networks: list[int] = fabric.planes.network[0].tolist()
    return networks if fabric.planes.bonds else [0] * len(networks)


def zoned_addresses(fabric: Fabric) -> list[str]:
    """Return the address [H] of each host with its zone."""
    zones = zone_of_leaves(fabric)
    return [zoned(host.ip, zones[leaf]) for host, leaf in zip(fabric.hosts, fabric.host_leaf.tolist(), strict=True)]
