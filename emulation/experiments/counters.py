"""Counters of the switches, read without the controller."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from controller.model.fabric import Fabric
from controller.model.packets.port_numbers import MAX_PORT
from emulation.lab import Lab

_GROUP_STATS = re.compile(r"group_id=(\d+),(.*)")
_BUCKET = re.compile(r"bucket\d+:packet_count=(\d+)")
_OUTPUT = re.compile(r"\boutput:(\d+)")
_TO_GROUP = re.compile(r"group:(\d+)")

Unit = tuple[str | None, str | None, int | None]
"""Source address, destination address, UDP source port (None: any): what a rule for RoCE packets matches.

A rule for a block of neighbouring ports has the least of them. Where ports select paths, it is a path class for all
hosts: (None, None, the least port of that class).
"""


@dataclass(frozen=True)
class RuleCount:
    """The rule of a planned flow, of a block of ports or of a path class: the counts of its matches, and its group.

    ``ports``: number of neighbouring ports that it matches.
    """

    packets: int
    bytes: int
    group: int
    ports: int = 1


@dataclass(frozen=True)
class GroupCount:
    """A fail-over group: the port of its first bucket, and packets by bucket."""

    port: int | None
    packets: tuple[int, ...]


@dataclass(frozen=True)
class Snapshot:
    """Counters of all switches at one moment.

    Attributes:
        rules: by leaf, each rule for RoCE packets of one host pair, or of one path class (exceptions included).
        groups: by leaf.
        sent: by link name: bytes that the switch at its beginning has sent over it.
    """

    rules: Mapping[str, Mapping[Unit, RuleCount]]
    groups: Mapping[str, Mapping[int, GroupCount]]
    sent: Mapping[str, int]


def snapshot(lab: Lab, fabric: Fabric) -> Snapshot:
    """Read everything. Open vSwitch adds to rules and groups up to a second after the packets."""
    leaves = [leaf.name for leaf in fabric.leaves]
    return Snapshot(
        {leaf: _rules(lab, leaf) for leaf in leaves},
        {leaf: _groups(lab, leaf) for leaf in leaves},
        sent_over_cables(lab, fabric),
    )


def _rules(lab: Lab, leaf: str) -> dict[Unit, RuleCount]:
    rules: dict[Unit, RuleCount] = {}
    for entry in lab.flows(leaf):
        fields = dict(part.split("=", 1) for part in entry.match.split(",") if "=" in part)
        if "tp_dst" not in fields:
            continue
        port, _, mask = fields.get("tp_src", "").partition("/")
        group = _TO_GROUP.search(entry.actions)
        count = RuleCount(entry.packets, entry.bytes, int(group[1]) if group else -1)
        if not mask:
            rules[fields["nw_src"], fields["nw_dst"], int(port) if port else None] = count
            continue
        if "nw_src" in fields:
            ports = (~int(mask, 0) & MAX_PORT) + 1
            rules[fields["nw_src"], fields["nw_dst"], int(port, 0)] = replace(count, ports=ports)
            continue
        # The rule of the class has its uplink; exceptions are for leaves that this uplink does not reach.
        unit = (None, None, int(port, 0))
        other = rules.get(unit, RuleCount(0, 0, -1))
        own = other if "nw_dst" in fields else count
        rules[unit] = RuleCount(count.packets + other.packets, count.bytes + other.bytes, own.group)
    return rules


def _groups(lab: Lab, leaf: str) -> dict[int, GroupCount]:
    counts = {}
    for line in lab.ofctl("dump-group-stats", leaf).splitlines():
        row = _GROUP_STATS.search(line)
        if row is not None:
            counts[int(row[1])] = tuple(int(packets) for packets in _BUCKET.findall(row[2]))
    groups = {}
    for group in lab.groups(leaf):
        output = _OUTPUT.search(group.buckets[0]) if group.buckets else None
        groups[group.number] = GroupCount(int(output[1]) if output else None, counts.get(group.number, ()))
    return groups


def sent_over_cables(lab: Lab, fabric: Fabric) -> dict[str, int]:
    """Return how many bytes switches have sent over each cable, by the name of the directed link."""
    ports = {switch.name: lab.port_counters(switch.name) for switch in fabric.switches}
    sent = {}
    for name, cable, suffix in zip(fabric.cable_names, fabric.cables, _suffixes(fabric), strict=True):
        wire = lab.wiring.wire(name)
        sent[f"{cable.lower}->{cable.upper}{suffix}"] = ports[cable.lower][wire.a.port].tx_bytes
        sent[f"{cable.upper}->{cable.lower}{suffix}"] = ports[cable.upper][wire.b.port].tx_bytes
    return sent


def _suffixes(fabric: Fabric) -> list[str]:
    return [f":{number}" if number else "" for number in fabric.cable_number.tolist()]
