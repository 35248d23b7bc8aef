"""The times of jobs: their stated computing times, and their expected iteration times under a plan."""

from __future__ import annotations

from dataclasses import dataclass


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


@dataclass(frozen=True)
class JobTimes:
    """The expected iteration of one job (docs/explanation/objective.md), in seconds.

    Attributes:
        compute_seconds: of an iteration.
        alone_seconds: of an iteration while the job has the network to itself.
        iteration_seconds: expected, while all jobs of the plan run.
        duty: the part of the expected iteration in which the job sends.
    """

    job: str
    weight: float
    compute_seconds: float
    alone_seconds: float
    iteration_seconds: float
    duty: float

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
