"""Counters of a switch at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.model.switch_key import SwitchKey
from controller.southbound.rules.rule import RuleKey


class PortCounters(NamedTuple):
    """Counters of one port since the switch started, from the switch's side (``tx``: out of the switch)."""

    rx_packets: int
    tx_packets: int
    rx_bytes: int
    tx_bytes: int
    rx_dropped: int
    tx_dropped: int
    rx_errors: int
    tx_errors: int


class RuleCounters(NamedTuple):
    """Counters of a rule or a group bucket since it was installed."""

    packets: int
    bytes: int


@dataclass(frozen=True)
class SwitchCounters:
    """The counters of one switch, read at one moment.

    Attributes:
        switch: its key.
        at: when the reply arrived, in seconds of a monotonic clock.
        ports: counters by OpenFlow port number.
        rules: counters of rules of planned flows (from priority ``LOWEST_FLOW`` on); others are not of one flow.
        groups: counters of each bucket by group id, for groups that the controller created.
    """

    switch: SwitchKey
    at: float
    ports: Mapping[int, PortCounters] = field(default_factory=dict)
    rules: Mapping[RuleKey, RuleCounters] = field(default_factory=dict)
    groups: Mapping[int, tuple[RuleCounters, ...]] = field(default_factory=dict)
