"""Planning of learned jobs while the controller runs (``learning = act``), and what it would gain."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from controller.core.configuration import Configuration
from controller.core.controller_state import ControllerState
from controller.core.desired_state import DesiredState
from controller.core.learned_trial import LearnedSpeeds, another_plan_pays, gains
from controller.core.ports.runtime import Runtime
from controller.core.saved.saved_state import StateChange
from controller.learning.acting import FlowIdentity, Need, flows_of, need
from controller.learning.ended_flows import EndedFlows
from controller.learning.learned_job import LearnedJob
from controller.learning.prediction import next_idle
from controller.learning.qp_ports import in_order
from controller.model.errors import InputError, UnavailableError
from controller.model.fabric import Fabric
from controller.service.learning.learner import Learner
from controller.service.reconciling.admission import Admission
from controller.service.reconciling.change_request import ChangeRequest
from controller.service.reconciling.reconciler import Reconciler
from controller.service.tasks.fault_log import FaultLog
from controller.workload.expand import JobTraffic

LOG = logging.getLogger("fairspine.service")

BETWEEN_PLANS = 60.0
"""Least seconds between two plans of which the second only pays, without being needed."""
WRITING_SECONDS = 0.2
"""An idle time must be as long: planning, and writing about 2,000 rules (docs/explanation/learning.md)."""
MOST_SPARE = 1.0
"""Seconds at the begin of an idle time in which nothing is written, at most."""
AT_LEAST = 10.0
"""Seconds between two looks at planned jobs, also if nobody reports any more."""
BY = "learning"
NOT_TOLD = "hosts do not tell of its QPs which are open, so their ports cannot be chosen (fairspine port-agent --verbs)"


class LearnedPlanning:
    """Gives learned jobs to the reconciler, and takes flows that have ended out of the plan.

    A plan holds the flows of the jobs that are learned when it is made. A flow that no learned job has any more leaves
    it with the next plan, whatever that is made for, or by itself once ``EndedFlows`` says so; then no other flow moves
    (``ChangeRequest.keep_learned``), unless another plan pays.
    """

    def __init__(
        self,
        configuration: Configuration,
        runtime: Runtime,
        reconciler: Reconciler,
        admission: Admission,
        learner: Learner,
    ) -> None:
        """Begin without planned jobs; ``start`` begins to act."""
        self._settings, self._intended = configuration.settings, configuration.intended
        self._runtime, self._reconciler = runtime, reconciler
        self._admission, self._learner = admission, learner
        self._planned: Mapping[str, LearnedJob] = {}
        self._ended = EndedFlows()
        self._refused: Mapping[str, str] = {}
        self._last = -BETWEEN_PLANS
        self.speeds: Mapping[str, LearnedSpeeds] = {}
        """Of the present learned jobs, by name."""
        self._valued: tuple[object, ...] = ()

    def start(self) -> None:
        """Act on what is learned from now on."""
        self._reconciler.tasks.spawn("learned jobs are planned", self._run)

    def drop(self, job: LearnedJob) -> None:
        """Forget a job until it is seen again, and take its flows out of the plan now."""
        self._learner.drop(job)
        self._ended.forget(flows_of({job.name: self._as_compared(job)}))
        self._learner.looked.set()

    def _run(self) -> None:
        looked, faults = self._learner.looked, FaultLog("learned jobs could not be planned")
        while True:
            looked.wait(AT_LEAST if self._planned else None)
            looked.clear()
            faults.run(self.step)

    def step(self) -> None:
        """Compare the learned jobs with the plan, and change the plan if they need it."""
        state, present = self._reconciler.state, {job.name: self._as_compared(job) for job in self._learner.jobs}
        fabric = state.fabric
        if fabric is None or not state.network_known:
            return
        if not state.desired.learned:
            self._planned = {}
        acting = state.desired.learning == "act" and state.desired.mode == "planned" and state.desired.plans_learned
        if acting:
            wanted, ended = self._runtime.offload(self._compare, present)
            if wanted is Need.NOW or ended or (wanted is Need.IF_IT_PAYS and self._may_try()):
                self._plan(state, fabric, present, wanted, ended)
        self._value(fabric, present)

    def _as_compared(self, job: LearnedJob) -> LearnedJob:
        """Return a job with what stays the same of its QPs, whatever a plan does to them."""
        return in_order(job) if self._reconciler.desired.learns_ports else job

    def _compare(self, present: Mapping[str, LearnedJob]) -> tuple[Need, frozenset[FlowIdentity]]:
        """Return how much the present jobs differ from the planned ones, and the flows that must leave the plan."""
        self._ended.look(self._planned, present)
        return need(self._planned, present), self._ended.at(self._runtime.now())

    def _may_try(self) -> bool:
        return self._runtime.clock() - self._last >= BETWEEN_PLANS

    def _plan(
        self,
        state: ControllerState,
        fabric: Fabric,
        present: Mapping[str, LearnedJob],
        wanted: Need,
        ended: frozenset[FlowIdentity],
    ) -> None:
        traffic = self._traffic(state, fabric, present)
        names = {job.name for job in traffic}
        if wanted is Need.NOW and len(names) < len(present):
            # Jobs that cannot be planned do not make others be planned again.
            wanted = need(self._planned, {name: job for name, job in present.items() if name in names})
            if not ended and (wanted is Need.NONE or (wanted is Need.IF_IT_PAYS and not self._may_try())):
                return
        tried = state.desired.planning_learned(traffic)
        keep = False
        if wanted is not Need.NOW:
            self._last = self._runtime.clock()
            keep = not self._offload(another_plan_pays, state, tried)
            if keep and not ended:
                return
        self.wait_for_idle([job for name, job in present.items() if name in names])
        request = ChangeRequest(
            lambda desired: desired.planning_learned(traffic),
            StateChange(),
            _cause(sorted(names - self._planned.keys()), sorted(self._planned.keys() - names), len(ended)),
            BY,
            [("learning", {"learning": "act", "planned": sorted(names)})],
            keep_learned=keep,
        )
        try:
            with self._reconciler.change_lock():
                if self._reconciler.desired.learning != "act":
                    return
                self._reconciler.change(request)
        except (InputError, UnavailableError) as error:
            LOG.warning("learned jobs stay as they are planned: %s", error)
            return
        self._last = self._runtime.clock()
        self._planned = {name: job for name, job in present.items() if name in names}

    def wait_for_idle(self, jobs: Sequence[LearnedJob] | None = None) -> None:
        """Wait until no job (default: of the planned ones) is expected to send for a while, if such a time is near.

        Bursts may last longer than expected, so half of the time that writing leaves of it is waited for, too, at most
        ``MOST_SPARE``. With ``learning_wait_seconds = 0``, and where none is near, rules are written while jobs send.
        """
        jobs = list(self._planned.values()) if jobs is None else jobs
        if not jobs:
            return
        now, within = self._runtime.now(), self._settings.learning_wait_seconds
        idle = next_idle(jobs, now, within, WRITING_SECONDS)
        if idle is not None:
            spare = min((idle.seconds - WRITING_SECONDS) / 2, MOST_SPARE)
            self._runtime.sleep(max(0.0, idle.begin + spare - now))

    def _traffic(self, state: ControllerState, fabric: Fabric, present: Mapping[str, LearnedJob]) -> list[JobTraffic]:
        """Return the flows of learned jobs, as far as there is room for them."""
        admitted: list[JobTraffic] = []
        refused: dict[str, str] = {}
        desired = state.desired
        # Numbers of flows are taken once; ports are those of packets, and tell which flows are the same.
        beside = desired.traffic if desired.learns_ports else []
        for job in present.values():
            # QPs of a planned job may be about to connect anew.
            if desired.learns_ports and job.name not in self._planned and not self._learner.is_open(job):
                refused[job.name] = NOT_TOLD
                continue
            room = self._settings.max_flows - desired.n_flows - sum(other.n_flows for other in admitted)
            try:
                others, chosen = [*beside, *admitted], desired.chooses_ports if desired.plans_learned else None
                admitted.append(self._admission.admit_learned(job, fabric, others, room, chooses_ports=chosen))
            except InputError as error:
                refused[job.name] = str(error)
        for name, why in refused.items():
            if self._refused.get(name) != why:
                LOG.warning("learned job %s is not planned: %s", name, why)
        self._refused = refused
        return admitted

    def _value(self, fabric: Fabric, present: Mapping[str, LearnedJob]) -> None:
        """Compute what the present jobs gain by a plan, unless nothing has changed."""
        state = self._reconciler.state
        if not present:
            self.speeds, self._valued = {}, ()
            return
        valued = (state.epoch, *((name, job.groups) for name, job in present.items()))
        if valued == self._valued:
            return
        tried = dataclasses.replace(state.desired, learned=tuple(self._traffic(state, fabric, present)))
        self.speeds = self._offload(gains, state, tried)
        self._valued = valued

    def _offload(self, function: Callable[..., Any], state: ControllerState, desired: DesiredState) -> Any:
        return self._runtime.offload(function, self._settings, self._intended, state, desired, self._runtime.clock)


def _cause(new: Sequence[str], gone: Sequence[str], ended: int) -> str:
    """Return the reason for a plan, for people: which jobs came and went, and how many flows have ended."""
    words = [f"+{name}" for name in new] + [f"-{name}" for name in gone]
    names = f"learned jobs {' '.join(words[:5])}".strip() + (" ..." if len(words) > 5 else "")
    return f"{names}: {ended} flow{'' if ended == 1 else 's'} ended" if ended else names
