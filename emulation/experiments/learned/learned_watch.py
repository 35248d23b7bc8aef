"""When jobs are learned: a thread that asks the controller while they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emulation.errors import LabError
from emulation.experiments.learned.job_clock import JobClock
from emulation.experiments.learned.learned_truth import SentJob, compare
from emulation.experiments.loop_thread import LoopThread

BYTES_OFF = {"host": 0.01, "sflow": 0.02, "watch": 0.01}
"""Largest relative error of the bytes of an edge with which a job counts as known, by feeder."""
PERIOD_OFF = 0.02
"""The same of its period."""
_ASK_SECONDS = 1.0


@dataclass(frozen=True)
class LearnedAt:
    """The learned jobs at a time, and the iterations of each job that had ended by then."""

    ended: Mapping[str, int]
    documents: Sequence[Mapping[str, Any]]


class LearnedWatch(LoopThread):
    """Asks about once a second, until ``with`` ends, which jobs are learned.

    Attributes:
        looks: what the answers were, in order of time.
    """

    def __init__(
        self, learned: Callable[[], Sequence[Mapping[str, Any]]], jobs: Sequence[str], clock: JobClock
    ) -> None:
        """Ask by ``learned`` for the learned jobs; ``clock`` knows the iterations of the jobs that send."""
        super().__init__("learned jobs")
        self.looks: list[LearnedAt] = []
        self._learned, self._jobs, self._clock = learned, jobs, clock

    def look(self) -> None:
        """Ask once."""
        documents = self._learned()
        # Counted after the answer: rather one too many than one too few.
        self.looks.append(LearnedAt({job: self._clock.iterations(job) for job in self._jobs}, documents))

    def appeared(self, sent: SentJob) -> int | None:
        """Return how many iterations of a job had ended when all of its flows were first learned; ``None``: never."""
        ended = (look.ended[sent.job] for look in self.looks if compare(sent, look.documents).recall == 1)
        return next(ended, None)

    def known(self, sent: SentJob, bytes_off: float) -> int | None:
        """Return how many had ended when it was known: from then on, bytes and the period are exact enough.

        Args:
            sent: what the job sends.
            bytes_off: the largest relative error of the bytes of an edge.
        """
        learned = None
        for look in reversed(self.looks):
            row = compare(sent, look.documents)
            if not (row.recall == 1 and row.bytes_off <= bytes_off and row.period_off <= PERIOD_OFF):
                break
            learned = look.ended[sent.job]
        return learned

    def _run(self) -> None:
        while not self._ended.wait(_ASK_SECONDS):
            try:
                self.look()
            except LabError:
                continue  # the controller is asked again, and says so itself if something is wrong with it
