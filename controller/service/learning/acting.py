"""Plan without a request, from what is measured and learned (``learning = act``)."""

from __future__ import annotations

from controller.core.configuration import Configuration
from controller.core.ports.runtime import Runtime
from controller.service.learning.background_load import BackgroundLoad
from controller.service.learning.learned_planning import LearnedPlanning
from controller.service.learning.learner import Learner
from controller.service.learning.scheduled_look import ScheduledLook
from controller.service.measurements import Measurements
from controller.service.reconciling.admission import Admission
from controller.service.reconciling.reconciler import Reconciler


class Acting:
    """The tasks that plan without a request.

    Attributes:
        learned: plans learned jobs.
        background: measures other traffic, and plans beside it when it has changed.
        scheduled: looks now and then whether another plan pays.
    """

    def __init__(
        self,
        configuration: Configuration,
        runtime: Runtime,
        reconciler: Reconciler,
        admission: Admission,
        learner: Learner,
        measurements: Measurements,
    ) -> None:
        """Prepare them; ``start`` begins."""
        self.learned = LearnedPlanning(configuration, runtime, reconciler, admission, learner)
        wait, confirmed = self.learned.wait_for_idle, reconciler.installation.confirmed
        self.background = BackgroundLoad(runtime, measurements, reconciler, confirmed, wait)
        self.scheduled = ScheduledLook(configuration, runtime, reconciler, self.background, wait)

    def start(self) -> None:
        """Act from now on, as far as the options and the setting say so."""
        for task in (self.learned, self.background, self.scheduled):
            task.start()
