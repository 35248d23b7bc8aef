"""What collectives of a job wait for, and phases for them: reading, checking, and what people are told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from controller.model.errors import InputError
from controller.model.job import Job
from controller.model.waits import Waits

OverlapWith = Literal["compute"]
"""What a collective may overlap with: the computing of its phase."""

END: Literal["end"] = "end"
"""The last phase of a job, as that until which a collective may take."""

Until = int | Literal["end"]


def waits_of(overlap: Mapping[str, OverlapWith], after: Mapping[str, Sequence[str]]) -> dict[str, Waits]:
    """Return what collectives wait for of which a job document says so by name; in the order of these."""
    return {name: Waits(name not in overlap, tuple(after.get(name, ()))) for name in {**overlap, **after}}


def check_waits(job: Job) -> None:
    """Check what the collectives of a job wait for.

    Raises:
        InputError: a collective waits for one that does not exist, is of a later phase, is named twice, or waits for
            the collective itself in turn; or it has time until a phase that is earlier, or that no collective is in.
    """
    waits = job.waits_by_name
    if not waits:
        return
    phase, names = job.phase_by_name, set(job.collective_names)
    _check_untils(job)
    place = {call.name: f"collectives[{i}].after" for i, call in enumerate(job.collectives)}
    for name, own in waits.items():
        field = place.get(name, f"after.{name}")
        for i, other in enumerate(own.after):
            if other not in names:
                reason = "the job has no collective of this name"
            elif other in own.after[:i]:
                reason = "this collective is listed twice"
            elif phase.get(other, 0) > phase.get(name, 0):
                reason = f"this collective is in the later phase {phase.get(other, 0)}"
            else:
                continue
            raise InputError(reason, field=f"{field}[{i}]", value=other)
    try:
        TopologicalSorter({name: own.after for name, own in waits.items()}).prepare()
    except CycleError as error:
        # Each collective of the cycle is one that the next one waits for; the first is also the last.
        cycle = error.args[1]
        reason = f"these collectives wait for each other: {', '.join(cycle[:-1])}"
        raise InputError(reason, field=place.get(cycle[1], f"after.{cycle[1]}"), value=cycle[0]) from None


def _check_untils(job: Job) -> None:
    """Check the phases until which collectives may take."""
    phase = job.phase_by_name
    phases = {phase.get(name, 0) for name in job.collective_names}
    place = {call.name: f"collectives[{i}].until" for i, call in enumerate(job.collectives)}
    for name, own in job.waits_by_name.items():
        if own.until is None:
            continue
        if own.until < phase.get(name, 0):
            reason = f"the collective begins in the later phase {phase.get(name, 0)}"
        elif own.until not in phases:
            reason = "no collective is in this phase"
        else:
            continue
        raise InputError(reason, field=place.get(name, f"until.{name}"), value=own.until)


def not_overlapped(job: Job) -> tuple[str, ...]:
    """Return the collectives of a job that are to overlap with computing where it states none in their phase.

    They are sent with the other collectives of the phase. With ``period_seconds``, the first phase computes.
    """
    phase = {name: job.phase_by_name.get(name, 0) for name in job.collective_names}
    computing: set[int] = set()
    if job.timing is not None and job.timing.period_seconds is not None:
        computing = {min(phase.values(), default=0)}
    elif job.timing is not None:
        computing = {number for number, seconds in job.timing.compute if seconds > 0}
    return tuple(name for name, own in job.waits_by_name.items() if not own.computing and phase[name] not in computing)


def not_overlapped_line(names: Sequence[str]) -> str:
    """Return the line by which people are told of ``not_overlapped``."""
    return (
        f"{', '.join(names)}: 'overlap' has no effect, because the job states no computing in this phase; all "
        "collectives of the phase are sent together"
    )
