"""The times of jobs: stated computing times, expected iteration times under a plan, and shifts of iterations."""

from __future__ import annotations

import math
from dataclasses import dataclass

from controller.model.tolerances import ROUNDING


@dataclass(frozen=True)
class JobTiming:
    """The computing times of a job between its collectives; exactly one of the two attributes is given.

    Attributes:
        compute: (phase, seconds) in order of phases: the computing time before the collectives of that phase; the
            others follow at once.
        period_seconds: of an iteration while the job has the network to itself; time not taken by its collectives is
            computing before the first phase.
    """

    compute: tuple[tuple[int, float], ...] = ()
    period_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class CollectiveTimes:
    """A collective of a job that states what its collectives wait for, in the expected iteration of the job.

    Attributes:
        seconds: in which it is sent.
        binds: the part of iterations in which a longer time of it makes the phase longer.
        slack_seconds: by how much it could end later without a longer phase, on average.
    """

    name: str
    seconds: float
    binds: float
    slack_seconds: float


@dataclass(frozen=True, slots=True)
class IterationSpan:
    """A part of an iteration that a job makes alone, in seconds from its begin.

    Attributes:
        name: of the collectives that are sent then, with ``*`` for numbers; ``None``: the job computes.
        slack_seconds: by how much it could end later without a longer phase.
    """

    phase: int
    name: str | None
    begin_seconds: float
    end_seconds: float
    slack_seconds: float


@dataclass(frozen=True)
class JobTimes:
    """The expected iteration of one job (docs/explanation/objective.md), in seconds.

    Attributes:
        compute_seconds: of an iteration.
        alone_seconds: of an iteration while the job has the network to itself.
        iteration_seconds: expected, while all jobs of the plan run.
        duty: the part of the expected iteration in which the job sends.
        phase_seconds: (phase, expected seconds of sending its collectives in an iteration), in order of phases.
        collectives: of a job that states what collectives wait for: those with traffic on the network.
    """

    job: str
    weight: float
    compute_seconds: float
    alone_seconds: float
    iteration_seconds: float
    duty: float
    phase_seconds: tuple[tuple[int, float], ...] = ()
    collectives: tuple[CollectiveTimes, ...] = ()

    @property
    def slowdown(self) -> float:
        """The ratio of expected to isolated iteration time."""
        return self.iteration_seconds / self.alone_seconds


@dataclass(frozen=True)
class PlanTimes:
    """The expected iterations of a plan's jobs; present if some job states its computing times.

    Attributes:
        jobs: those with routable traffic on the network.
        slowdown: mean over jobs by weight, at least 1; what ``fair`` minimises.
        bound: the lower bound of the slowdown of any plan and schedule.
    """

    jobs: tuple[JobTimes, ...]
    slowdown: float
    bound: float

    @property
    def gap(self) -> float:
        """The relative distance to the bound; 0 where the plan is optimal."""
        return self.slowdown / self.bound - 1.0


@dataclass(frozen=True, slots=True)
class IterationGrid:
    """Times at which iterations begin: ``shift_seconds + k * period_seconds`` for whole k, on a clock of all jobs.

    The first iteration begins at a time of the grid. With ``hold``, each later one begins at the grid time nearest to
    the end of the iteration before it, or at once if that time is past. Without, iterations follow at once.
    """

    period_seconds: float
    shift_seconds: float
    hold: bool

    def first(self, now: float) -> float:
        """Return the first time of the grid from ``now`` on."""
        # Rounding must not cost a period.
        return self._at(math.ceil(self._periods(now) - ROUNDING), now)

    def after(self, ended: float) -> float:
        """Return the begin of the iteration that follows one which ended then."""
        # An iteration that ends half way between two times waits for the later one, whatever rounding says.
        return self._at(math.floor(self._periods(ended) + 0.5 + ROUNDING), ended) if self.hold else ended

    def _periods(self, at: float) -> float:
        return (at - self.shift_seconds) / self.period_seconds

    def _at(self, number: int, earliest: float) -> float:
        return max(earliest, self.shift_seconds + number * self.period_seconds)


@dataclass(frozen=True)
class JobShift:
    """When the iterations of one job begin (docs/explanation/objective.md, "Shifts"): ``IterationGrid``.

    Attributes:
        period_seconds: distance of the grid times; without ``hold``, an iteration while the job has the network to
            itself.
        shift_seconds: in [0, ``period_seconds``).
        hold: whether the job waits for a grid time before each iteration.
        iteration_seconds: mean time from the begin of an iteration to the begin of the next one.
        compatibility: the part of the sending time in which the job sends as fast as alone.
    """

    job: str
    period_seconds: float
    shift_seconds: float
    hold: bool
    iteration_seconds: float
    compatibility: float

    @property
    def grid(self) -> IterationGrid:
        """The times at which iterations begin."""
        return IterationGrid(self.period_seconds, self.shift_seconds, self.hold)


@dataclass(frozen=True)
class Schedule:
    """The shifts of a plan's jobs; present if the policy was asked for them and some job states its computing times.

    Attributes:
        jobs: those with routable traffic on the network.
        slowdown: mean over jobs by weight of the ratio of iteration time to that alone, if all jobs follow.
        bound: the lower bound of the slowdown of any paths, splits and shifts.
    """

    jobs: tuple[JobShift, ...]
    slowdown: float
    bound: float

    @property
    def gap(self) -> float:
        """The relative distance to the bound; 0 where the schedule is optimal."""
        return self.slowdown / self.bound - 1.0

    def shift_of(self, job: str) -> JobShift | None:
        """Return the shift of a job by its name; ``None`` if it has none."""
        return next((row for row in self.jobs if row.job == job), None)
