"""The iterations of a job at one host: it computes, sends the collectives of a phase, and so on.

Computing is waiting here. A stage is one phase of one iteration; it has ended when all collectives of the phase have,
at every host of the job. An agent knows only of its own host: with a launcher it reports the end there, and goes on
when the launcher has told it when the last host was done. The begin of the next stage is computed from that time, so
it is the same at every host, and the way to the launcher and back costs nothing while it is shorter than the computing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emulation.roce.collective_part import CollectivePart
from emulation.roce.job_cycle import JobCycle

CallAt = Callable[[float, Callable[[], None]], None]
"""Call a function once at a time of the monotonic clock."""

Report = Callable[[str, int, float], None]
"""(job, stage, end at this host) to the launcher, which answers with ``go_on``."""


class JobRun:
    """A job at this host, until ``done``."""

    def __init__(
        self, cycle: JobCycle, parts: Sequence[CollectivePart], call_at: CallAt, report: Report | None
    ) -> None:
        """Prepare all iterations; ``report`` is ``None`` without a launcher: then the end at this host counts."""
        self._cycle = cycle
        self._call_at = call_at
        self._report = report
        phases = cycle.phases
        self._parts = [[part for part in parts if part.config.collective.phase == phase] for phase in phases]
        for part in parts:
            part.ended = self._on_end
        self._stage = 0
        self._stages = cycle.iterations * len(phases)
        self._origin = 0.0
        self._sending = False
        self._ended = 0.0
        self.done = False

    def begin(self, start_at: float) -> None:
        """Begin, with the common start of all jobs at ``start_at`` of the monotonic clock."""
        self._origin = start_at
        self._compute(start_at + self._cycle.first_begin())

    def go_on(self, stage: int, ended: float) -> None:
        """Begin the stage that follows ``stage``, which ended at ``ended`` at the last host of the job."""
        assert stage == self._stage, (stage, self._stage)
        self._stage += 1
        if self._stage % len(self._parts) == 0:
            ended = self._origin + self._cycle.next_begin(ended - self._origin)
        self._compute(ended)

    def _compute(self, begin: float) -> None:
        _, seconds = self._cycle.compute[self._stage % len(self._parts)]
        self._call_at(begin + seconds, lambda: self._send(begin + seconds))

    def _send(self, begin: float) -> None:
        self._ended = begin
        for part in self._parts[self._stage % len(self._parts)]:
            part.begin(begin)
        self._sending = True
        self._look()

    def _on_end(self, at: float) -> None:
        self._ended = max(self._ended, at)
        self._look()

    def _look(self) -> None:
        """End the stage at this host if all of its collectives have ended here."""
        if not self._sending or any(part.running for part in self._parts[self._stage % len(self._parts)]):
            return
        self._sending = False
        if self._stage + 1 == self._stages:
            self.done = True
        elif self._report is None:
            self.go_on(self._stage, self._ended)
        else:
            self._report(self._cycle.job, self._stage, self._ended)
