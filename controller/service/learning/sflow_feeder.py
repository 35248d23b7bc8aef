"""The sFlow feeder: asks the collector's process for what switches have sampled, and gives it to learning."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from controller.core.controller_state import ControllerState
from controller.core.ports.runtime import Runtime
from controller.learning.sampling.sampled_tallies import SampledReport
from controller.learning.sampling.seen_flows import SeenFlows
from controller.learning.sightings import SightingBatch
from controller.model.errors import UnavailableError
from controller.model.fabric import Fabric
from controller.service.learning.learner import Learner
from controller.service.learning.sflow_collector import SflowCollector
from controller.service.tasks.vital_tasks import VitalTasks
from controller.telemetry.instruments import Instruments
from controller.views.learned import address_finder

LOG = logging.getLogger("fairspine.service")

REPORT_SECONDS = 1.0
AGAIN_SECONDS = 5.0
"""Pause before a collector that has ended is started again."""


class SflowFeeder:
    """Feeds a learner with what agents sample."""

    def __init__(
        self,
        runtime: Runtime,
        learner: Learner,
        instruments: Instruments,
        listen: str,
        agents: str,
        seen: Callable[[SeenFlows], None] | None = None,
    ) -> None:
        """Connect the parts.

        Args:
            runtime: tasks, waiting and time.
            learner: gets sightings of QPs, unless learning is off.
            instruments: count what came.
            listen: the option ``sflow_listen``; empty: do nothing.
            agents: the option ``sflow_agents``.
            seen: gets the switches at which flows were seen, whether jobs are learned or not; ``None``: nothing does.
        """
        self._runtime, self._learner, self._instruments = runtime, learner, instruments
        self._listen, self._seen = listen, seen
        self._collector = SflowCollector(runtime.start_process, listen, agents, where=seen is not None)

    def start(self, tasks: VitalTasks, state: Callable[[], ControllerState]) -> None:
        """Start the collector where an address is given; it runs while anything needs what it gathers."""
        if self._listen:
            tasks.spawn("sflow", lambda: self._run(state))

    def _run(self, state: Callable[[], ControllerState]) -> None:
        failed = False
        while True:
            if self._learner.learning == "off" and self._seen is None:
                self._runtime.offload(self._collector.close)
                self._runtime.sleep(REPORT_SECONDS)
                continue
            try:
                report = self._runtime.offload(self._collector.report)
                failed = False
            except UnavailableError as error:
                if not failed:
                    LOG.warning("%s; it is started again every %g s", error, AGAIN_SECONDS)
                failed = True
                self._runtime.sleep(AGAIN_SECONDS)
                continue
            self._take(report, state().fabric)
            self._runtime.sleep(REPORT_SECONDS)

    def _take(self, report: SampledReport, fabric: Fabric | None) -> None:
        counts = report.counts
        self._instruments.sflow_reported(
            {
                "taken": counts.datagrams - counts.malformed,
                "refused": counts.refused,
                "malformed": counts.malformed,
                "lost": counts.lost,
            },
            {
                "taken": counts.samples - counts.dropped,
                "dropped": counts.dropped,
                "dropped_by_switches": counts.dropped_by_switches,
            },
        )
        if self._seen is not None and report.seen.at:
            self._seen(report.seen)
        if fabric is not None and len(report) and self._learner.learning != "off":
            self._learner.take("sflow", self._runtime.offload(batches_of, report, fabric))


def batches_of(report: SampledReport, fabric: Fabric) -> list[SightingBatch]:
    """Return the sightings of QPs and TCP connections between hosts of the fabric."""
    address = address_finder(fabric)
    known = np.array([address(host.name) or 0 for host in fabric.hosts], dtype=np.int64)
    return report.batches(known)
