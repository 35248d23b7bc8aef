"""Fabrics whose switches have addresses, from which answers to probes and samples come."""

from __future__ import annotations

import dataclasses

from controller.model.fabric import Fabric


def with_addresses(fabric: Fabric) -> Fabric:
    """The same fabric where each switch has two addresses."""
    numbers = iter(range(1, 1 << 15))
    return dataclasses.replace(
        fabric,
        layers=tuple(
            tuple(
                dataclasses.replace(each, addresses=(f"10.255.{(n := next(numbers)) >> 8}.{n & 255}", f"10.254.0.{n}"))
                for each in layer
            )
            for layer in fabric.layers
        ),
    )
