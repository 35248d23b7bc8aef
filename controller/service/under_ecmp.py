"""What hashing would make of the traffic that there is now: the plan of the policy ``ecmp``, to compare with."""

from __future__ import annotations

from controller.config import Settings, options_of
from controller.model.errors import UnavailableError
from controller.model.fabric import Fabric
from controller.model.plan import Plan
from controller.planning.headroom import with_headroom
from controller.planning.make_plan import make_plan
from controller.service.draft import Draft
from controller.service.runtime import Runtime
from controller.service.step import Step

SEED = 0
"""One fixed seed: the picture changes when the network or the jobs do, not from look to look."""


class UnderEcmp:
    """Makes ECMP's plan for a step once, off the event loop, and keeps the newest."""

    def __init__(self, settings: Settings, intended: Fabric | None, runtime: Runtime) -> None:
        self._settings, self._intended, self._runtime = settings, intended, runtime
        self._lock = runtime.lock()
        self._made: tuple[Draft, Plan] | None = None

    def plan(self, step: Step) -> Plan:
        """On the links that the step's plan may use, and for its flows.

        Raises:
            UnavailableError: the step has no plan.
        """
        draft = step.draft
        if draft is None:
            raise UnavailableError("there is no plan yet")
        # One at a time: whoever waits finds it made, and steps need the threads, too.
        with self._lock:
            if self._made is None or self._made[0] is not draft:
                self._made = draft, self._runtime.offload(self._make, draft)
            return self._made[1]

    def _make(self, draft: Draft) -> Plan:
        intended = None if self._intended is None else with_headroom(self._intended, self._settings.headroom)
        return make_plan(
            draft.planned_on,
            draft.traffic,
            policy="ecmp",
            seed=SEED,
            intended=intended,
            options=options_of(self._settings),
            clock=self._runtime.clock,
        )
