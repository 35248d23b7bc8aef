"""The running controller as the HTTP interface sees it: reads the newest step, and has orders carried out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controller.config import Settings
from controller.model.enforcement import Enforcement
from controller.model.errors import InputError, NotFoundError, UnavailableError
from controller.model.fabric import Fabric
from controller.model.observed import Observed
from controller.model.plan import Plan
from controller.planning.drain import cables_of
from controller.rest.backend import (
    Caller,
    Condition,
    ConflictError,
    Document,
    Exposition,
    JobAnswer,
    Mode,
    PutOutcome,
    Subscription,
    Under,
)
from controller.routing import ENFORCEABLE
from controller.service import documents, history, preview, tracing
from controller.service.admission import Admission
from controller.service.driver import Driver, Install, Order
from controller.service.events import EventLog
from controller.service.keeping import Keeping, kept_job, paths_of
from controller.service.metrics import Telemetry, exposed, moment
from controller.service.reports import Southbound
from controller.service.runtime import Runtime
from controller.service.steering import own_ports
from controller.service.step import Step
from controller.service.under_ecmp import UnderEcmp
from controller.service.wanted import Admitted, Wanted, revision
from controller.store.values import Change, Kept, KeptMode


class Service:
    """Implements ``controller.rest.backend.Backend``."""

    def __init__(
        self,
        settings: Settings,
        intended: Fabric | None,
        runtime: Runtime,
        keeping: Keeping,
        kept: Kept,
        *,
        observe: Callable[[], Observed],
        install: Install,
        southbound: Southbound,
        admission: Admission,
        telemetry: Telemetry | None = None,
    ) -> None:
        """
        Args:
            keeping: the store; ``kept``: what it holds, where this controller goes on.
            observe: a snapshot of the network.
            install: called with new rules.
            southbound: what the installer knows.
            telemetry: what is measured; ``None``: nothing is.
        """
        self._settings, self._intended, self._runtime, self._keeping = settings, intended, runtime, keeping
        self._southbound, self._admission = southbound, admission
        self._telemetry = telemetry or Telemetry()
        self._events = EventLog(runtime)
        self._previewing, self._reading = runtime.lock(), runtime.lock()
        self._under_ecmp = UnderEcmp(settings, intended, runtime)
        self._driver = Driver(
            settings, intended, runtime, keeping, kept, self._events,
            observe=observe, install=install, southbound=southbound, admission=admission,
            instruments=self._telemetry.instruments,
        )  # fmt: skip

    @property
    def step(self) -> Step:
        """The newest published step."""
        return self._driver.step

    def start(self) -> None:
        """Begin to take steps."""
        self._driver.start()

    def network_changed(self) -> None:
        """The next snapshot may differ."""
        self._driver.network_changed()

    def settled(self) -> None:
        """Some switch has reached its target, or has gone."""
        self._driver.settled()

    # -- jobs ----------------------------------------------------------------------------------------------------

    def put_job(self, name: str, body: bytes, condition: Condition, caller: Caller) -> PutOutcome:
        driver = self._driver
        with driver.alone():
            old = driver.wanted.job(name)
            condition.check(None if old is None else old.revision)
            fabric = self._known_fabric()
            if old is not None and old.traffic is not None and old.document == body:
                return PutOutcome(False, self._answer(driver.step, old))
            if old is None and len(driver.wanted.jobs) >= self._settings.max_jobs:
                raise InputError(f"there is room for {self._settings.max_jobs} jobs", field="name", value=name)
            others = driver.wanted.without_job(name)
            room = self._settings.max_flows - others.n_flows
            steered = driver.wanted.steered
            traffic = self._admission.admit(name, body, fabric, others.traffic, room, steered=steered)
            job = Admitted(
                name=name,
                document=body,
                revision=self._runtime.offload(revision, "" if old is None else old.revision, body),
                # A new version keeps its job's place: ports of the jobs behind it do not change either way.
                position=driver.wanted.next_position if old is None else old.position,
                changed=self._runtime.now(),
                by=caller.name,
                ports=traffic.udp_src,
                traffic=traffic,
            )
            done = "pushed" if old is None else "replaced"
            order = Order(
                lambda wanted: wanted.with_job(job),
                Change(put=(kept_job(job),)),
                f"job {name} {done}",
                caller.name,
                ("job", {"job": name, "change": done, "revision": job.revision}),
            )
            try:
                step, _ = driver.change(order)
            except InputError as error:
                raise InputError(error.reason, field="name", value=name) from None
            return PutOutcome(old is None, self._answer(step, job))

    def delete_job(self, name: str, condition: Condition, caller: Caller) -> None:
        with self._driver.alone():
            old = self._driver.wanted.job(name)
            condition.check(None if old is None else old.revision)
            if old is None:
                raise NotFoundError("job", name)
            self._driver.change(
                Order(
                    lambda wanted: wanted.without_job(name),
                    Change(deleted=(name,)),
                    f"job {name} deleted",
                    caller.name,
                    ("job", {"job": name, "change": "deleted"}),
                )
            )

    def job(self, name: str) -> JobAnswer:
        step = self._driver.step
        job = step.wanted.job(name)
        if job is None:
            raise NotFoundError("job", name)
        return self._answer(step, job)

    def jobs(self) -> Document:
        return self._offload(documents.jobs, self._driver.step, self._driver.installation.active)

    def _answer(self, step: Step, job: Admitted) -> JobAnswer:
        return JobAnswer(job.revision, self._offload(documents.job, step, job.name, self._driver.installation.active))

    # -- the fabric ----------------------------------------------------------------------------------------------

    def fabric(self) -> Document:
        step = self._known_step()
        return self._offload(documents.fabric, step, self._intended is not None, self._southbound.switches())

    def links(self, under: Under = "plan") -> Document:
        step, telemetry = self._known_step(), self._telemetry
        return self._offload(
            documents.links, step, telemetry.readings, self._measured(), telemetry.period, self._hashed(step, under)
        )

    def drainable(self, name: str) -> Document:
        step = self._known_step()
        self._check_drainable(step, name)
        return self._offload(documents.drain, step, name)

    def drain(self, name: str, drained: bool, caller: Caller) -> Document:
        with self._driver.alone():
            step, wanted = self._known_step(), self._driver.wanted
            self._check_drainable(step, name)
            if drained != (name in wanted.drained):
                step, _ = self._driver.change(
                    Order(
                        lambda wanted: wanted.draining(name, drained),
                        Change(drained=wanted.draining(name, drained).drained),
                        f"{name} {'drained' if drained else 'undrained'}",
                        caller.name,
                        ("link", {"id": name, "drained": drained}),
                    )
                )
            return self._offload(documents.drain, step, name)

    def _check_drainable(self, step: Step, name: str) -> None:
        """The fabric has it, or it is drained from when the fabric had it."""
        if name not in step.wanted.drained:
            self._runtime.offload(cables_of, self._known_fabric(), name)

    # -- plans ---------------------------------------------------------------------------------------------------

    def plan(self, under: Under = "plan") -> Document:
        step, installation = self._known_step(), self._driver.installation
        return self._offload(
            documents.plan, step, self._driver.computed_at, installation.active,
            installation.waits_for(step), installation.refused(), self._hashed(step, under),
        )  # fmt: skip

    def _hashed(self, step: Step, under: Under) -> Plan | None:
        """ECMP's plan, where that is asked for."""
        return self._under_ecmp.plan(step) if under == "ecmp" else None

    def plans(self, before: int | None, limit: int) -> Document:
        # One more than is shown tells whether there are more.
        return history.page(self._read(self._keeping.plans, before, limit + 1), limit)

    def plan_record(self, epoch: int) -> Document:
        kept = self._read(self._keeping.plan, epoch)
        return self._offload(history.record, kept)

    def _read(self, function: Callable[..., Any], *args: Any) -> Any:
        """Ask the store. One at a time: a store that hangs must not take all threads."""
        with self._reading:
            return self._runtime.offload(function, *args)

    def rollback(self, epoch: int, caller: Caller) -> Document:
        driver = self._driver
        kept = self._read(self._keeping.plan, epoch)
        if kept.paths is None:
            raise ConflictError(f"plan {epoch} is kept without its paths")
        with driver.alone():
            self._known_step()
            if driver.wanted.mode == "frozen":
                raise ConflictError("the switches are frozen and keep what they hold; set the mode to planned first")
            _, record = driver.change(
                Order(
                    lambda wanted: wanted,
                    Change(),
                    f"rollback to plan {epoch}",
                    caller.name,
                    take=paths_of(kept.paths),
                    rollback_of=epoch,
                )
            )
            assert record is not None
            return history.summary(record)

    def preview(self, body: bytes) -> Document:
        # One at a time: each takes as long as a plan does, and steps need the threads, too.
        with self._previewing:
            step = self._known_step()
            fabric = self._known_fabric()
            if step.draft is None:
                raise UnavailableError("there is no plan yet")
            tried = self._admission.tried(
                body, fabric, step.wanted.traffic, self._settings.max_flows, steered=step.wanted.steered
            )
            return self._offload(
                preview.compare, self._settings, ENFORCEABLE, self._intended, step, tried, self._runtime.clock
            )

    def routes(self, host: str) -> Document:
        step = self._known_step()
        if host not in self._known_fabric().host_index:
            raise NotFoundError("host", host)
        return self._offload(documents.routes, step, host, self._settings.label_base)

    def trace(self, job: str | None, compare: str | None) -> Document:
        began = self._runtime.clock()
        self._known_step()
        reading = self._southbound.read()
        # What is meant to be is looked at after what is: a plan that comes meanwhile is told as not installed yet.
        step = self._known_step()
        if job is not None and step.wanted.job(job) is None:
            raise NotFoundError("job", job)
        confirmed = {report.dpid: report.epoch for report in self._southbound.switches()}
        return self._offload(
            tracing.document, step, reading, confirmed, job, compare == "ecmp",
            self._telemetry.readings, began, self._runtime.clock,
        )  # fmt: skip

    # -- the controller ------------------------------------------------------------------------------------------

    def mode(self) -> Document:
        return documents.mode(self._driver.step, self._driver.mode)

    def set_mode(self, mode: Mode | None, enforcement: Enforcement | None, caller: Caller) -> Document:
        driver = self._driver
        with driver.alone():
            step, before = driver.step, driver.wanted
            after = before.in_mode(mode, enforcement)
            if after != before:
                if after.steered and not before.steered:
                    _check_steerable(before)
                last = KeptMode("", 0.0, "") if driver.mode is None else driver.mode
                record = KeptMode(
                    mode=after.mode,
                    changed=self._runtime.now(),
                    by=caller.name,
                    enforcement=enforcement or last.enforcement,
                    option=self._settings.enforcement if enforcement else last.option,
                )
                order = Order(
                    lambda wanted: wanted.in_mode(mode, enforcement),
                    Change(mode=record),
                    _difference(before, after),
                    caller.name,
                    ("mode", {"mode": after.mode, "enforcement": after.enforcement}),
                )
                try:
                    step, _ = driver.change(order)
                except InputError as error:
                    raise ConflictError(f"{after.enforcement} enforcement: {error}") from None
            return documents.mode(step, driver.mode)

    def subscribe(self, after: str | None) -> Subscription:
        return self._events.subscribe(after)

    def health(self) -> Document:
        driver = self._driver
        installation = driver.installation
        troubles = documents.Troubles(driver.failed, driver.keeper.error, installation.reasons())
        return documents.health(
            driver.step, self._southbound.switches(), self._intended, installation.active, troubles
        )  # fmt: skip

    def metrics(self, accept: str) -> Exposition:
        telemetry = self._telemetry
        now = moment(self._driver, self._southbound, telemetry, self.health(), self._measured())
        counted = telemetry.instruments.collect()
        return Exposition(*self._runtime.offload(exposed, now, counted, accept, telemetry.rest))

    def _measured(self) -> float | None:
        """When the newest counters came, seconds since 1970."""
        newest = self._telemetry.readings.measured
        return None if newest is None else self._runtime.now() - (self._runtime.clock() - newest)

    # -- all -----------------------------------------------------------------------------------------------------

    def _known_fabric(self) -> Fabric:
        fabric = self._driver.step.fabric
        if fabric is None:
            raise UnavailableError(f"the fabric is not known yet: {documents.unknown_because(self._intended)}")
        return fabric

    def _known_step(self) -> Step:
        self._known_fabric()
        return self._driver.step

    def _offload(self, function: Callable[..., Document], *args: Any) -> Document:
        document: Document = self._runtime.offload(function, *args)
        return document


def _check_steerable(wanted: Wanted) -> None:
    """See whether every job leaves its ports to the controller.

    Raises:
        ConflictError: the first that does not.
    """
    for job in wanted.jobs:
        if job.traffic is not None and job.traffic.own_port is not None:
            raise ConflictError(f"job {job.name}: {own_ports(job.traffic)}; delete it or push it without ports first")


def _difference(before: Wanted, after: Wanted) -> str:
    """What is enforced otherwise, for people."""
    parts = [f"mode {after.mode}"] if after.mode != before.mode else []
    parts += [f"enforcement {after.enforcement}"] if after.enforcement != before.enforcement else []
    return ", ".join(parts)
