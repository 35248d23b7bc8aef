"""Whether each planned flow went where the plan says, judged by what the switches counted.

Three counters have to agree. The flow's own rule at its first leaf counts its packets. The rule's fail-over group
counts what it sent to each bucket: all of it to the planned uplink, nothing to the others. And each link between a
leaf and a spine has sent as many bytes as the flows that are planned over it bring, which also covers the way down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emulation.experiments.counters import GroupCount, RuleCount, Snapshot, Unit
from emulation.experiments.scale import MTU

ACK_BYTES = 64
"""An acknowledgement's frame (62 bytes), and a little more."""

OTHER_BYTES = 64 * 1024
"""What else passes a link in a run: discovery and ARP."""

_FRAME_BYTES = 4200


@dataclass(frozen=True)
class Planned:
    """What a switch can tell apart of the plan: one flow or, where ports are unknown, all flows of two hosts.

    Attributes:
        flows: ids of the flows.
        links: from the first leaf to the last one; the first is the uplink.
        packets: full packets that its payload needs at least.
    """

    unit: Unit
    flows: tuple[str, ...]
    leaf: str
    links: tuple[str, ...]
    packets: int


@dataclass(frozen=True)
class Counted:
    """What was counted of it.

    Attributes:
        packets, bytes: by its rule at the first leaf.
        elsewhere: packets that its fail-over group sent to another uplink.
    """

    planned: Planned
    packets: int
    bytes: int
    elsewhere: int


@dataclass(frozen=True)
class Evidence:
    """The verdict: ``wrong`` is empty where every flow took its planned way."""

    flows: tuple[Counted, ...]
    sent: Mapping[str, int]
    wrong: tuple[str, ...]


def planned_units(
    ips: Mapping[str, str], told: Mapping[str, Mapping[str, Any]], payload: Mapping[tuple[str, str, int | None], int]
) -> list[Planned]:
    """What the plan says, from the answers of ``GET /v1/routes``.

    Args:
        ips: address of each host.
        payload: bytes that (source, destination, UDP source port or None) sends.
    """
    flows: dict[Unit, list[str]] = {}
    ways: dict[Unit, tuple[str, tuple[str, ...], int]] = {}
    for host, document in told.items():
        for flow in document["flows"]:
            for piece in flow["pieces"]:
                if piece["path"] is None:
                    continue
                unit = (ips[host], ips[flow["dst"]], piece["udp_src"])
                inner = tuple(piece["links"][1:-1])
                flows.setdefault(unit, []).append(flow["id"])
                size = payload[host, flow["dst"], piece["udp_src"]]
                ways[unit] = (inner[0].split("->")[0], inner, -(-size // MTU))
    return [Planned(unit, tuple(flows[unit]), *ways[unit]) for unit in flows]


def arrived(planned: Sequence[Planned], before: Snapshot, after: Snapshot) -> bool:
    """Whether the rules have counted everything that must have passed them."""
    return all(_difference(one, before, after).packets >= one.packets for one in planned)


def judge(
    planned: Sequence[Planned],
    uplink_ports: Mapping[str, int],
    before: Snapshot,
    after: Snapshot,
    *,
    retransmissions: int,
) -> Evidence:
    """Compare the counters of a run with its plan.

    Args:
        uplink_ports: OpenFlow port of each uplink at its leaf, by link name.
        retransmissions: packets that were sent again; where one was lost, links behind have sent less.
    """
    wrong: list[str] = []
    counted = []
    load: dict[str, int] = dict.fromkeys(after.sent, 0)
    for one in planned:
        name = ", ".join(one.flows)
        count = _difference(one, before, after)
        group = after.groups[one.leaf].get(count.group, GroupCount(None, ()))
        elsewhere = _elsewhere(before.groups[one.leaf].get(count.group), group)
        counted.append(Counted(one, count.packets, count.bytes, elsewhere))
        for link in one.links:
            load[link] += count.bytes
        if one.unit not in after.rules[one.leaf]:
            wrong.append(f"{name}: {one.leaf} has no rule for it")
        elif group.port != uplink_ports[one.links[0]]:
            wrong.append(f"{name}: {one.leaf} sends it out of port {group.port}, planned is {one.links[0]}")
        elif count.packets < one.packets:
            wrong.append(f"{name}: {one.leaf} counted {count.packets} packets, {one.packets} were sent at least")
        elif elsewhere:
            wrong.append(f"{name}: {elsewhere} packets left {one.leaf} by another uplink than {one.links[0]}")
    wrong += _off_links(load, before, after, sum(c.packets for c in counted), retransmissions)
    sent = {link: after.sent[link] - before.sent[link] for link in after.sent}
    return Evidence(tuple(counted), sent, tuple(wrong))


def _off_links(
    load: Mapping[str, int], before: Snapshot, after: Snapshot, packets: int, retransmissions: int
) -> Iterable[str]:
    """Links that sent more, or less, than their planned flows explain."""
    # Acknowledgements go by ECMP, so any link may have any part of them: one for each packet at the very most.
    allowed = packets * ACK_BYTES // 4 + retransmissions * _FRAME_BYTES + OTHER_BYTES
    for link, planned in load.items():
        sent = after.sent[link] - before.sent[link]
        if abs(sent - planned) > allowed:
            yield f"{link} sent {sent} bytes, its planned flows bring {planned} (and others {allowed} at most)"


def _difference(one: Planned, before: Snapshot, after: Snapshot) -> RuleCount:
    nothing = RuleCount(0, 0, -1)
    old = before.rules[one.leaf].get(one.unit, nothing)
    new = after.rules[one.leaf].get(one.unit, nothing)
    return RuleCount(new.packets - old.packets, new.bytes - old.bytes, new.group)


def _elsewhere(before: GroupCount | None, after: GroupCount) -> int:
    old = before.packets if before is not None else (0,) * len(after.packets)
    return sum(after.packets[1:]) - sum(old[1:])
