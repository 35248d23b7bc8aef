"""Capacities after the reported speeds of ports: plans account for a cable that came back slower.

Ports are compared with each other and not with the fabric file. Where hardware says 100 Gbit/s for a cable of 100, a
port that says 25 has a quarter of its capacity; where a software switch says 10 Gbit/s of everything, whatever it
really is, nothing is concluded. So a cable's capacity is that of the file (or the configured one, without a file) times
the ratio of its speed to its capacity over the most common such ratio, over all cables or all host links.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

from controller.model.fabric import Fabric
from controller.model.network_state import PortId

ALIKE = 0.01
"""Ratios that differ by less count as equal: ports report speeds in kbit/s, and capacities are written by people."""


def with_speeds(fabric: Fabric, gbps: Mapping[PortId, float], *, at_most: bool) -> Fabric:
    """Return the fabric with capacities after the speeds of its ports.

    Args:
        fabric: with the capacities so far.
        gbps: of each port that reports its speed. Of a cable's two ends the slower one counts; a cable that is down
            keeps its capacity.
        at_most: a capacity is never raised (that of a fabric file counts, unless a port reports less).
    """
    capacities = {cable.gbps for cable in fabric.cables}, {host.gbps for host in fabric.hosts}
    if not gbps or (len(set(gbps.values())) == 1 and max(map(len, capacities)) <= 1):
        # All ports say the same and all capacities are the same: so are the ratios. Large fabrics mostly are like that.
        return fabric
    key = {switch.name: switch.key for switch in fabric.switches}

    def speed(up: bool, switch: str, port: int | None) -> float | None:
        return gbps.get(PortId(key[switch], port)) if up and port is not None else None

    cables = _scaled(
        [cable.gbps for cable in fabric.cables],
        [
            _slower(speed(cable.up, cable.lower, cable.lower_port), speed(cable.up, cable.upper, cable.upper_port))
            for cable in fabric.cables
        ],
        at_most,
    )
    hosts = _scaled(
        [host.gbps for host in fabric.hosts], [speed(host.up, host.leaf, host.port) for host in fabric.hosts], at_most
    )
    kept = [cable.gbps for cable in fabric.cables], [host.gbps for host in fabric.hosts]
    if kept == (cables, hosts):
        return fabric
    return dataclasses.replace(
        fabric,
        cables=tuple(
            cable if cable.gbps == value else dataclasses.replace(cable, gbps=value)
            for cable, value in zip(fabric.cables, cables, strict=True)
        ),
        hosts=tuple(
            host if host.gbps == value else dataclasses.replace(host, gbps=value)
            for host, value in zip(fabric.hosts, hosts, strict=True)
        ),
    )


def _slower(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else min(one, other)


def _scaled(capacity: Sequence[float], speed: Sequence[float | None], at_most: bool) -> list[float]:
    ratios = [None if port_gbps is None else port_gbps / gbps for gbps, port_gbps in zip(capacity, speed, strict=True)]
    counted = Counter[float]()
    for ratio, n in Counter(ratio for ratio in ratios if ratio is not None).items():
        counted[round(ratio, 6)] += n
    if not counted:
        return list(capacity)
    # Of equally common ratios the largest counts as usual.
    usual = max(counted, key=lambda ratio: (counted[ratio], ratio))
    return [
        gbps
        if ratio is None or abs(ratio - usual) <= ALIKE * usual or (at_most and ratio > usual)
        else gbps * ratio / usual
        for gbps, ratio in zip(capacity, ratios, strict=True)
    ]
