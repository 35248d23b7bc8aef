"""The measurements that the controller takes of itself and of the network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from controller.telemetry.instruments import Instruments
from controller.telemetry.port_rates import Readings


@dataclass(frozen=True)
class Measurements:
    """Readings of switches, and instruments of the controller.

    Attributes:
        period: seconds between two polls of a switch; 0: none is polled.
        streams: how many clients read the events now.
        rest: lets others have the interpreter, from offloaded work that takes long.
    """

    readings: Readings = field(default_factory=Readings)
    instruments: Instruments = field(default_factory=Instruments)
    period: float = 0.0
    streams: Callable[[], int] = lambda: 0
    rest: Callable[[], None] = lambda: None
