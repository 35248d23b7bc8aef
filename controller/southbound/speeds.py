"""Capacities after what ports say of their speed: a cable that came back slower carries less, and plans know it.

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
from controller.model.observed import PortId

ALIKE = 0.01
"""Ratios that differ by less are the same: speeds are told in kbit/s, capacities are written by people."""


def with_speeds(fabric: Fabric, gbps: Mapping[PortId, float], *, at_most: bool) -> Fabric:
    """The fabric with capacities after the speeds of its ports.

    Args:
        gbps: of each port that says so. Of a cable's two ends the slower one counts; a cable that is down keeps its
            capacity.
        at_most: a capacity is never raised (that of a fabric file counts, unless a port says less).
    """
    if not gbps:
        return fabric
    dpid = {switch.name: switch.dpid for switch in (*fabric.leaves, *fabric.spines)}

    def speed(up: bool, *ends: tuple[str, int | None]) -> float | None:
        known = [gbps[at] for name, port in ends if (at := PortId(dpid[name], port or 0)) in gbps]
        return min(known) if up and known else None

    cables = _scaled(
        [cable.gbps for cable in fabric.cables],
        [speed(c.up, (c.leaf, c.leaf_port), (c.spine, c.spine_port)) for c in fabric.cables],
        at_most,
    )
    hosts = _scaled(
        [host.gbps for host in fabric.hosts], [speed(h.up, (h.leaf, h.port)) for h in fabric.hosts], at_most
    )
    return dataclasses.replace(
        fabric,
        cables=tuple(
            dataclasses.replace(cable, gbps=value) for cable, value in zip(fabric.cables, cables, strict=True)
        ),
        hosts=tuple(dataclasses.replace(host, gbps=value) for host, value in zip(fabric.hosts, hosts, strict=True)),
    )


def _scaled(capacity: Sequence[float], speed: Sequence[float | None], at_most: bool) -> list[float]:
    ratios = [None if told is None else told / gbps for gbps, told in zip(capacity, speed, strict=True)]
    counted = Counter(round(ratio, 6) for ratio in ratios if ratio is not None)
    if not counted:
        return list(capacity)
    # As common as another: then the faster ones are as they should be.
    usual = max(counted, key=lambda ratio: (counted[ratio], ratio))
    return [
        gbps
        if ratio is None or abs(ratio - usual) <= ALIKE * usual or (at_most and ratio > usual)
        else gbps * ratio / usual
        for gbps, ratio in zip(capacity, ratios, strict=True)
    ]
