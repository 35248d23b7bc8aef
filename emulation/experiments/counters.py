"""What the switches counted, read past the controller."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from controller.model.fabric import Fabric
from emulation.lab import Lab

_GROUP_STATS = re.compile(r"group_id=(\d+),(.*)")
_BUCKET = re.compile(r"bucket\d+:packet_count=(\d+)")
_OUTPUT = re.compile(r"actions=output:(\d+)")
_TO_GROUP = re.compile(r"group:(\d+)")

Unit = tuple[str, str, int | None]
"""Source address, destination address, UDP source port (None: any): what a per-flow rule matches."""


@dataclass(frozen=True)
class RuleCount:
    """A planned flow's rule: what it matched, and where its group sent it."""

    packets: int
    bytes: int
    group: int


@dataclass(frozen=True)
class GroupCount:
    """A fail-over group: the port of its first bucket, and packets by bucket."""

    port: int | None
    packets: tuple[int, ...]


@dataclass(frozen=True)
class Snapshot:
    """Counters of all switches at one moment.

    Attributes:
        rules: by leaf, each rule for RoCE packets of one host pair.
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
        _sent(lab, fabric),
    )


def _rules(lab: Lab, leaf: str) -> dict[Unit, RuleCount]:
    found: dict[Unit, RuleCount] = {}
    for entry in lab.flows(leaf):
        fields = dict(part.split("=", 1) for part in entry.match.split(",") if "=" in part)
        if not {"nw_src", "nw_dst", "tp_dst"} <= fields.keys():
            continue
        port = fields.get("tp_src")
        group = _TO_GROUP.search(entry.actions)
        unit = (fields["nw_src"], fields["nw_dst"], None if port is None else int(port))
        found[unit] = RuleCount(entry.packets, entry.bytes, int(group[1]) if group else -1)
    return found


def _groups(lab: Lab, leaf: str) -> dict[int, GroupCount]:
    counts = {}
    for line in lab.ofctl("dump-group-stats", leaf).splitlines():
        row = _GROUP_STATS.search(line)
        if row is not None:
            counts[int(row[1])] = tuple(int(packets) for packets in _BUCKET.findall(row[2]))
    found = {}
    for group in lab.groups(leaf):
        output = _OUTPUT.search(group.buckets[0]) if group.buckets else None
        found[group.number] = GroupCount(int(output[1]) if output else None, counts.get(group.number, ()))
    return found


def _sent(lab: Lab, fabric: Fabric) -> dict[str, int]:
    ports = {switch.name: lab.port_counters(switch.name) for switch in (*fabric.leaves, *fabric.spines)}
    found = {}
    for name, cable, suffix in zip(fabric.cable_names, fabric.cables, _suffixes(fabric), strict=True):
        wire = lab.wiring.wire(name)
        found[f"{cable.leaf}->{cable.spine}{suffix}"] = ports[cable.leaf][wire.a.port].tx_bytes
        found[f"{cable.spine}->{cable.leaf}{suffix}"] = ports[cable.spine][wire.b.port].tx_bytes
    return found


def _suffixes(fabric: Fabric) -> list[str]:
    return [f":{number}" if number else "" for number in fabric.cable_number.tolist()]
