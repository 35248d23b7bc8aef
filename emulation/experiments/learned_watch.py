"""When jobs are learned: a thread that asks the controller while they run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from emulation.errors import LabError
from emulation.experiments.job_clock import JobClock
from emulation.experiments.learned_truth import SentJob, compare

_ASK_SECONDS = 1.0


class LearnedWatch:
    """Asks about once a second, until ``with`` ends, which jobs have all their flows learned.

    Attributes:
        iterations: of each job that is learned: how many had ended when this was first seen.
    """

    def __init__(
        self, learned: Callable[[], Sequence[Mapping[str, Any]]], sent: Sequence[SentJob], clock: JobClock
    ) -> None:
        """Ask by ``learned`` for the learned jobs; ``clock`` knows the iterations of the jobs that are sent."""
        self.iterations: dict[str, int] = {}
        self._learned, self._sent, self._clock = learned, sent, clock
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="learned jobs", daemon=True)

    def __enter__(self) -> LearnedWatch:
        """Begin to ask."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ask no more."""
        self._over.set()
        self._thread.join()

    def look(self) -> None:
        """Ask once."""
        done = {job.job: self._clock.iterations(job.job) for job in self._sent}
        documents = self._learned()
        for job in self._sent:
            if job.job not in self.iterations and compare(job, documents).recall == 1:
                self.iterations[job.job] = done[job.job]

    def _run(self) -> None:
        while not self._over.wait(_ASK_SECONDS) and len(self.iterations) < len(self._sent):
            try:
                self.look()
            except LabError:
                continue  # the controller is asked again, and says so itself if something is wrong with it
