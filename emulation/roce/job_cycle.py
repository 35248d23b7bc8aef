"""How a job repeats: in each iteration it computes and sends, phase after phase."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from controller.model.errors import InputError
from controller.model.timing import IterationGrid
from emulation.roce.collectives.spec import CollectiveSpec


@dataclass(frozen=True, slots=True)
class JobCycle:
    """The times of a job in the lab.

    Attributes:
        iterations: how often the job does all of its phases.
        compute: (phase, seconds) in the order of the phases: how long it computes before the phase.
        grid: when iterations begin, in seconds since the common start; ``None``: one after the other, the first one at
            the common start.
        awaited: names of collectives for whose ends others of the same phase wait.
    """

    job: str
    iterations: int = 1
    compute: tuple[tuple[int, float], ...] = ((0, 0.0),)
    grid: IterationGrid | None = None
    awaited: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the values; raise ``InputError`` for an invalid one."""
        if self.iterations < 1:
            raise InputError("must be at least 1", field="iterations", value=self.iterations)
        if not self.compute or len(set(self.phases)) != len(self.phases):
            raise InputError("each phase once, and at least one", field="compute", value=self.phases)
        for _, seconds in self.compute:
            if not 0 <= seconds < math.inf:
                raise InputError("must be seconds, 0 or more", field="compute", value=seconds)
        if self.grid is not None and not 0 < self.grid.period_seconds < math.inf:
            raise InputError("must be more than 0 seconds", field="period_seconds", value=self.grid.period_seconds)
        if self.grid is not None and not 0 <= self.grid.shift_seconds < math.inf:
            raise InputError("must be seconds, 0 or more", field="shift_seconds", value=self.grid.shift_seconds)

    @property
    def phases(self) -> tuple[int, ...]:
        """Its phases in their order."""
        return tuple(phase for phase, _ in self.compute)

    def first_begin(self) -> float:
        """Return the begin of the first iteration, in seconds since the common start."""
        return 0.0 if self.grid is None else self.grid.first(0.0)

    def next_begin(self, ended: float) -> float:
        """Return the begin of the iteration that follows one which ended then (seconds since the common start)."""
        return ended if self.grid is None else self.grid.after(ended)


def cycles_of(collectives: Iterable[CollectiveSpec], given: Iterable[JobCycle] = ()) -> dict[str, JobCycle]:
    """Return the cycle of each job of some collectives; one that is not given does not compute.

    Raises:
        InputError: a job is given twice, or one of its collectives has another number of iterations, or a phase that
            the job does not have.
    """
    members: dict[str, list[CollectiveSpec]] = {}
    for spec in collectives:
        members.setdefault(spec.job, []).append(spec)
    cycles: dict[str, JobCycle] = {}
    for cycle in given:
        if cycle.job in cycles:
            raise InputError("this job is listed twice", field="jobs", value=cycle.job)
        cycles[cycle.job] = cycle
    for job, specs in members.items():
        phases = sorted({spec.phase for spec in specs})
        cycle = cycles.setdefault(job, JobCycle(job, specs[0].iterations, tuple((phase, 0.0) for phase in phases)))
        for spec in specs:
            if spec.iterations != cycle.iterations:
                reason = f"{spec.label}: the job has {cycle.iterations} iterations"
                raise InputError(reason, field="iterations", value=spec.iterations)
            if spec.phase not in cycle.phases:
                raise InputError(f"{spec.label}: the job has no such phase", field="phase", value=spec.phase)
    return {job: cycles[job] for job in members}


def awaiting(cycles: Iterable[JobCycle], collectives: Sequence[CollectiveSpec]) -> tuple[JobCycle, ...]:
    """Return the cycles of jobs with the collectives that others wait for, from all collectives of the jobs.

    Raises:
        InputError: a collective is after one that is not of its job and phase, or waits for itself in turn.
    """
    phases = {(spec.job, spec.name): spec.phase for spec in collectives}
    for i, spec in enumerate(collectives):
        for name in spec.after:
            if phases.get((spec.job, name)) != spec.phase:
                reason = f"{spec.label}: no collective of its phase has this name"
                raise InputError(reason, field=f"collectives[{i}].after", value=name)
    try:
        TopologicalSorter(
            {(spec.job, spec.name): [(spec.job, name) for name in spec.after] for spec in collectives}
        ).prepare()
    except CycleError as error:
        labels = ["/".join(key) for key in error.args[1][:-1]]
        reason = f"these collectives wait for each other: {', '.join(labels)}"
        raise InputError(reason, field="collectives.after", value=labels[0]) from None
    return tuple(
        replace(
            cycle,
            awaited=tuple(dict.fromkeys(name for spec in collectives if spec.job == cycle.job for name in spec.after)),
        )
        for cycle in cycles
    )
