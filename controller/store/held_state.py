"""The state that a restart needs, in memory: what a database is written anew from if another program overwrites it."""

from __future__ import annotations

import dataclasses

from controller.core.desired_state import UNPLACED, AdmittedJob
from controller.core.saved.saved_state import SavedState, StateChange


class HeldState:
    """What the store has acknowledged, without the older plans."""

    def __init__(self, saved: SavedState) -> None:
        """Begin with what the database holds."""
        self._jobs = {job.name: job for job in saved.jobs}
        self._drained, self._mode, self._learning, self._plan = saved.drained, saved.mode, saved.learning, saved.plan

    def commit(self, change: StateChange) -> None:
        """Take over a change that was stored."""
        for name in change.deleted:
            self._jobs.pop(name, None)
        self._jobs |= {job.name: _stored(job) for job in change.put}
        if change.drained is not None:
            self._drained = change.drained
        self._mode = change.mode or self._mode
        self._learning = change.learning or self._learning
        for plan in change.plans:
            if self._plan is None or plan.epoch >= self._plan.epoch:
                self._plan = plan

    def whole(self) -> StateChange:
        """Return the change that stores all of it in an empty database, the same for the same state."""
        return StateChange(
            put=tuple(self._jobs[name] for name in sorted(self._jobs)),
            drained=self._drained,
            mode=self._mode,
            learning=self._learning,
            plans=() if self._plan is None else (self._plan,),
        )


def _stored(job: AdmittedJob) -> AdmittedJob:
    # The flows of large jobs take much memory, and are not stored.
    return dataclasses.replace(job, traffic=None, left_out=UNPLACED)
