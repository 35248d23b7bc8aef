"""The measurements that the controller takes of itself and of the network."""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.core.ports.observer import SnapshotReader
from controller.core.ports.runtime import Runtime
from controller.telemetry.instruments import Instruments
from controller.telemetry.port_rates import Readings
from controller.views.metrics import MOST_LINKS


@dataclass(frozen=True)
class Measurements:
    """Readings of switches, and instruments of the controller.

    Attributes:
        snapshots: reads what the switches hold and have counted when a client asks for a trace.
        period: seconds between two polls of a switch; 0: none is polled.
        most_links: the most directed links of a fabric of which each has metrics.
    """

    snapshots: SnapshotReader
    readings: Readings = field(default_factory=Readings)
    instruments: Instruments = field(default_factory=Instruments)
    period: float = 0.0
    most_links: int = MOST_LINKS

    def measured_at(self, runtime: Runtime) -> float | None:
        """Return when the newest counters came, seconds since 1970; ``None``: there are none."""
        newest = self.readings.measured
        return None if newest is None else runtime.now() - (runtime.clock() - newest)
