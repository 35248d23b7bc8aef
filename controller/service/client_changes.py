"""The changes that clients request: of jobs, drains, the mode and the paths. Each returns once it is saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from controller.config import Settings
from controller.core.caller import Caller
from controller.core.controller_state import ControllerState
from controller.core.desired_state import AdmittedJob, DesiredState, DesiredStateChange, revision
from controller.core.errors import ConflictError, NotAllowedError
from controller.core.events import EventKind
from controller.core.port_choice import own_ports
from controller.core.ports.api import Condition
from controller.core.ports.runtime import Runtime
from controller.core.saved.plan_record import PlanRecord
from controller.core.saved.saved_state import LearningSetting, ModeSetting, StateChange
from controller.learning.learned_job import LearnedJob
from controller.model.choices.enforcement import Mode
from controller.model.choices.learning import Learning
from controller.model.errors import InputError, NotFoundError, UnavailableError
from controller.model.fabric import Fabric
from controller.planning.drain import cables_of
from controller.routing import PreviousPlan
from controller.service.reading.known_state import KnownState
from controller.service.reconciling.admission import Admission
from controller.service.reconciling.change_request import ChangeRequest
from controller.service.reconciling.reconciler import Reconciler
from controller.southbound.enforcement.registry import ENFORCEMENTS, NEEDS_FILE, on_routers
from controller.workload.expand import JobTraffic, shares_ports

_NAMED = 5  # ids that the cause of a plan names
_ATTEMPTS = 4  # to expand a job while others change


class PushedJob(NamedTuple):
    """A pushed job, the state that contains it, and whether there was no job of that name before."""

    created: bool
    state: ControllerState
    job: AdmittedJob


class DrainsDone(NamedTuple):
    """The state in which things are drained or in use as requested.

    Attributes:
        changed: ids that were not so before.
        moved: flows that have another path because of it.
    """

    state: ControllerState
    changed: tuple[str, ...]
    moved: int


class ClientChanges:
    """Makes change requests and has the reconciler carry them out, one after the other."""

    def __init__(
        self, settings: Settings, runtime: Runtime, reconciler: Reconciler, admission: Admission, known: KnownState
    ) -> None:
        """Make requests for ``reconciler``; ``admission`` parses jobs."""
        self._settings, self._runtime, self._known = settings, runtime, known
        self._reconciler, self._admission = reconciler, admission

    def put_job(
        self, name: str, body: bytes, condition: Condition, caller: Caller, *, learned: LearnedJob | None = None
    ) -> PushedJob:
        """Admit a job, or a new version of it. ``learned``: the learned job whose document ``body`` is.

        It is expanded before the lock is taken, because that takes as long as the job is large, and other changes go on
        meanwhile. If they have taken its ports or its room, it is expanded again.

        Raises:
            UnavailableError: they did so again and again.
        """
        reconciler = self._reconciler
        for _ in range(_ATTEMPTS):
            desired = reconciler.desired
            traffic = None
            if self._changes_job(desired, name, body, condition, caller):
                traffic = self._expanded(desired, name, body, learned)
            with reconciler.change_lock(caller.gone):
                if not self._changes_job(reconciler.desired, name, body, condition, caller):
                    job = reconciler.desired.job(name)
                    assert job is not None
                    return PushedJob(False, reconciler.state, job)
                if traffic is not None and self._still_fits(traffic, desired, reconciler.desired):
                    if caller.tenant is not None and traffic.tenant != caller.tenant:
                        reason = f"token {caller.name} is that of tenant {caller.tenant}: its jobs say so"
                        raise InputError(reason, field="tenant", value=traffic.tenant)
                    return self._put_expanded(name, body, traffic, caller)
        raise UnavailableError(f"other jobs changed while {name} was read, {_ATTEMPTS} times; push it again")

    def _changes_job(self, desired: DesiredState, name: str, body: bytes, condition: Condition, caller: Caller) -> bool:
        """Return whether a push that is allowed changes anything.

        Raises:
            InputError: there would be too many jobs, in all or of the caller.
            NotAllowedError: the job is not of the caller's tenant.
        """
        old = desired.job(name)
        _check_tenant(caller, old)
        condition.check(None if old is None else old.revision)
        if old is None and len(desired.jobs) >= self._settings.max_jobs:
            raise InputError(f"at most {self._settings.max_jobs} jobs are allowed", field="name", value=name)
        most = caller.quota.jobs
        if most is not None and (old is None or old.by != caller.name):
            own = sum(job.by == caller.name for job in desired.jobs)
            if own >= most:
                reason = (
                    f"the quota of token {caller.name} is {most} {'job' if most == 1 else 'jobs'}, and it has {own}"
                )
                raise InputError(reason, field="name", value=name)
        return old is None or old.traffic is None or old.document != body

    def _expanded(self, desired: DesiredState, name: str, body: bytes, learned: LearnedJob | None) -> JobTraffic:
        fabric, others = self._known.fabric(), desired.without_job(name)
        room = self._settings.max_flows - others.n_flows
        chooses_ports = desired.chooses_ports
        if learned is None:
            return self._admission.admit(name, body, fabric, others.traffic, room, chooses_ports=chooses_ports)
        return self._admission.admit_learned(learned, fabric, others.traffic, room, chooses_ports=chooses_ports)

    def _still_fits(self, traffic: JobTraffic, before: DesiredState, now: DesiredState) -> bool:
        """Return whether traffic that was expanded beside the jobs of ``before`` can be so beside those of ``now``."""
        if before.chooses_ports != now.chooses_ports:
            return False
        known = {id(other) for other in before.traffic}
        added = [other for other in now.without_job(traffic.name).traffic if id(other) not in known]
        room = self._settings.max_flows - now.without_job(traffic.name).n_flows
        return not added or (
            traffic.n_flows <= room and not self._runtime.offload(shares_ports, self._known.fabric(), traffic, added)
        )

    def _put_expanded(self, name: str, body: bytes, traffic: JobTraffic, caller: Caller) -> PushedJob:
        reconciler = self._reconciler
        old = reconciler.desired.job(name)
        job = AdmittedJob(
            name=name,
            document=body,
            revision=self._runtime.offload(revision, "" if old is None else old.revision, body),
            # A new version keeps its job's place: ports of the jobs behind it do not change either way.
            position=reconciler.desired.next_position if old is None else old.position,
            changed=self._runtime.now(),
            by=caller.name,
            ports=traffic.udp_src,
            traffic=traffic,
        )
        done = "pushed" if old is None else "replaced"
        request = _requested(
            caller,
            lambda desired: desired.with_job(job),
            StateChange(put=(job,)),
            f"job {name} {done}",
            [("job", {"job": name, "change": done, "revision": job.revision})],
        )
        try:
            state, _ = reconciler.change(request)
        except InputError as error:
            raise InputError(error.reason, field="name", value=name) from None
        return PushedJob(old is None, state, job)

    def delete_job(self, name: str, condition: Condition, caller: Caller) -> None:
        """Remove a job."""
        with self._reconciler.change_lock(caller.gone):
            old = self._reconciler.desired.job(name)
            _check_tenant(caller, old)
            condition.check(None if old is None else old.revision)
            if old is None:
                raise NotFoundError("job", name)
            self._reconciler.change(
                _requested(
                    caller,
                    lambda desired: desired.without_job(name),
                    StateChange(deleted=(name,)),
                    f"job {name} deleted",
                    [("job", {"job": name, "change": "deleted"})],
                )
            )

    def drain(self, names: Sequence[str], drained: bool, caller: Caller) -> DrainsDone:
        """Drain cables, switches, pods or planes together, or take them back into use."""
        with self._reconciler.change_lock(caller.gone):
            state, desired = self._known.state(), self._reconciler.desired
            for name in names:
                self.check_drainable(state, name)
            changed = [name for name in dict.fromkeys(names) if drained != (name in desired.drained)]
            if not changed:
                return DrainsDone(state, (), 0)
            more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
            state, record = self._reconciler.change(
                _requested(
                    caller,
                    lambda desired: desired.draining(changed, drained),
                    StateChange(drained=desired.draining(changed, drained).drained),
                    f"{', '.join(changed[:_NAMED])}{more} {'drained' if drained else 'undrained'}",
                    [("link", {"id": name, "drained": drained}) for name in changed],
                )
            )
            return DrainsDone(state, tuple(changed), 0 if record is None else record.moved)

    def check_drainable(self, state: ControllerState, name: str) -> None:
        """Raise ``NotFoundError`` unless the fabric has the thing, or it is among those drained earlier."""
        if name not in state.desired.drained:
            self._runtime.offload(cables_of, self._known.fabric(), name)

    def take_paths(self, paths: PreviousPlan, epoch: int, caller: Caller) -> PlanRecord:
        """Give the present flows the live ones of the paths of plan ``epoch``; return the record of the new plan."""
        with self._reconciler.change_lock(caller.gone):
            self._known.state()
            if self._reconciler.desired.mode == "frozen":
                raise ConflictError("the mode is frozen, so rules do not change; set the mode to planned first")
            _, record = self._reconciler.change(
                _requested(
                    caller,
                    lambda desired: desired,
                    StateChange(),
                    f"rollback to plan {epoch}",
                    take=paths,
                    rollback_of=epoch,
                )
            )
            assert record is not None
            return record

    def set_learning(self, learning: Learning, caller: Caller) -> tuple[ControllerState, LearningSetting | None]:
        """Change what becomes of learned jobs; return the state in which it is so, and the record of who set it."""
        reconciler = self._reconciler
        with reconciler.change_lock(caller.gone):
            if reconciler.desired.learning == learning:
                return reconciler.state, reconciler.learning
            record = LearningSetting(learning, self._runtime.now(), caller.name, self._settings.learning)
            request = _requested(
                caller,
                lambda desired: desired.in_learning(learning),
                StateChange(learning=record),
                f"learning {learning}",
                [("learning", {"learning": learning})],
            )
            state, _ = reconciler.change(request)
            return state, record

    def set_mode(
        self, mode: Mode | None, enforcement: str | None, caller: Caller
    ) -> tuple[ControllerState, ModeSetting | None]:
        """Change the mode or the enforcement; return the state in which they are so, and the record of who set them."""
        reconciler = self._reconciler
        with reconciler.change_lock(caller.gone):
            before = reconciler.desired
            after = before.in_mode(mode, enforcement)
            if after == before:
                return reconciler.state, reconciler.mode
            if enforcement is not None:
                self._check_carried_out(self._known.fabric(), enforcement)
            if after.chooses_ports and not before.chooses_ports:
                _check_free_ports(before, after.chooses_ports)
            last = ModeSetting("", 0.0, "") if reconciler.mode is None else reconciler.mode
            record = ModeSetting(
                mode=after.mode,
                changed=self._runtime.now(),
                by=caller.name,
                enforcement=enforcement or last.enforcement,
                option=self._settings.enforcement if enforcement else last.option,
            )
            request = _requested(
                caller,
                lambda desired: desired.in_mode(mode, enforcement),
                StateChange(mode=record),
                _difference(before, after),
                [("mode", {"mode": after.mode, "enforcement": after.enforcement})],
            )
            try:
                state, _ = reconciler.change(request)
            except InputError as error:
                raise ConflictError(f"{after.enforcement} enforcement: {error}") from None
            return state, record

    def _check_carried_out(self, fabric: Fabric, enforcement: str) -> None:
        """See whether anything on a fabric carries out the plans of an enforcement.

        Raises:
            ConflictError: switches would have to, and all of them are routers; agents of hosts would have to, and no
                file says which hosts these are; or it cannot be on this fabric.
        """
        if not self._settings.fabric and ENFORCEMENTS.named(enforcement).by_hosts:
            raise ConflictError(f"{enforcement} enforcement: {NEEDS_FILE}")
        if not on_routers(enforcement) and len(fabric.routers) == len(fabric.switches):
            others = ", ".join(name for name in ENFORCEMENTS if on_routers(name))
            raise ConflictError(
                f"{enforcement} enforcement: OpenFlow switches carry out its plans, and all switches of this fabric "
                f"are routers; choose one of {others}"
            )
        chosen = ENFORCEMENTS.named(enforcement)
        try:
            chosen.check_fabric(fabric, chosen.options_of(self._settings))
        except InputError as error:
            raise ConflictError(f"{enforcement} enforcement: {error}") from None


def _requested(
    caller: Caller,
    apply: DesiredStateChange,
    change: StateChange,
    cause: str,
    events: Sequence[tuple[EventKind, Mapping[str, Any]]] = (),
    *,
    take: PreviousPlan | None = None,
    rollback_of: int | None = None,
) -> ChangeRequest:
    """Return the request of a caller for a change."""
    return ChangeRequest(
        apply,
        change,
        cause,
        caller.name,
        events,
        take=take,
        rollback_of=rollback_of,
        reason=caller.reason,
        request_id=caller.request_id,
    )


def _check_tenant(caller: Caller, job: AdmittedJob | None) -> None:
    """See whether a caller that belongs to a tenant may change a job that is there.

    A job that is stored but not planned is not known to be of a tenant.

    Raises:
        NotAllowedError: it is not of that tenant.
    """
    if caller.tenant is None or job is None:
        return
    owner = None if job.traffic is None else job.traffic.tenant
    if owner != caller.tenant:
        raise NotAllowedError(
            f"token {caller.name} is that of tenant {caller.tenant}, and job {job.name} is not known to be of that"
        )


def _check_free_ports(desired: DesiredState, enforcement: str) -> None:
    """See whether every job leaves its ports to the controller, as an enforcement requires.

    Raises:
        ConflictError: the first that does not.
    """
    for job in desired.jobs:
        reason = "" if job.traffic is None else own_ports(job.traffic, enforcement)
        if reason:
            raise ConflictError(f"job {job.name}: {reason}; delete it or push it without ports first")


def _difference(before: DesiredState, after: DesiredState) -> str:
    """Return the changed settings of enforcement, for people."""
    parts = [f"mode {after.mode}"] if after.mode != before.mode else []
    parts += [f"enforcement {after.enforcement}"] if after.enforcement != before.enforcement else []
    return ", ".join(parts)
