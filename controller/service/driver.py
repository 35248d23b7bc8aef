"""Takes the steps: one after the other, for the network and for people, each on top of the newest that is published.

Two tasks. One follows the network: it waits a moment for more changes (debounce), takes a step and publishes it. The
other carries out orders, what people ask for: step, store, publish, in that order, so that whatever is answered is
kept, and a step that cannot be made or kept changes nothing. Neither waits for the other, since a store that hangs must
not hold up a failed link: whoever finds that the other one has published meanwhile takes its step again from there.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from controller.config import Settings
from controller.model.errors import InputError, UnavailableError
from controller.model.fabric import Fabric
from controller.model.observed import Observed
from controller.rest.backend import EventKind
from controller.routing import Previous
from controller.service.admission import Admission
from controller.service.events import EventLog
from controller.service.installation import Installation
from controller.service.keeper import Keeper
from controller.service.keeping import Keeping, plan_record, restore
from controller.service.reports import CablingReport, Southbound
from controller.service.runtime import Runtime, Signal
from controller.service.step import Step, advance
from controller.service.wanted import Change as WantedChange
from controller.service.wanted import Wanted
from controller.southbound.rules import RuleSet
from controller.store.values import Change, Kept, KeptMode, PlanRecord
from controller.telemetry.instruments import Instruments

LOG = logging.getLogger("fairspine.service")

RETRY_FIRST, RETRY_LAST = 1.0, 60.0
"""Seconds until a step that could not be taken is tried again, doubling up to the last."""

Install = Callable[[RuleSet, int, Mapping[int, str]], None]
"""Called with the rules that switches should hold, the epoch of their plan, and switch names; does not block."""


@dataclass
class Order:
    """Something that a person asked for.

    Attributes:
        apply: what it makes of what is wanted.
        change: what is to be kept of it, besides the plan that it leads to.
        cause: for people: ``job gpt3-a pushed``.
        event: kind and data.
        take: paths for the flows (a rollback to the plan ``rollback_of``).
    """

    apply: WantedChange
    change: Change
    cause: str
    by: str
    event: tuple[EventKind, Mapping[str, Any]] | None = None
    take: Previous | None = None
    rollback_of: int | None = None


@dataclass
class _Pending:
    order: Order
    done: Signal
    step: Step | None = None
    record: PlanRecord | None = None
    error: Exception | None = field(default=None)


class Driver:
    """The newest step, what is wanted, and the tasks that change them."""

    def __init__(
        self,
        settings: Settings,
        intended: Fabric | None,
        runtime: Runtime,
        keeping: Keeping,
        kept: Kept,
        events: EventLog,
        *,
        observe: Callable[[], Observed],
        install: Install,
        southbound: Southbound,
        admission: Admission,
        instruments: Instruments,
    ) -> None:
        self._settings, self._intended, self._runtime = settings, intended, runtime
        self._observe, self._install = observe, install
        self._admission, self._events = admission, events
        self.step = restore(kept, intended, settings.enforcement)
        self.wanted = self.step.wanted
        self.mode: KeptMode | None = kept.mode
        self._instruments = instruments
        self.keeper = Keeper(keeping, runtime, changed=self._store_changed)
        self.computed_at = kept.plan.at if kept.plan is not None else runtime.now()
        self.installation = Installation(settings, runtime, events, southbound, instruments)
        self.failed = ""
        """Why the newest step could not be taken."""
        self._recorded = self._reserved = kept.epoch
        self._installed = -1
        self._cabling = CablingReport(intended is not None)
        self._attempt: tuple[object, ...] = ()
        self._dirty, self._ordered = runtime.signal(), runtime.signal()
        self._changing = runtime.lock()
        self._pending: _Pending | None = None
        self._queued = 0

    def start(self) -> None:
        """Begin to take steps."""
        LOG.info(
            "kept from before: plan %d, %d jobs, %d drains, mode %s by %s",
            self.step.epoch, len(self.wanted.jobs), len(self.wanted.drained), self.wanted.mode,
            self.wanted.enforcement,
        )  # fmt: skip
        self.keeper.start(self.wanted.drained)
        self._runtime.spawn(self._follow_network)
        self._runtime.spawn(self._carry_out_orders)
        self._dirty.set()

    def network_changed(self) -> None:
        """The next snapshot may differ."""
        self._dirty.set()

    def settled(self) -> None:
        """Some switch has reached its target, or lost it, or refused it, or has gone."""
        self.installation.settled(self.step)

    # -- people ------------------------------------------------------------------------------------------------

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Whoever holds this sees what is wanted as it stays until his own order.

        Raises:
            UnavailableError: too many are waiting for it.
        """
        if self._queued >= self._settings.max_changes_waiting:
            raise UnavailableError(f"{self._queued} changes are waiting for their turn already")
        self._queued += 1
        try:
            with self._changing:
                # Somebody may have gone away while his order was carried out.
                while self._pending is not None:
                    self._pending.done.wait()
                yield
        finally:
            self._queued -= 1

    def change(self, order: Order) -> tuple[Step, PlanRecord | None]:
        """Have an order carried out (by whoever is ``alone``): the step that holds it, and its record.

        Raises:
            StorageError: it could not be kept, so it was not done.
            UnavailableError: no plan could be made with it, so it was not done.
            InputError: its plan cannot be enforced as it is to be, so it was not done.
        """
        if self._intended is None and self.step.fabric is not None and not self.step.ripe and self.wanted.left_out:
            # A plan without them would be kept in place of the one that has their paths.
            raise UnavailableError("the network is still being discovered, and kept jobs wait for their hosts")
        pending = self._pending = _Pending(order, self._runtime.signal())
        self._ordered.set()
        pending.done.wait()
        if pending.error is not None:
            raise pending.error
        assert pending.step is not None
        return pending.step, pending.record

    def _carry_out_orders(self) -> None:
        while True:
            self._ordered.wait()
            self._ordered.clear()
            pending = self._pending
            assert pending is not None
            try:
                self._carry_out(pending)
            except (UnavailableError, InputError) as error:
                pending.error = error
            except Exception as error:
                LOG.exception("no plan for an order (%s)", pending.order.cause)
                text = f"no plan could be made with it: {type(error).__name__}: {error}"
                self._events.append("error", text=f"{pending.order.cause}: {text}")
                pending.error = UnavailableError(text)
            self._pending = None
            pending.done.set()

    def _carry_out(self, pending: _Pending) -> None:
        order, began = pending.order, self._runtime.clock()
        base, step, record = self._step_on_newest(order)
        self._reserved = max(self._reserved, step.epoch)
        self.keeper.commit(dataclasses.replace(order.change, plans=() if record is None else (record,)))
        # It is kept: from here on nothing takes it back.
        self.wanted = order.apply(self.wanted)
        if order.change.mode is not None:
            self.mode = order.change.mode
        if self.step is not base:
            base, step, record = self._step_on_newest(order)
            if record is not None:
                self._reserved = max(self._reserved, step.epoch)
                self.keeper.later(record)
        if record is not None:
            self._recorded = record.epoch
        pending.step, pending.record = step, record
        if order.event is not None:
            kind, data = order.event
            self._events.append(kind, **data, by=order.by, epoch=step.epoch)
        self._publish(step, base, record, began)
        if order.change.mode is not None:
            # Jobs that could not be enforced so may be now.
            self._dirty.set()

    def _step_on_newest(self, order: Order) -> tuple[Step, Step, PlanRecord | None]:
        """The newest published step, one with the order on top of it, and its record."""
        while True:
            base = self.step
            step, record = self._advance(order.apply(self.wanted), base, order)
            if self.step is base:
                return base, step, record

    # -- the network ---------------------------------------------------------------------------------------------

    def _follow_network(self) -> None:
        delay = RETRY_FIRST
        while True:
            self._dirty.wait(delay if self.failed else None)
            self._runtime.sleep(self._settings.debounce_ms / 1e3)
            self._dirty.clear()
            try:
                self._follow()
                self.failed, delay = "", RETRY_FIRST
            except Exception as error:
                # The old plan stays. The next change tries again, or some time without one.
                delay = min(2 * delay, RETRY_LAST)
                LOG.exception("no new plan")
                self.failed = f"{type(error).__name__}: {error}"
                self._events.append("error", text=f"no new plan could be made: {self.failed}")

    def _follow(self) -> None:
        base, wanted, began = self.step, self.wanted, self._runtime.clock()
        placed = self._placed(wanted, base.fabric or self._intended)
        step, record = self._advance(placed, base)
        more = self._placed(placed, step.fabric)
        if more is not placed:
            placed = more
            step, record = self._advance(placed, base)
        overtaken = step.epoch != base.epoch and step.epoch <= self._reserved
        if self.step is not base or self.wanted is not wanted or overtaken:
            self._dirty.set()
            return
        self.wanted = placed
        if not step.ripe or step.epoch == self._recorded:
            record = None
        self._publish(step, base, record, began)
        if record is not None:
            # After the rules: the network does not wait for a disk.
            self._recorded = record.epoch
            self.keeper.later(record)

    def _placed(self, wanted: Wanted, fabric: Fabric | None) -> Wanted:
        """With the flows of kept jobs whose hosts have turned up."""
        if fabric is None or not wanted.left_out:
            return wanted
        if self._attempt == (fabric.host_names, wanted.jobs, wanted.steered):
            return wanted
        placed = self._admission.readmit(wanted, fabric, self._settings.max_flows)
        self._attempt = (fabric.host_names, placed.jobs, wanted.steered)
        for job in placed.left_out:
            LOG.warning("job %s is kept and not planned: %s", job.name, job.left_out)
        return placed

    # -- both ----------------------------------------------------------------------------------------------------

    def _advance(self, wanted: Wanted, base: Step, order: Order | None = None) -> tuple[Step, PlanRecord | None]:
        """A step on top of ``base``, and the record of its plan if it is a new one."""
        taken: tuple[Step, PlanRecord | None] = self._runtime.offload(
            _advance, self._settings, self._intended, self._observe(), wanted, base, self._runtime.clock,
            self._reserved, order, self._runtime.now(),
        )  # fmt: skip
        return taken

    def _publish(self, step: Step, base: Step, record: PlanRecord | None, began: float) -> None:
        """Make a step the newest one. ``began``: when work on it did, by the clock."""
        self.step = step
        if step.ripe and step.fabric is not None:
            for name, up in step.changes:
                self._events.append("link", id=name, up=up)
            self._cabling.report(step.survey)
        if step.epoch != base.epoch:
            self.computed_at = self._runtime.now() if record is None else record.at
        if record is not None:
            self._instruments.planned(record.policy, record.seconds, record.moved)
            self._events.append(
                "plan", epoch=step.epoch, state="computed", cause=record.cause, by=record.by, mode=record.mode,
                enforcement=record.enforcement, min_speed=record.min_speed, min_level=record.min_level,
                gap=record.gap, seconds=record.seconds, flows=record.flows, moved=record.moved,
                unroutable=record.unroutable, rollback_of=record.rollback_of,
            )  # fmt: skip
        if step.ripe and step.rules is not None and step.enforced != self._installed:
            self._installed = step.enforced
            self.installation.begins(step.enforced, began)
            self._install(step.rules, step.enforced, step.names)
        self.settled()

    def _store_changed(self, reason: str) -> None:
        if reason:
            self._instruments.store_failed()
        text = f"the store does not work: {reason}" if reason else "the store works again"
        self._events.append("error", text=text)


def _advance(
    settings: Settings,
    intended: Fabric | None,
    observed: Observed,
    wanted: Wanted,
    before: Step,
    clock: Callable[[], float],
    last_epoch: int,
    order: Order | None,
    at: float,
) -> tuple[Step, PlanRecord | None]:
    """What takes long, off the event loop."""
    if order is None:
        step = advance(settings, intended, observed, wanted, before, clock, last_epoch=last_epoch)
        return step, plan_record(step, before, at=at)
    step = advance(settings, intended, observed, wanted, before, clock, last_epoch=last_epoch, take=order.take)
    record = plan_record(step, before, at=at, cause=order.cause, by=order.by, rollback_of=order.rollback_of)
    return step, record
