"""Settings of the packet engine, and what follows from them on a fabric."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from controller.model.fabric import Fabric
from controller.model.paces import HEADERS, PacketSize
from controller.model.units import GBIT, MICROSECOND
from emulation.policy_names import METERS, PACED, WINDOWS

ACK_BYTES = 84
"""Bytes of a link's time that an acknowledgement takes: the smallest Ethernet frame, preamble and gap included."""

BITS = 8 / GBIT
"""Bits in a Gbit, over the Gbit in a byte: Gbit/s in bit/s."""


class EventCore(StrEnum):
    """What carries out the events of the packet engine, and sends packets over links.

    ``OWN``: fairspine's, which needs a compiler only. ``NS3``: ns-3's, some five times slower, with equal results.
    """

    OWN = "own"
    NS3 = "ns3"


class CongestionControl(StrEnum):
    """How the packets in flight of a connection are limited.

    ``DCTCP``: as RFC 8257 has it, from a window of one bandwidth-delay product. ``WINDOW``: this window, constant.
    """

    DCTCP = "dctcp"
    WINDOW = "window"


class Recovery(StrEnum):
    """What becomes of packets for which a queue has no room.

    ``TRIM``: the queue sends on their headers, and the receiver asks for them at once (Ultra Ethernet). ``SELECTIVE``:
    they are dropped, and sent again when later ones of their path have arrived, or after a timeout. ``GO_BACK_N``: they
    are dropped, and everything from them on is sent again (RoCEv2).
    """

    TRIM = "trim"
    SELECTIVE = "selective"
    GO_BACK_N = "go_back_n"


@dataclass(frozen=True)
class PacketSettings:
    """Hosts, switches and cables of the packet engine.

    Attributes:
        packets: the size of packets.
        cable_seconds: delay of every cable.
        queue: room for data at each output of a switch, in bandwidth-delay products.
        mark_from: part of the room from which packets are marked (ECN).
        mark_all: part of the room from which all are; between both, linearly more.
        ack_every: packets for each acknowledgement.
        pace_window: round trips of its pace that a connection may have in flight, and ``ack_every`` packets; 0: hosts
            keep paces.
        meters: bandwidth-delay products in the bucket of the meter that keeps a connection to its pace at its first
            switch, and drops packets beyond; hosts keep no paces then. 0: there are no meters.
        bin_seconds: length of the bins of link load; 0: it is not recorded.
        record_transfers: whether the times of all transfers are recorded.
        core: of the program.
    """

    packets: PacketSize = field(default_factory=PacketSize)
    cable_seconds: float = MICROSECOND
    queue: float = 1.0
    mark_from: float = 0.2
    mark_all: float = 0.8
    control: CongestionControl = CongestionControl.DCTCP
    recovery: Recovery = Recovery.TRIM
    ack_every: int = 4
    pace_window: float = 0.0
    meters: float = 0.0
    bin_seconds: float = 0.0
    record_transfers: bool = False
    core: EventCore = EventCore.OWN

    @property
    def kept(self) -> str:
        """What keeps flows to the paces of plans: the end of the names of policies in tables."""
        if self.meters:
            return METERS
        return WINDOWS if self.pace_window else PACED

    @property
    def packet_bytes(self) -> int:
        """Bytes of a link's time that a full packet takes."""
        return self.packets.mtu + HEADERS + self.packets.growth

    def round_trip_seconds(self, fabric: Fabric) -> float:
        """Return the time from a packet to its acknowledgement on the longest path, with empty queues."""
        links = 2 * len(fabric.layers)
        return links * (2 * self.cable_seconds + (self.packet_bytes + ACK_BYTES) * GBIT / _usual_gbps(fabric))

    def delay_product(self, fabric: Fabric) -> float:
        """Return the bytes that a host can have in flight on the longest path: the bandwidth-delay product."""
        host = float(fabric.link_gbps[: fabric.n_hosts].max())
        return self.round_trip_seconds(fabric) * host / GBIT

    def latency_seconds(self, fabric: Fabric, links: int) -> float:
        """Return what a message takes longer over so many links than its bytes take on the slowest of them."""
        return links * self.cable_seconds + (links - 1) * self.packet_bytes * GBIT / _usual_gbps(fabric)


def _usual_gbps(fabric: Fabric) -> float:
    """Return the speed of links; of unlike ones the median, since nobody sizes queues by a link that is slow."""
    return float(np.median(fabric.link_gbps))
