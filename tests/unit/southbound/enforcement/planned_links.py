"""The links of plans."""

from __future__ import annotations

from controller.model.fabric import Fabric
from controller.southbound.rules.interpreter import Walk
from tests.unit.southbound.plans import Case


def links_of(fabric: Fabric, walk: Walk) -> tuple[int, ...]:
    """Return the cables that a packet took, as link indices."""
    cables = {}
    for c, cable in enumerate(fabric.cables):
        up = fabric.first_cable_link + 2 * c
        cables[cable.lower, cable.lower_port], cables[cable.upper, cable.upper_port] = up, up + 1
    return tuple(cables[hop.switch, hop.out_port] for hop in walk.hops[:-1])


def planned(case: Case) -> list[tuple[int, int, int, int]]:
    """Source host, destination host, path and port of each row with a path."""
    rows = zip(case.encoding.flow.tolist(), case.encoding.path.tolist(), case.encoding.udp_src.tolist(), strict=True)
    ends = case.traffic.src.tolist(), case.traffic.dst.tolist()
    return [(ends[0][flow], ends[1][flow], path, port) for flow, path, port in rows if path >= 0]
