"""What a switch has counted at one moment: the value that comes up from the switches, and meets the plan here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.southbound.rules import RuleKey


class PortCount(NamedTuple):
    """Counters of one port since the switch started, from the switch's side (``tx``: out of the switch)."""

    rx_packets: int
    tx_packets: int
    rx_bytes: int
    tx_bytes: int
    rx_dropped: int
    tx_dropped: int
    rx_errors: int
    tx_errors: int


class Count(NamedTuple):
    """Counters of a rule or a group bucket since it was installed."""

    packets: int
    bytes: int


@dataclass(frozen=True)
class SwitchCount:
    """One reading of a switch.

    Attributes:
        at: when the answer had come, in seconds of a clock that only grows.
        ports: by OpenFlow port number.
        rules: those of planned flows (priority ``FLOW``) only: the others say nothing of a flow.
        groups: each bucket's, by group id; groups of ours only.
    """

    dpid: int
    at: float
    ports: Mapping[int, PortCount] = field(default_factory=dict)
    rules: Mapping[RuleKey, Count] = field(default_factory=dict)
    groups: Mapping[int, tuple[Count, ...]] = field(default_factory=dict)
