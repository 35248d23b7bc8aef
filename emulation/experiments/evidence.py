"""Check, by the counters of the switches, that each planned flow took its planned path.

Three counters have to agree. The flow's own rule at its first leaf counts its packets. The rule's fail-over group
counts what it sent to each bucket: all of it to the planned uplink, nothing to the others. And each link between a
leaf and a spine has sent as many bytes as the flows that are planned over it bring, which also covers the way down.

Where ports select paths, a flow has no rule: the rule of its path class counts all flows of the leaf in this class,
and its count is divided among them in proportion to the bytes that they sent. So is that of a rule for several
QPs with neighbouring ports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from controller.southbound.enforcement.labels import LABEL_BYTES
from controller.southbound.enforcement.port_blocks import PORT_BITS
from emulation.experiments.counters import GroupCount, RuleCount, Snapshot, Unit
from emulation.experiments.scale import MTU

ACK_BYTES = 64
"""An acknowledgement's frame (62 bytes), and a little more."""

OTHER_BYTES = 64 * 1024
"""Bytes of other traffic on a link in a run: discovery and ARP."""

_FRAME_BYTES = 4200


@dataclass(frozen=True)
class Planned:
    """A part of the plan that switches can count: a flow, a piece of a split flow, or all flows of two hosts.

    The last is the case if ports are unknown.

    Attributes:
        rule: the rule that counts it at its first leaf: a rule of its own, or that of its block of ports or path class.
        flows: ids of the flows.
        links: links from the first leaf to the last one; the first is the uplink.
        labels: labels of its packets on the uplink; the spine removes them.
        payload: bytes that it sends.
    """

    unit: Unit
    rule: Unit
    flows: tuple[str, ...]
    leaf: str
    links: tuple[str, ...]
    labels: int
    payload: int

    @property
    def packets(self) -> int:
        """Full packets that the payload needs at least."""
        return -(-self.payload // MTU)


@dataclass(frozen=True)
class Counted:
    """The counts of a planned part.

    Attributes:
        packets, bytes: counts of its rule at the first leaf; its share if several parts have one rule.
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
    ips: Mapping[str, str],
    routes_of: Mapping[str, Mapping[str, Any]],
    payload: Mapping[tuple[str, str, int | None], int],
    rule_port: Callable[[int], int] | None = None,
) -> list[Planned]:
    """Return the countable parts of the plan, from the answers of ``GET /v1/routes``.

    Args:
        ips: address of each host.
        routes_of: answer for each host.
        payload: sent bytes by (source, destination, UDP source port or None).
        rule_port: the lowest of the source ports that have one rule with the given one; ``None``: rules are of hosts.
    """
    flows: dict[tuple[str, Unit], list[str]] = {}
    units: dict[tuple[str, Unit], Planned] = {}
    for host, document in routes_of.items():
        for flow in document["flows"]:
            for piece in flow["pieces"]:
                if piece["path"] is None:
                    continue
                port = piece["udp_src"]
                unit = (ips[host], ips[flow["dst"]], port)
                rule = unit if rule_port is None else (None, None, rule_port(port))
                inner = tuple(piece["links"][1:-1])
                leaf, size = inner[0].split("->")[0], payload[host, flow["dst"], port]
                # Ports of a bond have one address, on several leaves.
                ids = flows.setdefault((leaf, unit), [])
                ids.append(flow["id"])
                units[leaf, unit] = Planned(unit, rule, tuple(ids), leaf, inner, len(piece["labels"]), size)
    return list(units.values())


def at_rules(planned: Sequence[Planned], at: Snapshot) -> list[Planned]:
    """Return the parts with the rules that count them: QPs with neighbouring ports on one path have one rule."""
    return [replace(one, rule=_rule_of(one.rule, at.rules[one.leaf])) for one in planned]


def _rule_of(unit: Unit, rules: Mapping[Unit, RuleCount]) -> Unit:
    """Return the narrowest rule that matches a part, or the one that it should have if there is none."""
    source, destination, port = unit
    if port is None:
        return unit
    for free in range(PORT_BITS):
        least = port >> free << free
        rule = rules.get((source, destination, least))
        if rule is not None and port < least + rule.ports:
            return source, destination, least
    return unit


def _by_rule(planned: Sequence[Planned]) -> dict[tuple[str, Unit], list[Planned]]:
    """Group the parts by leaf and rule."""
    by_rule: dict[tuple[str, Unit], list[Planned]] = {}
    for one in planned:
        by_rule.setdefault((one.leaf, one.rule), []).append(one)
    return by_rule


def arrived(planned: Sequence[Planned], before: Snapshot, after: Snapshot) -> bool:
    """Return whether the rules have counted all sent packets."""
    return all(
        _difference(leaf, rule, before, after).packets >= sum(one.packets for one in members)
        for (leaf, rule), members in _by_rule(planned).items()
    )


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
        planned: the countable parts of the plan.
        uplink_ports: OpenFlow port of each uplink at its leaf, by link name.
        before: counters before the run.
        after: counters after the run.
        retransmissions: number of retransmitted packets; later links of a lost packet's path have sent less.
    """
    wrong: list[str] = []
    counted = []
    load: dict[str, int] = dict.fromkeys(after.sent, 0)
    for (leaf, rule), members in _by_rule(planned).items():
        count = _difference(leaf, rule, before, after)
        group = after.groups[leaf].get(count.group, GroupCount(None, ()))
        elsewhere = _elsewhere(before.groups[leaf].get(count.group), group)
        wrong += _off_rule(leaf, rule, members, uplink_ports, after, count, group, elsewhere)
        parts = zip(members, _parts(count.packets, members), _parts(count.bytes, members), strict=True)
        for one, packets, size in parts:
            counted.append(Counted(one, packets, size, elsewhere))
            for link in one.links:
                load[link] += size
            load[one.links[0]] += packets * one.labels * LABEL_BYTES
    wrong += _off_links(load, before, after, sum(c.packets for c in counted), retransmissions)
    sent = {link: after.sent[link] - before.sent[link] for link in after.sent}
    return Evidence(tuple(counted), sent, tuple(wrong))


def _off_rule(
    leaf: str,
    rule: Unit,
    members: Sequence[Planned],
    uplink_ports: Mapping[str, int],
    after: Snapshot,
    count: RuleCount,
    group: GroupCount,
    elsewhere: int,
) -> Iterable[str]:
    """Yield the deviations of a rule's counters from the planned flows, which all use one uplink."""
    name = ", ".join(flow for one in members for flow in one.flows)
    uplink, packets = members[0].links[0], sum(one.packets for one in members)
    if rule not in after.rules[leaf]:
        yield f"{name}: {leaf} has no rule for it"
    elif group.port != uplink_ports[uplink]:
        yield f"{name}: {leaf} sends it out of port {group.port}; the planned port is {uplink}"
    elif count.packets < packets:
        yield f"{name}: {leaf} counted {count.packets} packets; at least {packets} were sent"
    elif elsewhere:
        yield f"{name}: {elsewhere} packets left {leaf} by another uplink than {uplink}"


def _parts(count: int, members: Sequence[Planned]) -> list[int]:
    """Divide a count among the members in proportion to their payloads."""
    total = sum(one.payload for one in members)
    return [round(count * one.payload / total) if len(members) > 1 else count for one in members]


def _off_links(
    load: Mapping[str, int], before: Snapshot, after: Snapshot, packets: int, retransmissions: int
) -> Iterable[str]:
    """Links that sent more, or less, than their planned flows explain."""
    # Acknowledgements go by ECMP, so any link may have any part of them: one for each packet at the very most.
    allowed = packets * ACK_BYTES // 4 + retransmissions * _FRAME_BYTES + OTHER_BYTES
    for link, planned in load.items():
        sent = after.sent[link] - before.sent[link]
        if abs(sent - planned) > allowed:
            yield f"{link} sent {sent} bytes; its planned flows cause {planned} (other traffic at most {allowed})"


def _difference(leaf: str, rule: Unit, before: Snapshot, after: Snapshot) -> RuleCount:
    nothing = RuleCount(0, 0, -1)
    old, new = before.rules[leaf].get(rule, nothing), after.rules[leaf].get(rule, nothing)
    return RuleCount(new.packets - old.packets, new.bytes - old.bytes, new.group)


def _elsewhere(before: GroupCount | None, after: GroupCount) -> int:
    old = before.packets if before is not None else (0,) * len(after.packets)
    return sum(after.packets[1:]) - sum(old[1:])
