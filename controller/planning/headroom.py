"""Headroom: a part of every link that plans leave to traffic which is in no plan (storage, checkpoints)."""

from __future__ import annotations

import dataclasses

from controller.model.fabric import Fabric


def with_headroom(fabric: Fabric, part: float) -> Fabric:
    """The fabric to plan on: every link, hosts' included, with ``1 - part`` of its capacity.

    Speeds are ratios and stay what they are where all links shrink alike; times and the rates that ``/v1/routes``
    tells hosts then hold while other traffic uses the part that is kept for it.
    """
    if part == 0:
        return fabric
    left = 1 - part
    return dataclasses.replace(
        fabric,
        hosts=tuple(dataclasses.replace(host, gbps=host.gbps * left) for host in fabric.hosts),
        cables=tuple(dataclasses.replace(cable, gbps=cable.gbps * left) for cable in fabric.cables),
    )
