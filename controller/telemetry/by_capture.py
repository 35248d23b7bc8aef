"""Real paths of flows, derived from the links on which their packets were captured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.telemetry.capture import Tuple

Captures = Mapping[str, Counter[Tuple]]
"""Packet counts of each flow by cable (``leaf1-spine2``), captured at either end of the cable."""


def cable_of(fabric: Fabric, name: str) -> str:
    """Return the name of the cable that a cable name or a directed link's name refers to.

    Raises:
        InputError: the fabric has no such cable.
    """
    if name in fabric.cable_names:
        return name
    link = fabric.link_index.get(name, -1)
    if link < fabric.first_cable_link:
        raise InputError("the fabric has no cable or link of this name", field="--capture", value=name)
    return fabric.cable_names[(link - fabric.first_cable_link) // 2]


def with_captures(fabric: Fabric, flows: Sequence[Mapping[str, Any]], captures: Captures) -> list[dict[str, Any]]:
    """Return the flows of a trace with the paths on which their packets were captured.

    A capture of a cable contains both directions; the flow's source and destination determine which one applies.
    A flow whose packets are on several uplinks has moved during the capture, or shares its ports with another flow: it
    is assigned to the uplink with the most packets, and ``sure`` is the share of packets there. Flows without captured
    packets are returned unchanged.

    Args:
        fabric: the fabric that the flows and cables belong to.
        flows: as in ``schemas.TraceFlow``.
        captures: packet counts by cable.
    """
    return [_seen(fabric, flow, captures) for flow in flows]


def _seen(fabric: Fabric, flow: Mapping[str, Any], captures: Captures) -> dict[str, Any]:
    row = dict(flow)
    if flow["src"] not in fabric.host_index or flow["dst"] not in fabric.host_index or flow["udp_src"] is None:
        return row
    src, dst = fabric.host_index[flow["src"]], fabric.host_index[flow["dst"]]
    a, b = int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])
    packet = Tuple(fabric.hosts[src].ip, fabric.hosts[dst].ip, flow["udp_src"])
    paths: Counter[int] = Counter()
    for path in range(fabric.n_paths):
        between = fabric.ways.links_of(a, b, path)
        if a == b or min(between) < 0:
            continue
        seen = [captures[name][packet] for name in (_cable(fabric, link) for link in between) if name in captures]
        # Packets that were captured at one end only, although both ends have a capture, are on another path.
        paths[path] = min(seen) if seen and 0 not in seen else 0
    total = paths.total()
    if not total:
        return row
    path, many = paths.most_common(1)[0]
    real = [fabric.link_ids[link] for link in fabric.flow_links(src, dst, path)]
    differs = flow["planned"] is not None and real != flow["planned"]
    row |= {"real": real, "how": "capture", "sure": many / total, "differs": differs}
    row["why"] = (flow["why"] or "its packets were captured on other links than planned") if differs else ""
    return row


def _cable(fabric: Fabric, link: int) -> str:
    return fabric.cable_names[(link - fabric.first_cable_link) // 2]
