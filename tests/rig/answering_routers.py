"""Fabrics of routers that answer hop-limited probes."""

from __future__ import annotations

import dataclasses

from controller.model.fabric import Fabric


def addressed(fabric: Fabric) -> Fabric:
    """The same fabric of routers with an address each."""
    layers = tuple(
        tuple(
            dataclasses.replace(each, key=each.name, addresses=(f"10.255.{layer}.{n}",))
            for n, each in enumerate(switches, start=1)
        )
        for layer, switches in enumerate(fabric.layers)
    )
    return dataclasses.replace(fabric, layers=layers)
