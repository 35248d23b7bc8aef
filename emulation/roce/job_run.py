"""The iterations of a job at one host: it computes, sends the collectives of a phase, and so on.

Computing is waiting here. A stage is one phase of one iteration; it has ended when its computing and all collectives of
the phase have, at every host of the job. Collectives that overlap begin with the computing, the others after it, and
those that are after others when these have ended at every host, too. An agent knows only of its own host: with a
launcher it reports ends there, and goes on when the launcher has told it when the last host was done. The begin of what
follows is computed from that time, so it is the same at every host, and the way to the launcher and back costs nothing
while it is shorter than the computing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from emulation.roce.collective_part import CollectivePart
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.job_cycle import JobCycle

CallAt = Callable[[float, Callable[[], None]], None]
"""Call a function once at a time of the monotonic clock."""

Report = Callable[[str, int, str | None, float], None]
"""(job, stage, collective, end at this host) to the launcher, which answers with ``take_end``; without a collective it
is the end of the stage, and the answer is ``go_on``."""


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
            part.ended = partial(self._on_end, part.config.collective.name)
        self._stage = 0
        self._stages = cycle.iterations * len(phases)
        self._origin = 0.0
        # Of the present stage: parts that have not begun, when it began and had computed, and ends that were reported.
        self._waiting: list[CollectivePart] = []
        self._opened: float | None = None
        self._computed: float | None = None
        self._ends: dict[str, float] = {}
        self._ended = 0.0
        self._beginning = False
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

    def take_end(self, stage: int, collective: str, ended: float) -> None:
        """Take the time at which a collective of ``stage`` ended at the last of its hosts."""
        assert stage == self._stage, (stage, self._stage)
        self._ends[collective] = ended
        self._advance()

    def _compute(self, begin: float) -> None:
        phase = self._stage % len(self._parts)
        _, seconds = self._cycle.compute[phase]
        self._waiting = list(self._parts[phase])
        self._opened = self._computed = None
        self._ends = {}
        self._ended = begin + seconds
        stage = self._stage
        if any(part.config.collective.overlaps for part in self._waiting):
            self._call_at(begin, lambda: self._open(stage, begin))
        self._call_at(begin + seconds, lambda: self._send(begin, begin + seconds))

    def _open(self, stage: int, begin: float) -> None:
        # The stage may have ended already if it computes for no time.
        if stage == self._stage:
            self._opened = begin
            self._advance()

    def _send(self, begin: float, computed: float) -> None:
        self._opened, self._computed = begin, computed
        self._advance()

    def _on_end(self, collective: str, at: float) -> None:
        self._ended = max(self._ended, at)
        if collective in self._cycle.awaited:
            if self._report is None:
                self._ends[collective] = at
            else:
                self._report(self._cycle.job, self._stage, collective, at)
        self._advance()

    def _begin_of(self, spec: CollectiveSpec) -> float | None:
        """Return when a collective begins, as soon as that is known."""
        at = self._opened if spec.overlaps else self._computed
        if at is None or any(name not in self._ends for name in spec.after):
            return None
        return max([at, *(self._ends[name] for name in spec.after)])

    def _advance(self) -> None:
        """Begin the parts that wait for nothing any more; end the stage at this host if all of it has ended here."""
        if self._beginning:
            return
        # A part may end while it begins.
        self._beginning = True
        while (following := self._next()) is not None:
            part, at = following
            part.begin(at)
        self._beginning = False
        running = any(part.running for part in self._parts[self._stage % len(self._parts)])
        if self._computed is None or self._waiting or running or self.done:
            return
        self._computed = None
        if self._stage + 1 == self._stages:
            self.done = True
        elif self._report is None:
            self.go_on(self._stage, self._ended)
        else:
            self._report(self._cycle.job, self._stage, None, self._ended)

    def _next(self) -> tuple[CollectivePart, float] | None:
        """Take a part that waits for nothing any more, and its begin."""
        for i, part in enumerate(self._waiting):
            at = self._begin_of(part.config.collective)
            if at is not None:
                return self._waiting.pop(i), at
        return None
