"""Paces: the rates that hosts are asked to keep, of payload and on the links, by the size of packets."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from controller.model.units import GBIT

if TYPE_CHECKING:  # the command reads the limits of packet sizes for its help, which loads no numpy
    from controller.model.fabric import FloatArray

DEFAULT_MTU = 4096
"""Payload bytes of a full packet: the largest of InfiniBand (Architecture Specification 1.4, volume 1, 9.4.3)."""

LEAST_MTU, MOST_MTU = 256, 65_000

HEADERS = 8 + 14 + 20 + 8 + 12 + 4 + 4 + 12
"""Bytes of a link's time that a RoCEv2 packet takes beside its payload.

Preamble, Ethernet, IPv4, UDP and BTH headers, ICRC, check sequence, gap between packets (IEEE 802.3, clauses 3 and 4;
InfiniBand Architecture Specification 1.4, annex A17). The first packet of a message has 16 more (RETH).
"""


Key = TypeVar("Key", bound=Hashable)


UNANSWERED = 4
"""Packets that may wait for one acknowledgement at the receiver."""


class FlowPace(NamedTuple):
    """Gbit/s that a sender is asked to keep: of payload, and on the links; ``None``: it is not asked to."""

    pace_gbps: float | None
    wire_gbps: float | None


NOT_PACED = FlowPace(None, None)


@dataclass(frozen=True)
class PacketSize:
    """The size of full packets: ``mtu`` bytes of payload, and ``growth`` bytes that an enforcement adds to headers."""

    mtu: int = DEFAULT_MTU
    growth: int = 0

    @property
    def payload_share(self) -> float:
        """The part of a link's time that carries payload."""
        return self.mtu / (self.mtu + HEADERS + self.growth)

    def pace(self, wire_gbps: float | None) -> FlowPace:
        """Return the pace with this rate on the links; ``None``: there is none."""
        return NOT_PACED if wire_gbps is None else FlowPace(wire_gbps * self.payload_share, wire_gbps)


@dataclass(frozen=True, eq=False)
class Paces:
    """The rates that the senders of R rows of an assignment are asked to keep (docs/explanation/objective.md, "Paces").

    Attributes:
        wire_gbps: [R] on the links, headers included; NaN: the row is not paced.
        packets: the size of packets, from which rates of payload follow.
    """

    wire_gbps: FloatArray
    packets: PacketSize

    def of_row(self, row: int) -> FlowPace:
        """Return the pace of a row."""
        wire = float(self.wire_gbps[row])
        return self.packets.pace(None if math.isnan(wire) else wire)

    def window_bytes(self, row: int, round_trip_seconds: float) -> int | None:
        """Return the bytes of payload that a sender without a pacer may have in flight; ``None``: any number.

        Args:
            row: the row.
            round_trip_seconds: of a packet and its acknowledgement, with empty queues.
        """
        pace = self.of_row(row).pace_gbps
        return None if pace is None else window_of_pace(pace, round_trip_seconds, self.packets.mtu)


def window_of_pace(pace_gbps: float, round_trip_seconds: float, mtu: int) -> int:
    """Return the bytes of payload in flight that hold a flow near a pace: those of a round trip, and some packets.

    Args:
        pace_gbps: of payload.
        round_trip_seconds: of a packet and its acknowledgement, with empty queues.
        mtu: bytes of payload of a full packet.
    """
    return round(pace_gbps * round_trip_seconds / GBIT) + UNANSWERED * mtu


def paces_by_key(paces: Paces | None, rows: Iterable[tuple[int, Key]]) -> dict[Key, float | None]:
    """Return the pace on the links of what hosts tell apart by keys: Gbit/s, or ``None``.

    Several rows of one key may send at different times: the highest pace holds for them, and none if one has none.

    Args:
        paces: of rows; ``None``: not known.
        rows: numbers of rows, and the key of each.
    """
    wire: dict[Key, float | None] = {}
    for row, key in rows:
        own = None if paces is None else paces.of_row(row).wire_gbps
        other = wire.get(key, own)
        wire[key] = None if own is None or other is None else max(own, other)
    return wire
