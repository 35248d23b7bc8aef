"""The plan that hashing would give for the present traffic: the plan of the policy ``ecmp``, for comparison."""

from __future__ import annotations

from controller.config import options_of
from controller.core.configuration import Configuration
from controller.core.controller_state import ControllerState
from controller.core.plan_candidate import PlanCandidate
from controller.core.ports.runtime import Runtime
from controller.model.errors import UnavailableError
from controller.model.plan import Plan
from controller.planning.headroom import with_headroom
from controller.planning.make_plan import make_plan

SEED = 0
"""A fixed seed: the result changes with the network or the jobs, not from request to request."""


class EcmpPlan:
    """Makes ECMP's plan for a state once, off the event loop, and keeps the newest."""

    def __init__(self, configuration: Configuration, runtime: Runtime) -> None:
        """Make no plan yet."""
        self._settings, self._intended, self._runtime = configuration.settings, configuration.intended, runtime
        self._lock = runtime.lock()
        self._made: tuple[PlanCandidate, Plan] | None = None

    def plan(self, state: ControllerState) -> Plan:
        """Return ECMP's plan for the state's flows, on the links that the state's plan may use.

        Raises:
            UnavailableError: the state has no plan.
        """
        candidate = state.candidate
        if candidate is None:
            raise UnavailableError("there is no plan yet")
        # One at a time: waiting callers find the plan made, and reconciliations need the threads, too.
        with self._lock:
            if self._made is None or self._made[0] is not candidate:
                self._made = candidate, self._runtime.offload(self._make, candidate)
            return self._made[1]

    def _make(self, candidate: PlanCandidate) -> Plan:
        intended = None if self._intended is None else with_headroom(self._intended, self._settings.headroom)
        return make_plan(
            candidate.planned_on,
            candidate.traffic,
            policy="ecmp",
            seed=SEED,
            intended=intended,
            options=options_of(self._settings),
            clock=self._runtime.clock,
        )
