"""Headroom: the fraction of every link that plans leave to unplanned traffic (storage, checkpoints)."""

from __future__ import annotations

import dataclasses

from controller.model.fabric import Fabric


def with_headroom(fabric: Fabric, part: float) -> Fabric:
    """Return the fabric to plan on: every link, hosts' included, with ``1 - part`` of its capacity.

    Speeds are ratios and do not change where all links shrink alike; times, and the rates that ``/v1/routes`` reports
    to hosts, then hold while other traffic uses the reserved fraction.
    """
    if part == 0:
        return fabric
    left = 1 - part
    return dataclasses.replace(
        fabric,
        hosts=tuple(dataclasses.replace(host, gbps=host.gbps * left) for host in fabric.hosts),
        cables=tuple(dataclasses.replace(cable, gbps=cable.gbps * left) for cable in fabric.cables),
    )
