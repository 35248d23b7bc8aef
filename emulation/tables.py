"""Parser of the output of ``ovs-ofctl dump-flows``, ``dump-groups`` and ``dump-ports``."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FLOW = re.compile(
    r"\s*cookie=(?P<cookie>0x[0-9a-f]+), duration=[\d.]+s, table=(?P<table>\d+), n_packets=(?P<packets>\d+), "
    r"n_bytes=(?P<bytes>\d+), (?:(?:idle|hard)_(?:timeout|age)=\d+, |(?:reset_counts|send_flow_rem|importance=\d+) )*"
    r"(?:(?P<match>\S+) )?actions=(?P<actions>.*)"
)
_GROUP = re.compile(r"\s*group_id=(?P<number>\d+),type=(?P<type>\w+)(?:,(?P<buckets>.*))?")
_PORT = re.compile(
    r"port\s+(\d+): rx pkts=(\d+), bytes=(\d+), drop=(\d+), .*"
    r"\s+tx pkts=(\d+), bytes=(\d+), drop=(\d+), "
)
DEFAULT_PRIORITY = 32768
"""ovs-ofctl leaves this one out."""


@dataclass(frozen=True, slots=True)
class FlowEntry:
    """A rule on a switch. ``match`` is without its priority; both texts are as Open vSwitch writes them."""

    cookie: int
    table: int
    priority: int
    packets: int
    bytes: int
    match: str
    actions: str


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """A group on a switch, its buckets as Open vSwitch writes them."""

    number: int
    type: str
    buckets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadPortCounters:
    """Packets and bytes (Ethernet headers included) through a port since it was made."""

    rx_packets: int
    rx_bytes: int
    rx_dropped: int
    tx_packets: int
    tx_bytes: int
    tx_dropped: int


def parse_flows(text: str) -> list[FlowEntry]:
    """Return the rules in the output of ``dump-flows``, in its order.

    Raises:
        ValueError: a line cannot be parsed; skipping it would give a wrong result.
    """
    entries = []
    for line in text.splitlines():
        if not line.strip() or "reply (OF1.3)" in line:
            continue
        entry = _FLOW.fullmatch(line)
        if entry is None:
            raise ValueError(f"not a flow entry: {line!r}")
        priority = DEFAULT_PRIORITY
        match = []
        for part in filter(None, (entry["match"] or "").split(",")):
            if part.startswith("priority="):
                priority = int(part.removeprefix("priority="))
            else:
                match.append(part)
        entries.append(
            FlowEntry(
                int(entry["cookie"], 16),
                int(entry["table"]),
                priority,
                int(entry["packets"]),
                int(entry["bytes"]),
                ",".join(match),
                entry["actions"],
            )
        )
    return entries


def parse_groups(text: str) -> list[GroupEntry]:
    """Return the groups in the output of ``dump-groups``, in its order.

    Raises:
        ValueError: a line cannot be parsed.
    """
    entries = []
    for line in text.splitlines():
        if not line.strip() or "reply (OF1.3)" in line:
            continue
        entry = _GROUP.fullmatch(line)
        if entry is None:
            raise ValueError(f"not a group entry: {line!r}")
        buckets = re.split(r",?bucket=", entry["buckets"] or "")
        entries.append(GroupEntry(int(entry["number"]), entry["type"], tuple(filter(None, buckets))))
    return entries


def parse_ports(text: str) -> dict[int, ReadPortCounters]:
    """Return the counters in the output of ``dump-ports --no-names`` by port number, without the bridge's own port."""
    counters = {}
    for port_match in _PORT.finditer(text):
        port, *values = (int(value) for value in port_match.groups())
        counters[port] = ReadPortCounters(*values)
    return counters
