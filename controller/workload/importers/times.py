"""Times in other tools' files, as the timing of a job."""

from __future__ import annotations

import math
from collections.abc import Mapping

from controller.model.errors import InputError
from controller.model.timing import JobTiming
from controller.model.units import NANOSECOND
from controller.workload.job_file import MAX_SECONDS

MAX_NANOSECONDS = MAX_SECONDS / NANOSECOND


def computing(by_phase: Mapping[int, float], source: str) -> JobTiming | None:
    """Return the timing of a job that computes these seconds before these phases; ``None`` where there are none.

    Raises:
        InputError: a job file would not take a value.
    """
    rows = tuple((phase, _checked(seconds, source)) for phase, seconds in sorted(by_phase.items()) if seconds > 0)
    return JobTiming(rows) if rows else None


def period(seconds: float, source: str) -> JobTiming | None:
    """Return the timing of a job whose iterations were measured; ``None`` where nothing was.

    Raises:
        InputError: a job file would not take the value.
    """
    return JobTiming(period_seconds=_checked(seconds, source)) if seconds > 0 else None


def _checked(seconds: float, source: str) -> float:
    if not math.isfinite(seconds) or seconds > MAX_SECONDS:
        raise InputError(f"an iteration takes more than {MAX_SECONDS:.0f} seconds", source=source, value=seconds)
    return seconds
