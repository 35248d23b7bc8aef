"""When jobs on packets compute and send, as the launcher of their agents hears of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from emulation.roce.job_cycle import JobCycle


@dataclass(frozen=True)
class Burst:
    """The times at which a job began and ended to send a phase, of the monotonic clock."""

    job: str
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """The length."""
        return self.end - self.begin


class JobClock:
    """Takes the end of each stage (``run_collectives``), and tells other threads what jobs do.

    A job is known from the end of its first stage on. Jobs must not wait for a held period.
    """

    def __init__(self, cycles: Sequence[JobCycle]) -> None:
        """Begin before the start of these jobs."""
        self._compute = {cycle.job: tuple(seconds for _, seconds in cycle.compute) for cycle in cycles}
        self._begins: dict[str, float] = {}
        self._stages: dict[str, int] = dict.fromkeys(self._compute, 0)
        self._bursts: list[Burst] = []
        self._lock = threading.Lock()

    def on_ended(self, job: str, stage: int, at: float) -> None:
        """Take the end of a stage at all hosts."""
        compute = self._compute[job]
        with self._lock:
            if job in self._begins:
                self._bursts.append(Burst(job, self._begins[job], at))
            self._begins[job] = at + compute[(stage + 1) % len(compute)]
            self._stages[job] = stage + 1

    def bursts(self) -> list[Burst]:
        """Return the bursts that have ended, without the first one of each job."""
        with self._lock:
            return list(self._bursts)

    def iterations(self, job: str) -> int:
        """Return the number of iterations of a job that have ended."""
        with self._lock:
            return self._stages[job] // len(self._compute[job])

    def idle_for(self) -> float:
        """Return the seconds until the next burst of any job; 0 while one sends or is not known yet."""
        with self._lock:
            if self._begins.keys() != self._compute.keys():
                return 0.0
            return max(0.0, min(self._begins.values()) - time.monotonic())

    def sending_for(self) -> float:
        """Return for how many seconds all jobs have been sending; 0 while one computes or is not known yet."""
        with self._lock:
            if self._begins.keys() != self._compute.keys():
                return 0.0
            return max(0.0, time.monotonic() - max(self._begins.values()))

    def shortest_burst(self) -> float:
        """Return the length of the shortest burst so far; 0 if none has ended."""
        return min((burst.seconds for burst in self.bursts()), default=0.0)
