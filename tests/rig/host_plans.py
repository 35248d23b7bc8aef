"""Plans of hosts in a lab of routers, as the product makes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from controller.southbound.srv6.host_document import HostFlow, WeightedPath, host_document
from tests.rig.routers.router_lab import RouterLab


def host_plan(
    lab: RouterLab,
    src: int,
    flows: Sequence[tuple[int, int | None, int]],
    epoch: int = 1,
    *,
    probes: bool = True,
    spread: tuple[WeightedPath, ...] = (),
    classes: Mapping[int | None, int] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the plan of a host.

    Args:
        lab: the routers and hosts.
        src: the host.
        flows: receiver, source port and path of each flow.
        epoch: of the plan.
        probes: whether paths are probed.
        spread: paths over which packets of the flows are spread; empty: each has one path.
        classes: of priority, by source port; flows of others have the lowest one.
    """
    rows = [HostFlow(dst, path, port, paths=spread, priority=classes.get(port, 0)) for dst, port, path in flows]
    document = host_document(lab.ids, lab.addresses, src, rows, epoch)
    for row in () if probes else document["flows"]:
        row["probe"] = None
    return document
