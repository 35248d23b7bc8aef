"""Router configurations as text, in the languages of routers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Network
from typing import Generic, TypeVar

from controller.model.errors import InputError
from controller.model.files.locators import ID_BITS
from controller.southbound.srv6.router_configuration import InterfaceName, RouterConfiguration, StaticRoute

LOCATOR = "fairspine"
"""The name of the first locator of a router; that of its n-th further one is ``fairspine-n``."""

DUMMY = "sr0"
"""The interface that holds routes for own ids on Linux: they must not end with a port of the fabric."""


LAST_METRIC = 200 << 24
"""Of routes on Linux that are used where no other one leads to the same prefix. FRR reads the first 8 bits as their
distance, so those that it learns by BGP (20) come before them."""


NEEDED = "routers of segments need Linux 6.1 and iproute2 6.1 or newer"

Content_contra = TypeVar("Content_contra", contravariant=True)
"""What files for a router are made of."""


@dataclass(frozen=True)
class Format(Generic[Content_contra]):
    """A language in which files for routers are written.

    Attributes:
        text: what reads it, in one line.
        suffix: of the files.
        write: returns the text for a router.
        interface: the usual names of interfaces.
    """

    text: str
    suffix: str
    write: Callable[[Content_contra], str]
    interface: InterfaceName


def iproute2(router: RouterConfiguration) -> str:
    """Return a shell script for a Linux router (kernel 6.1 or newer: NEXT-CSID of End)."""
    bits = router.block.prefixlen
    remove = f"encap seg6local action End flavors next-csid lblen {bits} nflen {ID_BITS} dev {DUMMY}"
    lines = [
        "#!/bin/sh",
        f"# {router.name}: as root, in its network namespace",
        "set -e",
        "for key in net.ipv6.conf.all.forwarding net.ipv6.conf.all.seg6_enabled net.ipv6.conf.default.seg6_enabled \\",
        "    net.ipv6.conf.all.ignore_routes_with_linkdown net.ipv6.conf.default.ignore_routes_with_linkdown; do",
        '    sysctl -qw "$key=1"',
        "done",
        f"ip link show {DUMMY} >/dev/null 2>&1 || ip link add {DUMMY} type veth peer name {DUMMY}-peer",
        f"ip link set {DUMMY} up",
        f"ip link set {DUMMY}-peer up",
    ]
    for name, address in router.interfaces:
        lines += [
            f"sysctl -qw net.ipv6.conf.{name}.seg6_enabled=1 net.ipv6.conf.{name}.ignore_routes_with_linkdown=1",
            f"ip -6 address replace {address} dev {name} nodad",
            f"ip link set {name} up",
        ]
    first, *others = router.locators
    # An older kernel does not know the flavor, and takes the route for one that needs a segment routing header.
    lines += [
        f"if ! said=$(ip -6 route replace {first} {remove} 2>&1); then",
        f'    echo "{router.name}: {NEEDED}: $(echo "$said" | head -n 1)" >&2',
        "    exit 1",
        "fi",
        f'case "$(ip -6 route show {first})" in',
        "*next-csid*) ;;",
        "*)",
        f"    ip -6 route del {first} || :",
        f'    echo "{router.name}: {NEEDED}: this kernel has no NEXT-CSID" >&2',
        "    exit 1",
        "    ;;",
        "esac",
    ]
    lines += [f"ip -6 route replace {prefix} {remove}" for prefix in others]
    lines += [f"ip -6 route replace {prefix} {remove} metric {LAST_METRIC}" for prefix in router.passed_over]
    for route in router.routes:
        hops = [f"via {hop.address} dev {hop.interface}" for hop in route.next_hops]
        ways = hops[0] if len(hops) == 1 else " ".join(f"nexthop {hop}" for hop in hops)
        lines.append(f"ip -6 route replace {route.prefix} {ways}")
    lines += [f"ip -6 route replace unreachable {prefix} metric {LAST_METRIC}" for prefix in router.unreachable]
    return "\n".join(lines) + "\n"


def frr(router: RouterConfiguration) -> str:
    """Return the configuration of FRR (10.3 or newer: ``static-sids``)."""
    lines = [f"hostname {router.name}", "!"]
    for name, address in router.interfaces:
        lines += [f"interface {name}", f" ipv6 address {address}", "exit", "!"]
    lines += ["segment-routing", " srv6", "  locators"]
    bits = router.block.prefixlen
    for name, prefix in _locators(router):
        lines += [
            f"   locator {name}",
            f"    prefix {prefix} block-len {bits} node-len {ID_BITS} func-bits {ID_BITS}",
            "    behavior usid",
            "   exit",
        ]
    lines += ["  exit", "  static-sids"]
    lines += [f"   sid {prefix} locator {name} behavior uN" for name, prefix in _locators(router)]
    lines += ["  exit", " exit", "exit", "!"]
    for route in router.routes:
        lines += [f"ipv6 route {route.prefix} {hop.address} {hop.interface}" for hop in route.next_hops]
    lines += [f"ipv6 route {prefix} reject 250" for prefix in router.unreachable]
    return "\n".join([*lines, "!", ""])


def sonic(router: RouterConfiguration) -> str:
    """Return a part of SONiC's CONFIG_DB (tables of 202505 and newer), as JSON."""
    interfaces: dict[str, dict[str, str]] = {}
    for name, address in router.interfaces:
        interfaces |= {name: {}, f"{name}|{address}": {}}
    tables = {
        "INTERFACE": interfaces,
        "SRV6_MY_LOCATORS": {
            name: {
                "prefix": str(prefix.network_address),
                "block_len": str(router.block.prefixlen),
                "node_len": str(ID_BITS),
            }
            for name, prefix in _locators(router)
        },
        "SRV6_MY_SIDS": {f"{name}|{prefix}": {"action": "uN"} for name, prefix in _locators(router)},
        "STATIC_ROUTE": {f"default|{route.prefix}": _sonic_route(route) for route in router.routes},
    }
    return json.dumps(tables, indent=2) + "\n"


def _sonic_route(route: StaticRoute) -> dict[str, str]:
    return {
        "nexthop": ",".join(str(hop.address) for hop in route.next_hops),
        "ifname": ",".join(hop.interface for hop in route.next_hops),
    }


def cumulus(router: RouterConfiguration) -> str:
    """Return the commands of NVUE (Cumulus Linux 5.14 or newer)."""
    lines = [f"nv set system hostname {router.name}", "nv set router segment-routing srv6 state enabled"]
    lines += [f"nv set interface {name} ip address {address}" for name, address in router.interfaces]
    for name, prefix in _locators(router):
        locator = f"nv set router segment-routing srv6 locator {name}"
        lines += [
            f"{locator} prefix {prefix}",
            f"{locator} block-length {router.block.prefixlen}",
            f"{locator} node-length {ID_BITS}",
            f"{locator} func-length 0",
            f"nv set router segment-routing static srv6-sid {prefix} locator-name {name}",
            f"nv set router segment-routing static srv6-sid {prefix} behavior uN",
        ]
    for route in router.routes:
        lines += [f"nv set vrf default router static {route.prefix} via {hop.address}" for hop in route.next_hops]
    lines += [f"nv set vrf default router static {prefix} via reject" for prefix in router.unreachable]
    return "\n".join([*lines, ""])


def _locators(router: RouterConfiguration) -> list[tuple[str, IPv6Network]]:
    return [(f"{LOCATOR}-{n}" if n else LOCATOR, prefix) for n, prefix in enumerate(router.locators)]


def interface_names(pattern: str) -> InterfaceName:
    """Return the names of interfaces that a pattern makes, such as ``{switch}-eth{port}``.

    Raises:
        InputError: it has other braces, or names several ports alike.
    """
    rest = pattern.replace("{switch}", "").replace("{port}", "")
    if "{" in rest or "}" in rest or "{port}" not in pattern:
        raise InputError("needs {port}, may have {switch}, and no other braces", field="--interface", value=pattern)

    def name(switch: str, port: int) -> str:
        return pattern.replace("{switch}", switch).replace("{port}", str(port))

    return name


FORMATS: dict[str, Format[RouterConfiguration]] = {
    "iproute2": Format("Linux, by shell scripts", ".sh", iproute2, lambda switch, port: f"eth{port}"),
    "frr": Format("FRR 10.3 or newer", ".conf", frr, lambda switch, port: f"eth{port}"),
    "sonic": Format("SONiC, tables of CONFIG_DB", ".json", sonic, lambda switch, port: f"Ethernet{4 * (port - 1)}"),
    "cumulus": Format("Cumulus Linux 5.14 or newer, by NVUE", ".sh", cumulus, lambda switch, port: f"swp{port}"),
}
"""All languages by name."""
