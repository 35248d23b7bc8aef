"""Policies of routers as text, in the languages of routers."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv4Network, IPv6Address

from controller.model.errors import InputError
from controller.model.packets.flow_ports import UDP
from controller.model.packets.port_numbers import ROCE_PORT
from controller.southbound.port_classes.class_policies import ClassPolicy, RouterPolicies
from controller.southbound.srv6.formats import FORMATS, Format

FIRST_TABLE = 20000
"""Tables, and preferences of rules, of the classes of a Linux router; its main table has the preference 32766."""

NAME = "FAIRSPINE"

OWN_PRIORITY, MISSED_PRIORITY, CLASS_PRIORITY = 9000, 8000, 7000
"""Of rules of access lists in SONiC: the highest one is used."""

RESOLVED = IPv4Network("100.127.0.0/16")
"""Addresses that stand for the uplinks of classes in EOS, which routes them; no packet has them (RFC 6598)."""

LAST_DISTANCE = 250
"""Of the routes by which such an address is reached when its uplink does not work."""


def iproute2(router: RouterPolicies) -> str:
    """Return a shell script for a Linux router (kernel 4.17 or newer: rules with ranges of ports).

    A table has the prefixes of other leaves alone: packets to own hosts go on to the next rule, and in the end to the
    main table, as all do whose uplink is dead.
    """
    interfaces = sorted({each.next_hop.interface for each in router.classes})
    lines = [
        "#!/bin/sh",
        f"# {router.name}: as root, in its network namespace; again after an uplink was set down and up",
        "set -e",
        "sysctl -qw net.ipv4.conf.all.ignore_routes_with_linkdown=1",
        *(f"sysctl -qw net.ipv4.conf.{name}.ignore_routes_with_linkdown=1" for name in interfaces),
    ]
    for number, each in enumerate(router.classes, start=FIRST_TABLE):
        hop = each.next_hop
        via = f"via {hop.address}" if isinstance(hop.address, IPv4Address) else f"via inet6 {hop.address}"
        lines += [f"ip route replace {prefix} {via} dev {hop.interface} table {number}" for prefix in each.prefixes]
        ports = f"ipproto udp dport {ROCE_PORT} sport {each.first}-{each.last}"
        lines += [
            f"while ip rule del pref {number} 2>/dev/null; do :; done",
            f"ip rule add pref {number} {ports} lookup {number}",
        ]
    return "\n".join([*lines, ""])


def sonic(router: RouterPolicies) -> str:
    """Return tables of SONiC's CONFIG_DB, as JSON: an access list whose rules send packets to next hops."""
    rules: dict[str, dict[str, str]] = {}
    for number, prefix in enumerate(router.own, start=1):
        rules[f"{NAME}|OWN_{number}"] = {
            "PRIORITY": str(OWN_PRIORITY),
            "DST_IP": str(prefix),
            "PACKET_ACTION": "FORWARD",
        }
    for number, each in enumerate(router.classes, start=1):
        ports = {
            "IP_PROTOCOL": str(UDP),
            "L4_SRC_PORT_RANGE": f"{each.first}-{each.last}",
            "L4_DST_PORT": str(ROCE_PORT),
        }
        for other, prefix in enumerate(router.missed(each), start=1):
            missed = {"PRIORITY": str(MISSED_PRIORITY), "DST_IP": str(prefix), **ports, "PACKET_ACTION": "FORWARD"}
            rules[f"{NAME}|MISSED_{number}_{other}"] = missed
        target = f"{_ipv4(router, each)}@{each.next_hop.interface}"
        rules[f"{NAME}|CLASS_{number}"] = {"PRIORITY": str(CLASS_PRIORITY), **ports, "REDIRECT_ACTION": target}
    table = {"policy_desc": "paths by source ports", "type": "L3", "stage": "ingress", "ports": [*router.inward]}
    return json.dumps({"ACL_TABLE": {NAME: table}, "ACL_RULE": rules}, indent=2) + "\n"


def eos(router: RouterPolicies) -> str:
    """Return a part of the configuration of EOS (Arista): a policy for each class, by a next hop that is routed.

    The next hop of a class is an address of its own with a route over the planned uplink, and one of a greater distance
    over the others: so where the uplink is down, packets are spread over these.
    """
    lists, classes, policy, routes = [], [], [f"policy-map type pbr {NAME}"], []

    def add(name: str, entries: list[str], action: str = "") -> None:
        lists.extend([f"ip access-list {name}", *(f"   {10 * n} {text}" for n, text in enumerate(entries, 1)), "!"])
        classes.extend([f"class-map type pbr match-any {name}", f"   10 match ip access-group {name}", "!"])
        # A class without an action is routed as if there were no policy.
        policy.extend([f"   {5 * len(classes)} class {name}", *([f"      {action}"] if action else [])])

    add(f"{NAME}-OWN", [f"permit ip any {prefix}" for prefix in router.own])
    hops = [(_ipv4(router, each), each.next_hop.interface) for each in router.classes]
    for number, (each, hop) in enumerate(zip(router.classes, hops, strict=True), start=1):
        ports = f"range {each.first} {each.last}"
        if missed := router.missed(each):
            entries = [f"permit udp any {ports} {prefix} eq {ROCE_PORT}" for prefix in missed]
            add(f"{NAME}-MISSED-{number}", entries)
        address = RESOLVED.network_address + number
        entry = f"permit udp any {ports} any eq {ROCE_PORT}"
        add(f"{NAME}-{number}", [entry], f"set nexthop recursive {address}")
        routes.append(f"ip route {address}/32 {hop[1]} {hop[0]}")
        routes += [
            f"ip route {address}/32 {interface} {other} {LAST_DISTANCE}"
            for other, interface in dict.fromkeys(hops)
            if (other, interface) != hop
        ]
    ports_in = [line for name in router.inward for line in (f"interface {name}", _EOS_INPUT, "!")]
    return "\n".join([f"! {router.name}", *lists, *classes, *policy, "!", *routes, "!", *ports_in, ""])


_EOS_INPUT = f"   service-policy type pbr input {NAME}"


def _ipv4(router: RouterPolicies, policy: ClassPolicy) -> IPv4Address:
    address = policy.next_hop.address
    if isinstance(address, IPv6Address):
        raise InputError(
            f"is an IPv6 address, and policies of IPv4 packets need IPv4 next hops at {router.name}",
            field="--cables",
            value=str(address),
        )
    return address


_LINUX, _SONIC = FORMATS["iproute2"], FORMATS["sonic"]

POLICY_FORMATS: dict[str, Format[RouterPolicies]] = {
    "iproute2": Format(_LINUX.text, _LINUX.suffix, iproute2, _LINUX.interface),
    "sonic": Format(_SONIC.text, _SONIC.suffix, sonic, _SONIC.interface),
    "eos": Format("EOS (Arista)", ".conf", eos, lambda switch, port: f"Ethernet{port}"),
}
"""All languages by name."""
