"""What a replica that does not lead knows of the store: it reads each change, and is ready to lead from there.

A follower derives from the store what a restarted controller would begin with: jobs with their flows, and the plan of
the newest record on the fabric of that plan. So it answers reads of the store's content without the leader, and after
its election expands and plans nothing again. It never plans by itself.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from functools import partial

from controller.core.change_number import ChangeNumber
from controller.core.configuration import Configuration
from controller.core.controller_state import ControllerState
from controller.core.desired_state import AdmittedJob
from controller.core.ports.enforcer import Compiler
from controller.core.ports.runtime import Runtime
from controller.core.ports.store import ReplicaStore
from controller.core.reconcile import reconcile
from controller.core.saved.restore import restore, restored_enforcement
from controller.core.saved.saved_state import SavedState
from controller.model.errors import InputError, UnavailableError
from controller.model.network_state import NetworkState
from controller.service.reconciling.admission import Admission

LOG = logging.getLogger("fairspine.service")

READING_PART = 0.2
"""The part of the time that reading changes may take, about: on a large fabric each takes long."""

UNSEEN = NetworkState(starting=True)
"""The network of which nothing is observed: all is as the store has it."""

Took = Callable[[SavedState, ControllerState], None]
"""Called with what the store holds, and the state that follows from it."""


class Follower:
    """Follows the store until this replica is elected or ends; all of it runs on the event loop.

    Attributes:
        change: the number of the last change that this follower knows; ``None``: it knows nothing yet, or cannot know
            all, as without a fabric file.
        saved: what the store held at that change, or at a later one.
    """

    def __init__(
        self,
        configuration: Configuration,
        runtime: Runtime,
        store: ReplicaStore,
        admission: Admission,
        took: Took,
        compiler: Compiler,
    ) -> None:
        """Know nothing yet; ``start`` begins to follow."""
        self._configuration, self._runtime, self._store = configuration, runtime, store
        self._admission, self._took, self._compiler = admission, took, compiler
        self.change: ChangeNumber | None = None
        self.saved: SavedState | None = None
        self._state: ControllerState | None = None
        self._newest: ChangeNumber | None = None
        self._woken, self._known = runtime.signal(), runtime.signal()
        self._ended = False
        self._hindered = ""

    def start(self) -> None:
        """Begin to follow."""
        self._runtime.spawn(self._run)

    def hear(self, newest: ChangeNumber | None) -> None:
        """Take the number of the store's last change; called with each beat."""
        if newest != self._newest:
            self._newest = newest
            self._woken.set()

    def end(self) -> None:
        """Stop: this replica leads, or is about to end. What is known stays."""
        self._ended = True
        self._woken.set()

    def knows(self, change: ChangeNumber, seconds: float) -> bool:
        """Return whether this follower knows a change, now or within some seconds."""
        deadline = self._runtime.clock() + seconds
        while not self._ended and (self.change is None or self.change < change):
            left = deadline - self._runtime.clock()
            if left <= 0:
                return False
            self._known.clear()
            self._known.wait(left)
        return not self._ended

    def begin(self, saved: SavedState) -> tuple[SavedState, ControllerState | None]:
        """Return with what this replica begins to lead: what is saved, and the state that follows from it.

        Jobs have the flows that are known already. The state is ``None`` if it is not known.
        """
        self.end()
        state = self._state
        if state is None or self.saved is None or state.epoch != saved.epoch or not _same(saved, self.saved):
            return dataclasses.replace(saved, jobs=self._with_flows(saved)), None
        return saved, state

    def _run(self) -> None:
        while True:
            self._woken.wait()
            self._woken.clear()
            if self._ended:
                return
            began = self._runtime.clock()
            try:
                self._follow()
            except UnavailableError as error:
                # The beat says it, too; the next one tries again.
                LOG.debug("changes are not followed: %s", error.reason)
                self._newest = None
            except InputError as error:
                # Of what the store holds, such as an enforcement whose plug-in this replica does not have.
                if str(error) != self._hindered:
                    LOG.error("what the store holds cannot be followed, so this replica cannot lead: %s", error)
                self._hindered = str(error)
            except Exception:
                LOG.exception("changes are not followed")
            self._runtime.sleep((self._runtime.clock() - began) * (1 / READING_PART - 1))

    def _follow(self) -> None:
        change, saved = self._runtime.offload(self._store.read, self.saved)
        state = self._state_after(saved)
        if self._ended or state is None:
            return
        self._hindered = ""
        self.saved, self._state = saved, state
        self._took(saved, state)
        # Last: who sees this number reads what was taken.
        self.change = change
        self._known.set()

    def _state_after(self, saved: SavedState) -> ControllerState | None:
        """Return the state of a controller that restarts with this; ``None``: it would have to plan."""
        settings, intended = self._configuration.settings, self._configuration.intended
        if intended is None:
            return None
        before = restore(saved, intended, settings.enforcement, settings.learning)
        if before.applied is None and saved.jobs:
            return None
        desired = dataclasses.replace(before.desired, jobs=self._with_flows(saved))
        desired = self._admission.readmit(desired, before.saved_fabric or intended, settings.max_flows)
        work = partial(
            reconcile,
            settings,
            intended,
            UNSEEN,
            desired,
            dataclasses.replace(before, desired=desired),
            self._runtime.clock,
            self._compiler,
            take=None if before.applied is None else before.applied.paths,
        )
        state: ControllerState = self._runtime.offload(work)
        return state

    def _with_flows(self, saved: SavedState) -> tuple[AdmittedJob, ...]:
        """Return the saved jobs, with their flows where this follower has expanded them."""
        state, settings = self._state, self._configuration.settings
        if state is None or state.desired.enforcement != restored_enforcement(saved.mode, settings.enforcement):
            # Where the controller chooses ports, flows have others.
            return saved.jobs
        placed = {(job.name, job.position, job.revision, job.changed): job for job in state.jobs}
        return tuple(placed.get((job.name, job.position, job.revision, job.changed), job) for job in saved.jobs)


def _same(a: SavedState, b: SavedState) -> bool:
    """Return whether two readings of the store, of which the later one knew the earlier one, are of one content."""
    same_jobs = len(a.jobs) == len(b.jobs) and all(one is other for one, other in zip(a.jobs, b.jobs, strict=True))
    return same_jobs and a.plan is b.plan and (a.drained, a.mode, a.learning) == (b.drained, b.mode, b.learning)
