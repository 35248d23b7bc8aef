"""Periodic re-optimisation (``learning = act``): a scheduled look whether another plan pays beside measured rates.

Between two looks, small changes of the background load are not planned for, since each plan writes rules
(``controller.planning.background``: hysteresis). Another plan may be worth its rules all the same, on a link that many
flows share above all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from controller.core.configuration import Configuration
from controller.core.learned_trial import another_plan_pays
from controller.core.ports.runtime import Runtime
from controller.core.saved.saved_state import StateChange
from controller.model.errors import InputError, UnavailableError
from controller.service.learning.background_load import BY, BackgroundLoad
from controller.service.reconciling.change_request import ChangeRequest
from controller.service.reconciling.reconciler import Reconciler
from controller.service.tasks.fault_log import FaultLog

LOG = logging.getLogger("fairspine.service")


class ScheduledLook:
    """Looks once in ``replan_seconds`` whether a plan beside the measured rates pays, and has it made if it does."""

    def __init__(
        self,
        configuration: Configuration,
        runtime: Runtime,
        reconciler: Reconciler,
        background: BackgroundLoad,
        wait_for_idle: Callable[[], None],
    ) -> None:
        """Prepare it; ``wait_for_idle`` returns when no learned job is expected to send, or after some time."""
        self._settings, self._intended = configuration.settings, configuration.intended
        self._runtime, self._reconciler, self._background = runtime, reconciler, background
        self._wait_for_idle = wait_for_idle

    def start(self) -> None:
        """Look from now on, unless the option says never."""
        if self._settings.replan_seconds > 0:
            self._reconciler.tasks.spawn("scheduled look", self._run)

    def _run(self) -> None:
        faults = FaultLog("the scheduled look at the plan failed")
        while True:
            self._runtime.sleep(self._settings.replan_seconds)
            faults.run(self.step)

    def step(self) -> bool:
        """Look once; return whether another plan was made."""
        state = self._reconciler.state
        load = self._background.measured(state)
        if load is None or load == state.desired.background:
            return False
        if not self._runtime.offload(
            another_plan_pays, self._settings, self._intended, state, state.desired.beside(load), self._runtime.clock
        ):
            return False
        self._wait_for_idle()
        request = ChangeRequest(
            lambda desired: desired.beside(load), StateChange(), "scheduled look: another plan pays", BY
        )
        try:
            with self._reconciler.change_lock():
                # What was compared must still be what there is.
                now = self._reconciler.state
                if now.epoch != state.epoch or now.desired is not state.desired:
                    return False
                self._reconciler.change(request)
        except (InputError, UnavailableError) as error:
            LOG.warning("jobs stay as they are planned: %s", error)
            return False
        return True
