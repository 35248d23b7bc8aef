"""Cables of a Mininet topology."""

from __future__ import annotations

from controller.model.fabric import Fabric


def cables_of(fabric: Fabric) -> set[tuple[str, int | None, str, int | None]]:
    hosts: set[tuple[str, int | None, str, int | None]] = {
        (host.name, 0, host.leaf, host.port) for host in fabric.hosts
    }
    cables = {(cable.lower, cable.lower_port, cable.upper, cable.upper_port) for cable in fabric.cables}
    return hosts | cables
