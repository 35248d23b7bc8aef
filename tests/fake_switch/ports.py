"""The ports of a switch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ryu.ofproto import ofproto_v1_3 as ofp

from controller.model.fabric import Cable, Fabric


@dataclass
class Port:
    """One port and its counters. It is ``up`` while neither it nor the far end is set down."""

    number: int
    name: str
    mac: str
    gbps: float
    on: bool = True
    carrier: bool = True
    rx_packets: int = 0
    tx_packets: int = 0
    rx_bytes: int = 0
    tx_bytes: int = 0

    @property
    def up(self) -> bool:
        return self.on and self.carrier

    @property
    def config(self) -> int:
        return 0 if self.on else int(ofp.OFPPC_PORT_DOWN)

    @property
    def state(self) -> int:
        return int(ofp.OFPPS_LIVE) if self.up else int(ofp.OFPPS_LINK_DOWN)

    @property
    def kbps(self) -> int:
        return min(int(self.gbps * 1e6), 0xFFFFFFFF)

    def received(self, octets: int, packets: int = 1) -> None:
        self.rx_packets += packets
        self.rx_bytes += octets

    def sent(self, octets: int, packets: int = 1) -> None:
        self.tx_packets += packets
        self.tx_bytes += octets


def ports_of(fabric: Fabric, switch: str) -> Iterator[Port]:
    """A switch's ports; those of cables that are not up are set down."""
    ends = [(host.leaf, host.port, host.gbps, host.up) for host in fabric.hosts]
    for cable in fabric.cables:
        ends += [(name, port, cable.gbps, cable.up) for name, port in cable_ends(cable)]
    for name, number, gbps, up in ends:
        if name == switch and number is not None:
            yield Port(number, f"{switch}-{number}", f"02:fa:4e:00:{number >> 8:02x}:{number & 255:02x}", gbps, on=up)


def cable_ends(cable: Cable) -> tuple[tuple[str, int | None], tuple[str, int | None]]:
    """Switch and port of both ends."""
    return (cable.lower, cable.lower_port), (cable.upper, cable.upper_port)
