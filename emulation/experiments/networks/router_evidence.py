"""Check, by the counters of routers, that each planned flow took its planned path.

Each router counts the packets of each flow by the link over which they came. All packets of a planned flow have to come
over each of its planned links, and none over another one; no other data may come, only acknowledgements. And each link
between two routers has to have sent what was counted at its end, and little beside it, such as probes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

from controller.model.packets.port_numbers import ROCE_PORT
from emulation.experiments.counters import Unit
from emulation.experiments.evidence import OTHER_BYTES, Counted, Evidence, Planned
from emulation.experiments.networks.router_counters import PacketCount, RouterSnapshot

CARRIER_BYTES = 40
"""An IPv6 header without extensions, around each packet."""

_FRAME_BYTES = 4200 + CARRIER_BYTES
_PROBES_BYTES = 8 * OTHER_BYTES
"""Of the probes of all agents, on one link."""


def judge_routers(
    planned: Sequence[Planned], before: RouterSnapshot, after: RouterSnapshot, *, retransmissions: int
) -> Evidence:
    """Compare the counters of a run with its plan.

    Args:
        planned: the countable parts of the plan.
        before: counters before the run.
        after: counters after the run.
        retransmissions: number of retransmitted packets; later links of a lost packet's path have sent less.
    """
    wrong: list[str] = []
    counted = []
    came = {link: _came(link, before, after) for link in after.sent}
    known = {one.unit for one in planned}
    for one in planned:
        own = {link: _of(one, units) for link, units in came.items()}
        elsewhere = sum(count.packets for link, count in own.items() if link not in one.links)
        wrong += _off_path(one, own, elsewhere, retransmissions)
        counted.append(Counted(one, *own[one.links[0]], elsewhere))
    for link, units in came.items():
        strange = [unit for unit in units if _is_data(unit) and not {unit, (*unit[:2], None)} & known]
        wrong += [f"{link}: {units[unit].packets} packets came of no planned flow: {unit}" for unit in strange]
    sent = {link: after.sent[link] - before.sent[link] for link in after.sent}
    wrong += _off_links(came, sent, retransmissions)
    return Evidence(tuple(counted), sent, tuple(wrong))


def _came(link: str, before: RouterSnapshot, after: RouterSnapshot) -> dict[Unit, PacketCount]:
    """Return what has come over a link in between, by flow."""
    old, new = before.arrived.get(link, {}), after.arrived.get(link, {})
    differences = {unit: count.since(old.get(unit, PacketCount())) for unit, count in new.items()}
    return {unit: count for unit, count in differences.items() if count.packets}


def _is_data(unit: Unit) -> bool:
    """Return whether packets are no acknowledgements, which come from the port to which all are sent."""
    return unit[2] != ROCE_PORT


def _of(one: Planned, units: Mapping[Unit, PacketCount]) -> PacketCount:
    """Return what is of a part of the plan; where its port is unknown, all data between its hosts."""
    if one.unit[2] is not None:
        return units.get(one.unit, PacketCount())
    own = [count for unit, count in units.items() if unit[:2] == one.unit[:2] and _is_data(unit)]
    return functools.reduce(PacketCount.plus, own, PacketCount())


def _off_path(one: Planned, came: Mapping[str, PacketCount], elsewhere: int, retransmissions: int) -> Iterable[str]:
    name = ", ".join(one.flows)
    for number, link in enumerate(one.links):
        # A packet may be lost behind the first link, and sent again.
        least = one.packets - (retransmissions if number else 0)
        if came[link].packets < least:
            yield f"{name}: {came[link].packets} packets came over {link}; at least {one.packets} were sent"
    if elsewhere:
        yield f"{name}: {elsewhere} packets came over other links than {', '.join(one.links)}"


def _off_links(
    came: Mapping[str, Mapping[Unit, PacketCount]], sent: Mapping[str, int], retransmissions: int
) -> Iterable[str]:
    """Links that sent more, or less, than what was counted at their ends."""
    allowed = retransmissions * _FRAME_BYTES + OTHER_BYTES + _PROBES_BYTES
    for link, units in came.items():
        counted = sum(count.bytes for count in units.values())
        if abs(sent[link] - counted) > allowed:
            yield f"{link} sent {sent[link]} bytes; {counted} came of flows (other traffic at most {allowed})"
