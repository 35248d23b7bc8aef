"""Real paths from captures: a flow goes where its packets are seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.telemetry.capture import Tuple

Captures = Mapping[str, Counter[Tuple]]
"""By cable (``leaf1-spine2``): packets of each flow that either of its ends has seen."""


def cable_of(fabric: Fabric, name: str) -> str:
    """The cable that a cable's or a directed link's name means.

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
    """The flows of a trace, with the paths on which their packets were seen.

    A capture of a cable sees both directions; which one a flow takes there follows from where it comes from and goes.
    A flow whose packets are on several uplinks has moved meanwhile, or shares its ports with another one: it is on the
    one with most of them, as surely as their part is. Flows whose packets no capture has stay as they were.

    Args:
        flows: as in ``schemas.TraceFlow``.
    """
    return [_seen(fabric, flow, captures) for flow in flows]


def _seen(fabric: Fabric, flow: Mapping[str, Any], captures: Captures) -> dict[str, Any]:
    told = dict(flow)
    if flow["src"] not in fabric.host_index or flow["dst"] not in fabric.host_index or flow["udp_src"] is None:
        return told
    src, dst = fabric.host_index[flow["src"]], fabric.host_index[flow["dst"]]
    a, b = int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])
    packet = Tuple(fabric.hosts[src].ip, fabric.hosts[dst].ip, flow["udp_src"])
    paths: Counter[int] = Counter()
    for path in range(fabric.n_paths):
        ends = (int(fabric.up_link[a, path]), int(fabric.down_link[b, path]))
        if a == b or min(ends) < 0:
            continue
        seen = [captures[name][packet] for name in (_cable(fabric, link) for link in ends) if name in captures]
        # Seen at one end and not at the other (where somebody looked, too) is on another path.
        paths[path] = min(seen) if seen and 0 not in seen else 0
    total = paths.total()
    if not total:
        return told
    path, many = paths.most_common(1)[0]
    real = [fabric.link_ids[link] for link in fabric.flow_links(src, dst, path)]
    differs = flow["planned"] is not None and real != flow["planned"]
    told |= {"real": real, "how": "capture", "sure": many / total, "differs": differs}
    told["why"] = (flow["why"] or "its packets were seen on other links than planned") if differs else ""
    return told


def _cable(fabric: Fabric, link: int) -> str:
    return fabric.cable_names[(link - fabric.first_cable_link) // 2]
