"""What lines for ``ip -batch`` make of servers, and the circuits that packets cross by them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping

from controller.circuits.fabric.optical_fabric import Circuit, OpticalFabric


class Host:
    """The addresses of a server, its neighbours, and its routes: the interface and gateway of each prefix."""

    def __init__(self, lines: Iterable[str] = ()) -> None:
        self.own: list[ipaddress.IPv4Network] = []
        self.lladdr: dict[tuple[str, int], str] = {}
        self.routes: dict[ipaddress.IPv4Network, tuple[int, str]] = {}
        for line in lines:
            self.apply(line)

    def apply(self, line: str) -> None:
        """Do one line."""
        words = line.split()
        if words[:2] == ["address", "replace"]:
            self.own.append(ipaddress.IPv4Network(words[2], strict=False))
        elif words[:2] == ["neigh", "replace"]:
            self.lladdr[words[2], int(words[6].removeprefix("eth"))] = words[4]
        elif words[:2] == ["route", "replace"]:
            prefix = ipaddress.IPv4Network(words[2])
            gateway = words[words.index("via") + 1] if "via" in words else str(prefix.network_address)
            self.routes[prefix] = int(words[words.index("dev") + 1].removeprefix("eth")), gateway
        elif words[:3] == ["route", "flush", "root"]:
            inside = ipaddress.IPv4Network(words[3])
            self.routes = {prefix: way for prefix, way in self.routes.items() if not prefix.subnet_of(inside)}
        else:
            assert words[:2] == ["link", "set"], line

    def owns(self, address: str) -> bool:
        """Whether packets to an address are this server's."""
        return any(ipaddress.IPv4Address(address) in each for each in self.own)

    def way(self, address: str) -> tuple[int, str]:
        """The NIC by which packets to an address leave, and the Ethernet address that they get."""
        number = ipaddress.IPv4Address(address)
        prefix = max((each for each in self.routes if number in each), key=lambda each: each.prefixlen)
        nic, gateway = self.routes[prefix]
        return nic, self.lladdr[gateway, nic]


def circuits_of_packet(
    fabric: OpticalFabric,
    hosts: Mapping[int, Host],
    macs: Mapping[str, tuple[int, int]],
    lit: Iterable[Circuit],
    at: int,
    to: str,
) -> list[Circuit]:
    """Send a packet from a server to an address; the circuits that it crosses.

    Fails if it is lost: by a NIC without a circuit, by a circuit to another Ethernet address, or in a circle.
    """
    by_sender = {fabric.nic_at[fabric.switch_names.index(each.switch), each.in_port]: each for each in lit}
    crossed: list[Circuit] = []
    while not hosts[at].owns(to):
        nic, mac = hosts[at].way(to)
        circuit = by_sender[at, nic]
        receiver = fabric.nic_at[fabric.switch_names.index(circuit.switch), circuit.out_port]
        assert macs[mac] == receiver
        crossed.append(circuit)
        assert len(crossed) <= fabric.n_servers, "a circle"
        at = receiver[0]
    return crossed
