"""The files by which routers and hosts are configured for addresses of paths."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from controller.southbound.path_addresses.bgp_tags import with_path_addresses
from controller.southbound.path_addresses.path_addresses import PathAddresses
from controller.southbound.srv6.bgp_configuration import bgp_configurations
from controller.southbound.srv6.frr_bgp import frr_bgp
from controller.southbound.srv6.router_configuration import InterfaceName
from controller.southbound.srv6.segment_ids import SegmentIds


def router_texts(addresses: PathAddresses, interface: InterfaceName) -> Iterator[tuple[str, str]]:
    """Yield the name of each switch and its configuration for FRR.

    Raises:
        InputError: see ``with_path_addresses``.
    """
    usual, routes = bgp_configurations(SegmentIds.of(addresses.fabric), interface), leaf_routes(addresses)
    made = with_path_addresses([dataclasses.replace(each, networks=()) for each in usual], addresses, interface)
    for router in made:
        yield router.name, "\n".join([f"hostname {router.name}", "!", *routes.get(router.name, ()), frr_bgp(router)])


def leaf_routes(addresses: PathAddresses) -> dict[str, list[str]]:
    """Return for each leaf FRR's routes to all addresses of its hosts, over their usual addresses."""
    fabric = addresses.fabric
    routes: dict[str, list[str]] = {}
    for host, own in enumerate(fabric.hosts):
        of_host = (addresses.of_host(host, number) for number in addresses.classes(int(fabric.host_leaf[host])))
        routes.setdefault(own.leaf, []).extend(f"ip route {each}/32 {own.ip}" for each in of_host)
    return routes


def host_scripts(addresses: PathAddresses) -> Iterator[tuple[str, str]]:
    """Yield the name of each host and a shell script that adds its addresses to the interface that is its argument."""
    fabric = addresses.fabric
    for host, own in enumerate(fabric.hosts):
        of_host = (addresses.of_host(host, number) for number in addresses.classes(int(fabric.host_leaf[host])))
        lines = ["#!/bin/sh", f"# {own.name}: as root; the argument is the interface", "set -e"]
        yield own.name, "\n".join([*lines, *(f'ip address replace {each}/32 dev "$1"' for each in of_host), ""])
