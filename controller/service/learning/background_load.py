"""Background load while the controller runs: measures what links carry beside the plan, and plans beside it."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

import numpy as np

from controller.core.controller_state import ControllerState
from controller.core.ports.runtime import Runtime
from controller.core.saved.saved_state import StateChange
from controller.model.errors import InputError, UnavailableError
from controller.model.fabric import Fabric, FloatArray
from controller.planning.background import Background, by_link, nearest, on_links, stepped
from controller.service.measurements import Measurements
from controller.service.reconciling.change_request import ChangeRequest
from controller.service.reconciling.reconciler import Reconciler
from controller.service.tasks.fault_log import FaultLog
from controller.telemetry.unplanned import unplanned_rates

LOG = logging.getLogger("fairspine.service")

POLLS = 12
"""Polls of which the mean is taken: so long (a minute by default) bursts of planned flows have no weight."""
BETWEEN_CHANGES = 60.0
"""Least seconds between two plans for another background load."""
BY = "learning"


class BackgroundLoad:
    """Rates of what is in no plan, by link."""

    def __init__(
        self,
        runtime: Runtime,
        measurements: Measurements,
        reconciler: Reconciler,
        confirmed: Callable[[ControllerState], bool],
        wait_for_idle: Callable[[], None],
    ) -> None:
        """Begin without measurements.

        Args:
            runtime: tasks, threads and time.
            measurements: the newest counters.
            reconciler: plans anew.
            confirmed: returns whether every switch has a state's rules, so that these count its flows.
            wait_for_idle: returns when no learned job is expected to send, or after some time.
        """
        self._runtime, self._measurements, self._reconciler = runtime, measurements, reconciler
        self._confirmed, self._wait_for_idle = confirmed, wait_for_idle
        self._polls: deque[FloatArray] = deque(maxlen=POLLS)
        # The epoch and the fabric of these polls, and when the newest counters of the last one were read.
        self._of: tuple[int, Fabric | None] = (-1, None)
        self._newest: float | None = None
        self._changed = -BETWEEN_CHANGES

    def start(self) -> None:
        """Measure from now on, if switches are polled."""
        if self._measurements.period > 0:
            self._reconciler.tasks.spawn("background load", self._run)

    def gbps(self, fabric: Fabric) -> FloatArray:
        """Return the mean rate [E] of what is in no plan, over the last minute; NaN where it is not known."""
        _, of = self._of
        if len(self._polls) < POLLS or of is None or of.link_ids != fabric.link_ids:
            return np.full(fabric.n_links, np.nan)
        mean: FloatArray = np.maximum(np.mean(self._polls, axis=0), 0.0)
        return mean

    def measured(self, state: ControllerState) -> Background | None:
        """Return the mean load in steps, without hysteresis.

        ``None`` unless ``learning = act``, and until 12 polls of the present rules have been read.
        """
        fabric = state.fabric
        if fabric is None or len(self._polls) < POLLS or self._of != (state.epoch, fabric) or not self._acts(state):
            return None
        counted = on_links(fabric, state.desired.background)
        return by_link(fabric, nearest(np.mean(self._polls, axis=0) / fabric.link_gbps, counted))

    def _acts(self, state: ControllerState) -> bool:
        return state.desired.learning == "act" and state.candidate is not None and state.candidate.traffic.n_flows > 0

    def _run(self) -> None:
        faults = FaultLog("the background load could not be measured")
        while True:
            self._runtime.sleep(self._measurements.period)
            faults.run(self.step)

    def step(self) -> None:
        """Measure once, and have jobs planned anew if the load has changed."""
        state = self._reconciler.state
        fabric, candidate, encoding = state.fabric, state.candidate, state.encoding
        measures = state.desired.learning != "off" and state.desired.mode == "planned"
        if fabric is None or candidate is None or encoding is None or not measures or not self._confirmed(state):
            self._forget(state)
            return
        if self._of != (state.epoch, fabric):
            self._forget(state)
        newest = self._measurements.readings.measured
        if newest is None or newest == self._newest:
            return
        self._newest = newest
        readings = self._measurements.readings
        self._polls.append(self._runtime.offload(unplanned_rates, fabric, candidate.traffic, encoding, readings))
        if len(self._polls) == POLLS and self._acts(state) and self._runtime.clock() - self._changed >= BETWEEN_CHANGES:
            self._plan_beside(fabric, state.desired.background)

    def _forget(self, state: ControllerState) -> None:
        """Begin anew: other rules count other flows."""
        self._polls.clear()
        self._of = state.epoch, state.fabric

    def _plan_beside(self, fabric: Fabric, counted: Background) -> None:
        parts = np.array(self._polls) / fabric.link_gbps
        error = parts.std(axis=0, ddof=1) / np.sqrt(POLLS)
        load = by_link(fabric, stepped(parts.mean(axis=0), error, on_links(fabric, counted)))
        if load == counted:
            return
        request = ChangeRequest(
            lambda desired: desired.beside(load), StateChange(), f"background load of {len(load)} links", BY
        )
        self._wait_for_idle()
        self._changed = self._runtime.clock()
        try:
            with self._reconciler.change_lock():
                if self._reconciler.desired.learning == "act":
                    self._reconciler.change(request)
        except (InputError, UnavailableError) as error_:
            LOG.warning("jobs are not planned beside the background load: %s", error_)
