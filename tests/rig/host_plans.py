"""Plans of hosts as a controller would hand them out, for fabrics of routers in a lab."""

from __future__ import annotations

from typing import Any

from controller.model.port_numbers import ROCE_PORT
from controller.southbound.srv6.carriers import carriers_of_flow
from controller.southbound.srv6.segment_ids import IdRange
from tests.rig.router_lab import RouterLab


def host_plan(
    lab: RouterLab, src: int, flows: list[tuple[int, int, int]], epoch: int = 1, *, probes: bool = True
) -> dict[str, Any]:
    """Return the plan of a host.

    Args:
        lab: the routers and hosts.
        src: the host.
        flows: receiver, source port and path of each flow.
        epoch: of the plan.
        probes: whether paths are probed.
    """
    fabric, ids = lab.fabric, lab.ids
    own = fabric.hosts[src]
    rows = []
    for dst, port, path in flows:
        row = carriers_of_flow(ids, src, dst, path)
        row |= {} if probes else {"probe": None}
        ends = {"src": own.ip, "dst": fabric.hosts[dst].ip, "protocol": "udp", "src_port": port, "dst_port": ROCE_PORT}
        rows.append({**ends, **row, "rate_gbps": None})
    segments = [{"segment": str(ids.prefix(IdRange(ids.host(src, inner=n)))), "inner": n} for n in (4, 6)]
    others = [
        {"dst": each.ip, "carrier": str(ids.address((ids.over_cable(0, int(fabric.host_leaf[n]), 0), ids.host(n))))}
        for n, each in enumerate(fabric.hosts)
        if n != src
    ]
    return {
        "epoch": epoch,
        "host": own.name,
        "mode": "planned",
        "source": str(lab.source(src)),
        "decapsulate": segments,
        "destinations": others,
        "flows": rows,
    }
