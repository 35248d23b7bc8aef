"""The running controller as an interface sees it: reads of the newest state, and change requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from controller.core.caller import Caller
from controller.core.configuration import Configuration
from controller.core.controller_state import ControllerState
from controller.core.desired_state import AdmittedJob, DesiredState, revision
from controller.core.errors import ConflictError
from controller.core.ports.api import Condition, Document, Exposition, JobAnswer, PutOutcome, Subscription, Under
from controller.core.ports.runtime import Runtime
from controller.core.ports.southbound import Southbound
from controller.core.ports.store import Persistence
from controller.core.saved_state import ModeSetting, StateChange
from controller.core.source_port_checks import own_ports
from controller.model.enforcement import Enforcement, Mode
from controller.model.errors import InputError, NotFoundError, UnavailableError
from controller.model.fabric import Fabric
from controller.model.plan import Plan
from controller.planning.drain import cables_of
from controller.routing import enforceable
from controller.service.admission import Admission
from controller.service.ecmp_plan import EcmpPlan
from controller.service.event_log import EventLog
from controller.service.history_recorder import HistoryRecorder
from controller.service.learner import Learner
from controller.service.links import LinkLists
from controller.service.measurements import Measurements
from controller.service.reconciler import ChangeRequest, Reconciler
from controller.service.sflow_feeder import SflowFeeder
from controller.views import documents, health, learned, plan_history, preview, survival, trace
from controller.views.metrics import MetricsSnapshot, exposed


class Service:
    """Implements ``controller.core.ports.api.Backend``."""

    def __init__(
        self,
        configuration: Configuration,
        runtime: Runtime,
        persistence: Persistence,
        southbound: Southbound,
        admission: Admission,
        events: EventLog,
        measurements: Measurements,
    ) -> None:
        """Connect the parts of the service; ``start`` begins to reconcile.

        Args:
            configuration: the options and the fabric file.
            runtime: tasks, waiting and time.
            persistence: the store, with whose content this controller continues.
            southbound: observes the network and installs rules.
            admission: parses jobs and expands them to flows.
            events: the log of events.
            measurements: of the network and of the controller.
        """
        self._settings, self._intended = configuration.settings, configuration.intended
        self._runtime, self._store = runtime, persistence.store
        self._southbound, self._admission = southbound, admission
        self._events, self._measurements = events, measurements
        self._previewing, self._reading, self._analysing = runtime.lock(), runtime.lock(), runtime.lock()
        self._under_ecmp = EcmpPlan(configuration, runtime)
        self._links = LinkLists(runtime, measurements)
        self._learner = Learner(runtime, admission.sightings, self._settings.learning, measurements.instruments)
        self._sflow = SflowFeeder(
            runtime, self._learner, measurements.instruments, self._settings.sflow_listen, self._settings.sflow_agents
        )
        self._reconciler = Reconciler(
            configuration, runtime, persistence, southbound, admission, events, measurements.instruments
        )
        confirmed = self._reconciler.installation.confirmed
        self.recorder = HistoryRecorder(runtime, measurements, lambda: self._reconciler.state, confirmed)

    @property
    def state(self) -> ControllerState:
        """The newest published state."""
        return self._reconciler.state

    def start(self) -> None:
        """Begin to reconcile and to record."""
        self._reconciler.start()
        for part in (self._learner, self._sflow):
            part.start(self._reconciler.tasks, lambda: self._reconciler.state)
        self.recorder.start()

    @property
    def ended(self) -> Sequence[str]:
        """The vital tasks that have ended, now and later: one list, which is empty while the controller works."""
        return self._reconciler.tasks.ended

    # -- jobs ----------------------------------------------------------------------------------------------------

    def put_job(self, name: str, body: bytes, condition: Condition, caller: Caller) -> PutOutcome:
        """Admit a job, or a new version of it, and return once it is saved and planned."""
        reconciler = self._reconciler
        with reconciler.change_lock():
            old = reconciler.desired.job(name)
            condition.check(None if old is None else old.revision)
            fabric = self._known_fabric()
            if old is not None and old.traffic is not None and old.document == body:
                return PutOutcome(False, self._answer(reconciler.state, old))
            if old is None and len(reconciler.desired.jobs) >= self._settings.max_jobs:
                raise InputError(f"at most {self._settings.max_jobs} jobs are allowed", field="name", value=name)
            others = reconciler.desired.without_job(name)
            room = self._settings.max_flows - others.n_flows
            steered = reconciler.desired.steered
            traffic = self._admission.admit(name, body, fabric, others.traffic, room, steered=steered)
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
            request = ChangeRequest(
                lambda desired: desired.with_job(job),
                StateChange(put=(job,)),
                f"job {name} {done}",
                caller.name,
                ("job", {"job": name, "change": done, "revision": job.revision}),
            )
            try:
                state, _ = reconciler.change(request)
            except InputError as error:
                raise InputError(error.reason, field="name", value=name) from None
            return PutOutcome(old is None, self._answer(state, job))

    def delete_job(self, name: str, condition: Condition, caller: Caller) -> None:
        """Remove a job and return once this is saved."""
        with self._reconciler.change_lock():
            old = self._reconciler.desired.job(name)
            condition.check(None if old is None else old.revision)
            if old is None:
                raise NotFoundError("job", name)
            self._reconciler.change(
                ChangeRequest(
                    lambda desired: desired.without_job(name),
                    StateChange(deleted=(name,)),
                    f"job {name} deleted",
                    caller.name,
                    ("job", {"job": name, "change": "deleted"}),
                )
            )

    def job(self, name: str) -> JobAnswer:
        """Return one job with its part of the plan."""
        state = self._reconciler.state
        job = state.desired.job(name)
        if job is None:
            raise NotFoundError("job", name)
        return self._answer(state, job)

    def job_shift(self, name: str) -> Document:
        """Return when the job's iterations begin."""
        state = self._reconciler.state
        if state.desired.job(name) is None:
            raise NotFoundError("job", name)
        return documents.job_shift(state, name)

    def job_history(self, name: str) -> Document:
        """Return the speed of a job in the last 24 hours."""
        return self.recorder.job(name)

    def schedule(self) -> Document:
        """Return when all jobs' iterations begin."""
        return documents.schedule(self._known_step())

    def jobs(self) -> Document:
        """Return all jobs, without their flows."""
        state, installation = self._reconciler.state, self._reconciler.installation
        return self._offload(documents.jobs, state, installation.active, installation.confirmed(state))

    def _answer(self, state: ControllerState, job: AdmittedJob) -> JobAnswer:
        installation = self._reconciler.installation
        told = self._offload(documents.job, state, job.name, installation.active, installation.confirmed(state))
        return JobAnswer(job.revision, told)

    # -- the fabric ----------------------------------------------------------------------------------------------

    def fabric(self) -> Document:
        """Return the observed fabric and the cabling check."""
        state = self._known_step()
        return self._offload(documents.fabric, state, self._intended is not None, self._southbound.switches())

    def links(self, under: Under = "plan", since: str | None = None) -> Document:
        """Return every directed link with its planned load and measured counters, or the changes since a version."""
        state = self._known_step()
        return self._links.read(state, under, since, self._hashed(state, under))

    def link_history(self, name: str) -> Document:
        """Return the measured load of a directed link in the last 24 hours."""
        self._known_fabric()
        return self.recorder.link(name)

    def drainable(self, name: str) -> Document:
        """Return a cable, spine or leaf by its id, and whether it is drained."""
        state = self._known_step()
        self._check_drainable(state, name)
        return self._offload(documents.drain, state, name)

    def drain(self, name: str, drained: bool, caller: Caller) -> Document:
        """Drain a cable, spine or leaf, or take it back into use."""
        with self._reconciler.change_lock():
            state, desired = self._known_step(), self._reconciler.desired
            self._check_drainable(state, name)
            if drained != (name in desired.drained):
                state, _ = self._reconciler.change(
                    ChangeRequest(
                        lambda desired: desired.draining(name, drained),
                        StateChange(drained=desired.draining(name, drained).drained),
                        f"{name} {'drained' if drained else 'undrained'}",
                        caller.name,
                        ("link", {"id": name, "drained": drained}),
                    )
                )
            return self._offload(documents.drain, state, name)

    def _check_drainable(self, state: ControllerState, name: str) -> None:
        """Raise ``NotFoundError`` unless the fabric has the thing, or it is among those drained earlier."""
        if name not in state.desired.drained:
            self._runtime.offload(cables_of, self._known_fabric(), name)

    # -- plans ---------------------------------------------------------------------------------------------------

    def plan(self, under: Under = "plan") -> Document:
        """Return the newest plan, or ECMP's in its place."""
        state, installation = self._known_step(), self._reconciler.installation
        return self._offload(
            documents.plan, state, self._reconciler.computed_at, installation.active,
            installation.waits_for(state), installation.refused(), self._hashed(state, under),
        )  # fmt: skip

    def _hashed(self, state: ControllerState, under: Under) -> Plan | None:
        """Return ECMP's plan if it is asked for, else ``None``."""
        return self._under_ecmp.plan(state) if under == "ecmp" else None

    def plans(self, before: int | None, limit: int) -> Document:
        """Return a page of stored plans, newest first."""
        # One more than is shown tells whether there are more.
        return plan_history.page(self._read(self._store.plans, before, limit + 1), limit)

    def plan_record(self, epoch: int) -> Document:
        """Return one stored plan with its paths."""
        kept = self._read(self._store.plan, epoch)
        return self._offload(plan_history.record, kept)

    def _read(self, function: Callable[..., Any], *args: Any) -> Any:
        """Ask the store. One at a time: a store that hangs must not take all threads."""
        with self._reading:
            return self._runtime.offload(function, *args)

    def rollback(self, epoch: int, caller: Caller) -> Document:
        """Give the present flows the live paths of a stored plan."""
        reconciler = self._reconciler
        kept = self._read(self._store.plan, epoch)
        if kept.paths is None:
            raise ConflictError(f"plan {epoch} is stored without its paths")
        with reconciler.change_lock():
            self._known_step()
            if reconciler.desired.mode == "frozen":
                raise ConflictError("the mode is frozen, so rules do not change; set the mode to planned first")
            _, record = reconciler.change(
                ChangeRequest(
                    lambda desired: desired,
                    StateChange(),
                    f"rollback to plan {epoch}",
                    caller.name,
                    take=kept.paths,
                    rollback_of=epoch,
                )
            )
            assert record is not None
            return plan_history.summary(record)

    def preview(self, body: bytes) -> Document:
        """Return the effect of a change without making it."""
        # One at a time: each takes as long as a plan does, and states need the threads, too.
        with self._previewing:
            state = self._known_step()
            fabric = self._known_fabric()
            if state.candidate is None:
                raise UnavailableError("there is no plan yet")
            tried = self._admission.preview(
                body, fabric, state.desired.traffic, self._settings.max_flows, steered=state.desired.steered
            )
            return self._offload(
                preview.compare, self._settings, enforceable(), self._intended, state, tried, self._runtime.clock
            )

    def survive(self, body: bytes, gone: Callable[[], bool]) -> Document:
        """Return the effect of failures on the present jobs."""
        # One at a time, and beside previews: it may take seconds.
        with self._analysing:
            request = self._admission.survival(body)
            return self._offload(
                survival.analyse, self._settings, self._known_step(), request, gone, self._runtime.rest
            )

    def routes(self, host: str) -> Document:
        """Return the flows that a host sends, with their paths."""
        state = self._known_step()
        if host not in self._known_fabric().host_index:
            raise NotFoundError("host", host)
        return self._offload(documents.routes, state, host, self._settings.label_base)

    def trace(self, job: str | None, compare: str | None) -> Document:
        """Read the switches and return the measured path of each flow."""
        began = self._runtime.clock()
        self._known_step()
        reading = self._measurements.snapshots.read()
        # The plan is read after the switches: one that was made meanwhile is reported as not installed yet.
        state = self._known_step()
        if job is not None and state.desired.job(job) is None:
            raise NotFoundError("job", job)
        confirmed = {report.dpid: report.epoch for report in self._southbound.switches()}
        return self._offload(
            trace.document, state, reading, confirmed, job, compare == "ecmp",
            self._measurements.readings, began, self._runtime.clock,
        )  # fmt: skip

    # -- learning ------------------------------------------------------------------------------------------------

    def see(self, body: bytes) -> Document:
        """Take sightings of QPs from a host."""
        return {"qps": self._learner.see(body, self._known_fabric())}

    def learned(self) -> Document:
        """Return the jobs that were learned from sightings."""
        learner = self._learner
        return self._offload(learned.learned_list, learner.learning, *learner.known, learner.jobs)

    def learned_job(self, name: str) -> Document:
        """Return a learned job with its job document."""
        return self._offload(learned.learned_document, self._learner.job(name), self._reconciler.state.fabric)

    def forget_learned(self, name: str) -> None:
        """Forget a learned job until it is seen again."""
        self._learner.forget(name)

    def adopt(self, name: str, caller: Caller) -> PutOutcome:
        """Push a learned job under its name."""
        job, fabric = self._learner.job(name), self._known_fabric()
        body = self._runtime.offload(lambda: orjson.dumps(job.document(learned.host_finder(fabric))))
        outcome = self.put_job(name, body, Condition(none_match=frozenset()), caller)
        self._learner.drop(job)
        return outcome

    # -- the controller ------------------------------------------------------------------------------------------

    def mode(self) -> Document:
        """Return how plans are enforced, since when, and by whom this was set."""
        return documents.mode(self._reconciler.state, self._reconciler.mode)

    def set_mode(self, mode: Mode | None, enforcement: Enforcement | None, caller: Caller) -> Document:
        """Change the mode or the enforcement and return once this is saved."""
        reconciler = self._reconciler
        with reconciler.change_lock():
            state, before = reconciler.state, reconciler.desired
            after = before.in_mode(mode, enforcement)
            if after != before:
                if after.steered and not before.steered:
                    _check_steerable(before)
                last = ModeSetting("", 0.0, "") if reconciler.mode is None else reconciler.mode
                record = ModeSetting(
                    mode=after.mode,
                    changed=self._runtime.now(),
                    by=caller.name,
                    enforcement=enforcement or last.enforcement,
                    option=self._settings.enforcement if enforcement else last.option,
                )
                request = ChangeRequest(
                    lambda desired: desired.in_mode(mode, enforcement),
                    StateChange(mode=record),
                    _difference(before, after),
                    caller.name,
                    ("mode", {"mode": after.mode, "enforcement": after.enforcement}),
                )
                try:
                    state, _ = reconciler.change(request)
                except InputError as error:
                    raise ConflictError(f"{after.enforcement} enforcement: {error}") from None
            return documents.mode(state, reconciler.mode)

    def subscribe(self, after: str | None, last: int = 0) -> Subscription:
        """Open a subscription to the events after an id, or from now on with some before."""
        return self._events.subscribe(after, last)

    def health(self) -> Mapping[str, Any]:
        """Return whether the controller does its work, and the reasons if not."""
        reconciler = self._reconciler
        installation = reconciler.installation
        refused = self._southbound.refusal is not None
        troubles = health.Troubles(reconciler.failed, reconciler.store_writer.error, installation.reasons(), refused)
        return health.health(
            reconciler.state, self._southbound.switches(), self._intended, installation.active, troubles
        )  # fmt: skip

    def metrics(self, accept: str) -> Exposition:
        """Return the metrics in the format that the scraper accepts."""
        measurements = self._measurements
        told, reconciler, southbound = self.health(), self._reconciler, self._southbound
        now = MetricsSnapshot(
            state=reconciler.state,
            status=told["status"],
            degraded_service=len(told["degraded_service"]),
            confirmed=reconciler.installation.confirmed(reconciler.state),
            switches=tuple(southbound.switches()),
            expected=told["switches"]["expected"],
            active=reconciler.installation.active,
            computed_at=reconciler.computed_at,
            refusal=southbound.refusal,
            counts=southbound.counts(),
            discovery=southbound.discovery(),
            store_works=not reconciler.store_writer.error,
            readings=measurements.readings,
            measured=measurements.measured_at(self._runtime),
            period=measurements.period,
            streams=self._events.n_readers,
        )
        counted = measurements.instruments.collect()
        return Exposition(*self._runtime.offload(exposed, now, counted, accept, self._runtime.rest))

    # -- all -----------------------------------------------------------------------------------------------------

    def _known_fabric(self) -> Fabric:
        fabric = self._reconciler.state.fabric
        if fabric is None:
            raise UnavailableError(f"the fabric is not known yet: {health.unknown_because(self._intended)}")
        return fabric

    def _known_step(self) -> ControllerState:
        self._known_fabric()
        return self._reconciler.state

    def _offload(self, function: Callable[..., Document], *args: Any) -> Document:
        document: Document = self._runtime.offload(function, *args)
        return document


def _check_steerable(desired: DesiredState) -> None:
    """See whether every job leaves its ports to the controller.

    Raises:
        ConflictError: the first that does not.
    """
    for job in desired.jobs:
        if job.traffic is not None and job.traffic.own_port is not None:
            raise ConflictError(f"job {job.name}: {own_ports(job.traffic)}; delete it or push it without ports first")


def _difference(before: DesiredState, after: DesiredState) -> str:
    """Return the changed settings of enforcement, for people."""
    parts = [f"mode {after.mode}"] if after.mode != before.mode else []
    parts += [f"enforcement {after.enforcement}"] if after.enforcement != before.enforcement else []
    return ", ".join(parts)
