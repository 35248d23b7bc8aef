"""The configuration of a controller, which stays the same while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from controller.circuits.fabric.optical_fabric import OpticalFabric
from controller.config import Settings
from controller.model.fabric import Fabric


@dataclass(frozen=True)
class Configuration:
    """The values that an operator configures.

    Attributes:
        settings: the options.
        intended: the fabric of the file; ``None``: discovery alone, or an optical one.
        optical: the optical fabric of the file; ``None``: there are packet switches.
    """

    settings: Settings
    intended: Fabric | None = None
    optical: OpticalFabric | None = None
