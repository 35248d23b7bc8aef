"""The tasks that reconcile: for changes of the network and for change requests, each on top of the newest state.

One task follows the network: it waits a moment for more changes (debounce), reconciles and publishes the new state. The
other carries out change requests: reconcile, save, publish, in that request, so that every change that is answered is
saved, and a request that cannot be planned or saved changes nothing. Neither task waits for the other, since a store
that hangs must not delay the answer to a failed link: a task that finds a newer state than it began with starts again
from that one.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from controller.config import Settings
from controller.core.change_number import ChangeNumber
from controller.core.configuration import Configuration
from controller.core.controller_state import ControllerState
from controller.core.desired_state import DesiredState
from controller.core.fallback_task import fallback_task
from controller.core.ports.enforcer import CompiledPlan, Compiler, Target
from controller.core.ports.network import Network
from controller.core.ports.runtime import Runtime, Signal
from controller.core.ports.store import Persistence
from controller.core.reconcile import reconcile
from controller.core.saved.applied_plan import AppliedPlan
from controller.core.saved.plan_record import PlanRecord, plan_record
from controller.core.saved.restore import restore
from controller.core.saved.saved_state import LearningSetting, ModeSetting, SavedState
from controller.logs.request_context import working_for
from controller.model.errors import InputError, UnavailableError
from controller.model.fabric import Fabric
from controller.model.network_state import NetworkState
from controller.routing.times.starving import starved_line
from controller.service.reconciling.admission import Admission
from controller.service.reconciling.cabling_report import CablingReport
from controller.service.reconciling.change_request import REQUEST, ChangeRequest, PendingRequest
from controller.service.reconciling.event_log import EventLog
from controller.service.reconciling.installation_status import InstallationStatus
from controller.service.reconciling.store_writer import StoreWriter
from controller.service.tasks.vital_tasks import VitalTasks
from controller.telemetry.instruments import Instruments
from controller.views import plan_history

LOG = logging.getLogger("fairspine.service")

REST, LONGEST_REST = 2.0, 10.0
"""Pause before the next reconciliation: a multiple of the duration of the last one, and its maximum in seconds."""

RETRY_FIRST, RETRY_LAST = 1.0, 60.0
"""Seconds until a reconciliation that failed is tried again, doubling up to the last."""

UPDATING_PART = 0.1
"""The part of the time that updates after changes of switches may take, about."""


class Reconciler:
    """Holds the newest state and the desired state, and runs the tasks that change them."""

    def __init__(
        self,
        configuration: Configuration,
        runtime: Runtime,
        persistence: Persistence,
        network: Network,
        admission: Admission,
        events: EventLog,
        instruments: Instruments,
    ) -> None:
        """Restore the state that the store held; ``start`` begins to reconcile."""
        settings, intended, saved = configuration.settings, configuration.intended, persistence.saved
        self._settings, self._intended, self._runtime = settings, intended, runtime
        self._observe, self._observer, self._enforcer = network.observe, network.observer, network.enforcer
        self._admission, self._events = admission, events
        self.resume(saved)
        self._instruments = instruments
        self.tasks = VitalTasks(runtime)
        self.store_writer = StoreWriter(
            persistence.store, runtime, self.tasks, changed=self._store_changed, taken=network.enforcer.withhold_changes
        )
        self.installation = InstallationStatus(runtime, events, network, instruments)
        self.failed = ""
        """The reason why the newest reconciliation failed; empty: it succeeded."""
        self._installed = -1
        self._cabling = CablingReport(intended is not None)
        self._attempt: tuple[object, ...] = ()
        # Set here, too, where a reconciliation is needed although the network has not changed.
        self._dirty, self._cable_failed = network.observer.network_changed, network.observer.cable_failed
        self._requested = runtime.signal()
        self._changing = runtime.lock()
        self._pending: PendingRequest | None = None
        self._queued = 0
        self._unpublished: tuple[ChangeNumber | None] | None = None

    def resume(self, saved: SavedState, state: ControllerState | None = None) -> None:
        """Continue from what a store holds; only before ``start``. ``state``: what follows from it, if known."""
        self.state = state or restore(saved, self._intended, self._settings.enforcement, self._settings.learning)
        if self.state.compiled is not None:
            self._enforcer.expect(self.state.compiled)
        self.desired = self.state.desired
        self.mode: ModeSetting | None = saved.mode
        self.learning: LearningSetting | None = saved.learning
        self.computed_at = saved.plan.at if saved.plan is not None else self._runtime.now()
        self._recorded = self._reserved = saved.epoch

    def start(self) -> None:
        """Begin to reconcile."""
        LOG.info(
            "restored from the store: plan %d, %d jobs, %d drains, mode %s by %s",
            self.state.epoch,
            len(self.desired.jobs),
            len(self.desired.drained),
            self.desired.mode,
            self.desired.enforcement,
        )
        self.store_writer.start(self.desired.drained)
        self.tasks.spawn("the network is followed", self._follow_network)
        for what, changed in (
            ("the switches are followed", self._enforcer.switches_changed),
            ("the notices are followed", self._observer.notices_changed),
        ):
            self.tasks.spawn(what, partial(self._follow_switches, changed))
        self.tasks.spawn("change requests are carried out", self._carry_out_requests)
        self._dirty.set()

    def _follow_switches(self, changed: Signal) -> None:
        while True:
            changed.wait()
            changed.clear()
            began = self._runtime.clock()
            try:
                self.installation.update(self.state)
            except Exception:
                # The next change of a switch updates it again.
                LOG.exception("the state of the switches could not be updated")
            # Each of a thousand switches may change several times a second, and each update examines all of them.
            self._runtime.sleep((self._runtime.clock() - began) * (1 / UPDATING_PART - 1))

    # -- change requests ---------------------------------------------------------------------------------------

    @contextmanager
    def change_lock(self, gone: Callable[[], bool] = bool) -> Iterator[None]:
        """Hold the lock of changes: until the holder's own request, the desired state stays as it is.

        Where changes take longer than clients wait, those whose client has gone would keep all others waiting.

        Args:
            gone: tells whether nobody waits for this change any more; it is not carried out then.

        Raises:
            UnavailableError: too many are waiting for it, or nobody waits for this one any more.
        """
        if self._queued >= self._settings.max_changes_waiting:
            raise UnavailableError(f"{self._queued} changes are already waiting")
        self._queued += 1
        try:
            with self._changing:
                # A client may have disconnected while its request was carried out.
                while self._pending is not None:
                    self._pending.done.wait()
                if gone():
                    raise UnavailableError("the client closed its connection while its change was waiting")
                yield
        finally:
            self._queued -= 1

    def change(self, request: ChangeRequest) -> tuple[ControllerState, PlanRecord | None]:
        """Have a request carried out, holding ``change_lock``; return the state that contains it, and its record.

        Raises:
            StorageError: it could not be saved, so it was not done.
            UnavailableError: no plan could be made with it, so it was not done.
            InputError: its plan cannot be enforced as it is to be, so it was not done.
        """
        if (
            self._intended is None
            and self.state.fabric is not None
            and not self.state.network_known
            and self.desired.left_out
        ):
            # A plan without them would be saved in place of the one that has their paths.
            raise UnavailableError("the network is still being discovered, and saved jobs wait for their hosts")
        pending = self._pending = PendingRequest(request, self._runtime.signal())
        self._requested.set()
        pending.done.wait()
        if pending.error is not None:
            raise pending.error
        assert pending.state is not None
        return pending.state, pending.record

    def _carry_out_requests(self) -> None:
        while True:
            self._requested.wait()
            self._requested.clear()
            pending = self._pending
            assert pending is not None
            with working_for(pending.request.request_id):
                try:
                    self._carry_out(pending)
                except (UnavailableError, InputError) as error:
                    pending.error = error
                except Exception as error:
                    LOG.exception("no plan for a change request (%s)", pending.request.cause)
                    text = f"no plan could be made: {type(error).__name__}: {error}"
                    self._events.append("error", text=f"{pending.request.cause}: {text}")
                    pending.error = UnavailableError(text)
            self._pending = None
            pending.done.set()

    @property
    def published(self) -> ChangeNumber | None:
        """The number of the last change that ``state`` contains, with all before; ``None``: changes have none."""
        return self.store_writer.change if self._unpublished is None else self._unpublished[0]

    def _carry_out(self, pending: PendingRequest) -> None:
        self._unpublished = (self.store_writer.change,)
        try:
            self._save_and_publish(pending)
        finally:
            self._unpublished = None

    def _save_and_publish(self, pending: PendingRequest) -> None:
        request, began = pending.request, self._runtime.clock()
        base, state, record = self._reconcile_on_newest(request)
        self._reserved = max(self._reserved, state.epoch)
        self.store_writer.commit(dataclasses.replace(request.change, plans=() if record is None else (record,)))
        # The change is saved and can no longer fail.
        self.desired = request.apply(self.desired)
        self.mode = request.change.mode or self.mode
        self.learning = request.change.learning or self.learning
        if self.state is not base:
            base, state, record = self._reconcile_on_newest(request)
            if record is not None:
                self._reserved = max(self._reserved, state.epoch)
                self.store_writer.later(record)
        if record is not None:
            self._recorded = record.epoch
        pending.state, pending.record = state, record
        for kind, data in request.events:
            self._events.append(kind, **data, **request.origin, epoch=state.epoch)
        # The log itself adds the id of the request.
        origin = ", ".join(f"{name} {value}" for name, value in request.origin.items() if name != REQUEST)
        LOG.info("plan %d: %s (%s)", state.epoch, request.cause, origin)
        self._publish(state, base, record, began)
        if request.change.mode is not None:
            # Jobs that could not be enforced so may be now.
            self._dirty.set()

    def _reconcile_on_newest(
        self, request: ChangeRequest
    ) -> tuple[ControllerState, ControllerState, PlanRecord | None]:
        """Return the newest published state, one with the request on top of it, and its record."""
        while True:
            base = self.state
            state, record = self._reconcile(request.apply(self.desired), base, request)
            if self.state is base:
                if request.change.put and self._settings.starving == "refuse":
                    _check_starving(base, state)
                return base, state, record

    # -- the network ---------------------------------------------------------------------------------------------

    def _follow_network(self) -> None:
        delay, took, ended = RETRY_FIRST, 0.0, self._runtime.clock()
        while True:
            self._dirty.wait(delay if self.failed else None)
            self._wait_for_more(took, ended)
            self._dirty.clear()
            began = self._runtime.clock()
            try:
                self._follow()
                self.failed, delay = "", RETRY_FIRST
            except Exception as error:
                # The old plan stays. The next change tries again, or some time without one.
                delay = min(2 * delay, RETRY_LAST)
                LOG.exception("no new plan")
                self.failed = f"{type(error).__name__}: {error}"
                self._events.append("error", text=f"no new plan could be made: {self.failed}")
            ended = self._runtime.clock()
            took = ended - began

    def _wait_for_more(self, took: float, ended: float) -> None:
        """Wait for more changes, as ``pause`` says; a failed cable ends the rest, since flows are lost meanwhile."""
        debounce = self._settings.debounce_ms / 1e3
        rest = pause(debounce, took, self._runtime.clock() - ended) - debounce
        self._runtime.sleep(debounce)
        if rest > 0:
            self._cable_failed.wait(rest)
        self._cable_failed.clear()

    def _follow(self) -> None:
        base, desired, began = self.state, self.desired, self._runtime.clock()
        placed = self._placed(desired, base.fabric or self._intended)
        state, record = self._reconcile(placed, base)
        more = self._placed(placed, state.fabric)
        if more is not placed:
            placed = more
            state, record = self._reconcile(placed, base)
        overtaken = state.epoch != base.epoch and state.epoch <= self._reserved
        if self.state is not base or self.desired is not desired or overtaken:
            self._dirty.set()
            return
        self.desired = placed
        if not state.network_known or state.epoch == self._recorded:
            record = None
        self._publish(state, base, record, began)
        if record is not None:
            # After the rules: the network does not wait for a disk.
            self._recorded = record.epoch
            self.store_writer.later(record)

    def _placed(self, desired: DesiredState, fabric: Fabric | None) -> DesiredState:
        """Return the state with the flows of saved jobs whose hosts have appeared."""
        if fabric is None or not desired.left_out:
            return desired
        if self._attempt == (fabric.host_names, desired.jobs, desired.enforcement):
            return desired
        placed = self._admission.readmit(desired, fabric, self._settings.max_flows)
        self._attempt = (fabric.host_names, placed.jobs, desired.enforcement)
        for job in placed.left_out:
            LOG.warning("job %s is stored but not planned: %s", job.name, job.left_out)
        return placed

    # -- both ----------------------------------------------------------------------------------------------------

    def _reconcile(
        self, desired: DesiredState, base: ControllerState, request: ChangeRequest | None = None
    ) -> tuple[ControllerState, PlanRecord | None]:
        """Return the state that follows ``base``, and the record of its plan if it is a new one."""
        taken: tuple[ControllerState, PlanRecord | None] = self._runtime.offload(
            _reconcile_offloaded,
            self._settings,
            self._intended,
            self._observe(),
            desired,
            base,
            self._runtime.clock,
            self._enforcer.compiler,
            self._reserved,
            request,
            self._runtime.now(),
        )
        return taken

    def _publish(self, state: ControllerState, base: ControllerState, record: PlanRecord | None, began: float) -> None:
        """Make a state the newest one. ``began``: when work on it did, by the clock."""
        self.state = state
        if state.network_known and state.fabric is not None:
            for name, up in state.changes:
                self._events.append("link", id=name, up=up)
            for finding in self._cabling.report(state.survey):
                self._events.append("error", text=finding.text, finding=finding.kind, subject=finding.subject)
        if state.epoch != base.epoch:
            self.computed_at = self._runtime.now() if record is None else record.at
        if record is not None:
            self._instruments.planned(record.policy, record.seconds, record.moved)
            self._events.append("plan", state="computed", **plan_history.event(record))
        if changed := _shifted(base, state):
            self._events.append("schedule", epoch=state.epoch, jobs=changed)
        if state.network_known and state.compiled is not None and state.enforced != self._installed:
            self._installed = state.enforced
            self.installation.begins(state.enforced, began)
            self._enforcer.install(self._target(state, state.compiled))
        self._observer.look_for_hosts(state.fabric)
        self.installation.update(state)

    def _target(self, state: ControllerState, compiled: CompiledPlan) -> Target:
        """Return what is to hold for a state, with the function that compiles a fall-back."""
        earlier = None
        if state.desired.mode != "frozen" and state.candidate is not None:
            learn = self._intended is None or bool(state.survey.hosts_unplaced)
            earlier = partial(_fall_back, self._enforcer.compiler, state, learn)
        return Target(compiled, state.enforced, state.names, state.applied, earlier)

    def _store_changed(self, reason: str) -> None:
        if reason:
            self._instruments.store_failed()
        text = f"the store does not work: {reason}" if reason else "the store works again"
        self._events.append("error", text=text)


def _shifted(before: ControllerState, after: ControllerState) -> list[str]:
    """Return the jobs, by name, that are told another shift than before, or that have one no more."""
    shifts: list[dict[str, tuple[float, float, bool]]] = []
    for state in (before, after):
        schedule = None if state.plan is None else state.plan.schedule
        rows = () if schedule is None else schedule.jobs
        shifts.append({row.job: (row.period_seconds, row.shift_seconds, row.hold) for row in rows})
    old, new = shifts
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def _check_starving(before: ControllerState, after: ControllerState) -> None:
    """See whether pushed jobs let a class of priority starve on a link where it did not before.

    Raises:
        InputError: they do.
    """
    earlier, newest = (() if state.plan is None else state.plan.starved for state in (before, after))
    known = {(row.link, row.priority) for row in earlier}
    fresh = [row for row in newest if (row.link, row.priority) not in known]
    if fresh:
        raise InputError(f"{starved_line(fresh)} (starving = tell allows it)", field="class")


def _fall_back(compiler: Compiler, state: ControllerState, learn: bool, applied: AppliedPlan) -> CompiledPlan:
    return compiler(fallback_task(state, learn, applied))


def _reconcile_offloaded(
    settings: Settings,
    intended: Fabric | None,
    network: NetworkState,
    desired: DesiredState,
    before: ControllerState,
    clock: Callable[[], float],
    compiler: Compiler,
    last_epoch: int,
    request: ChangeRequest | None,
    at: float,
) -> tuple[ControllerState, PlanRecord | None]:
    """Compute the next state and its plan record; runs off the event loop because it takes long."""
    if request is None:
        state = reconcile(settings, intended, network, desired, before, clock, compiler, last_epoch=last_epoch)
        return state, plan_record(state, before, at=at)
    state = reconcile(
        settings,
        intended,
        network,
        desired,
        before,
        clock,
        compiler,
        last_epoch=last_epoch,
        take=request.take,
        keep_learned=request.keep_learned,
    )
    record = plan_record(
        state,
        before,
        at=at,
        cause=request.cause,
        by=request.by,
        reason=request.reason or None,
        rollback_of=request.rollback_of,
    )
    return state, record


def pause(debounce: float, took: float, rested: float) -> float:
    """Return the seconds to wait for more changes: the debounce time, or more if reconciliations are long and frequent.

    Hundreds of switches that connect one by one would otherwise cause as many reconciliations, each of them on the
    whole network. After a rest, the first change waits for no longer than the debounce time.

    Args:
        debounce: seconds.
        took: seconds that the last reconciliation took.
        rested: seconds since its end.
    """
    return max(debounce, min(REST * took, LONGEST_REST) - rested)
