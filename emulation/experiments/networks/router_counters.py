"""Counters of routers: packets of each flow that came over each link, and bytes of each link.

Each router counts RoCE packets by the interface over which they come and by addresses and source port, of plain ones
as of those in carriers. Sets of nftables do so before the router looks at its tables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any, NamedTuple

from controller.model.packets.port_numbers import ROCE_PORT
from emulation.errors import LabError
from emulation.experiments.counters import Unit
from emulation.lab.routers import RouterLab

TABLE = "fairspine_lab"

PLAIN = "iifname . ip saddr . ip daddr . udp sport"
INSIDE = "iifname . @nh,416,32 . @nh,448,32 . @nh,480,16"
"""The same of an IPv4 packet behind an IPv6 header of 40 bytes: bits of the network header on."""

INSIDE_TARGET = "@nh,496,16"
SETS = {
    "plain": (PLAIN, f"udp dport {ROCE_PORT}"),
    "inside": (INSIDE, f"ip6 nexthdr 4 {INSIDE_TARGET} {ROCE_PORT}"),
}
"""Key and match of each set."""

ETHERNET_BYTES = 14
"""nftables counts packets without it, and interfaces with it."""


class PacketCount(NamedTuple):
    """Packets and their bytes, as interfaces count them."""

    packets: int = 0
    bytes: int = 0

    def plus(self, other: PacketCount) -> PacketCount:
        """Return the sum."""
        return PacketCount(self.packets + other.packets, self.bytes + other.bytes)

    def since(self, earlier: PacketCount) -> PacketCount:
        """Return the difference to an earlier count."""
        return PacketCount(self.packets - earlier.packets, self.bytes - earlier.bytes)


@dataclass(frozen=True)
class RouterSnapshot:
    """Counters of all routers at one moment.

    Attributes:
        arrived: by link that leads to a router, and by flow: what came over it. The units of flows have all members.
        sent: by link between two routers: bytes that were sent over it.
    """

    arrived: Mapping[str, Mapping[Unit, PacketCount]]
    sent: Mapping[str, int]


def count_flows(lab: RouterLab) -> None:
    """Let all routers count flows from now on.

    Raises:
        LabError: nftables refuses.
    """
    for router in lab.wiring.routers:
        _run(lab, router, _table())


def _table() -> str:
    sets = [f"set {name} {{ typeof {key}; flags dynamic; counter; size 65536; }}" for name, (key, _) in SETS.items()]
    rules = [f"{match} update @{name} {{ {key} counter }}" for name, (key, match) in SETS.items()]
    chain = ["chain arrive {", "type filter hook prerouting priority raw; policy accept;", *rules, "}"]
    return "\n".join([f"table inet {TABLE} {{", *sets, *chain, "}"])


def router_snapshot(lab: RouterLab) -> RouterSnapshot:
    """Read everything."""
    fabric = lab.fabric
    sent = dict(zip(fabric.link_ids, lab.sent(), strict=True))
    cables = fabric.link_ids[fabric.first_cable_link :]
    ends = {link: lab.ends(link)[1] for link in range(fabric.n_links)}
    far = {(end.node, end.interface): fabric.link_ids[link] for link, end in ends.items()}
    arrived: dict[str, dict[Unit, PacketCount]] = {}
    for router in lab.wiring.routers:
        for row in json.loads(_run(lab, router, "-j", "list", "table", "inet", TABLE))["nftables"]:
            for each in row.get("set", {}).get("elem", ()):
                interface, unit, count = _counted(each["elem"])
                units = arrived.setdefault(far[router, interface], {})
                # A flow may have sent plain packets, and others in carriers.
                units[unit] = units.get(unit, PacketCount()).plus(count)
    return RouterSnapshot(arrived, {link: sent[link] for link in cables})


def _counted(element: Mapping[str, Any]) -> tuple[str, Unit, PacketCount]:
    interface, src, dst, port = element["val"]["concat"]
    count = element["counter"]
    size = count["bytes"] + ETHERNET_BYTES * count["packets"]
    # Addresses are numbers where they are read as bits.
    return interface, (str(IPv4Address(src)), str(IPv4Address(dst)), int(port)), PacketCount(count["packets"], size)


def _run(lab: RouterLab, router: str, *arguments: str) -> str:
    done = lab.run(router, ["nft", *arguments])
    if done.returncode:
        raise LabError(f"{router}: nft: {done.stderr.strip()}")
    return done.stdout
