"""The ports of a switch."""

from __future__ import annotations

from dataclasses import dataclass

from ryu.ofproto import ofproto_v1_3 as ofp


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
