"""Writes to the store: requested changes before the call returns, plans of network changes as soon as the store works.

A store that does not work holds up nothing that the network needs. What is not written yet waits in memory; while the
store is known to be broken, changes are refused without asking it again, since that may take its time-outs long.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import deque
from collections.abc import Callable

from controller.core.change_number import ChangeNumber
from controller.core.errors import StorageError, TakenOverError
from controller.core.ports.runtime import Runtime
from controller.core.ports.store import StateStore
from controller.core.saved.plan_record import PlanRecord
from controller.core.saved.saved_state import StateChange
from controller.model.errors import UnavailableError
from controller.service.tasks.vital_tasks import VitalTasks

LOG = logging.getLogger("fairspine.service")

RETRY_FIRST, RETRY_LAST = 1.0, 10.0
"""Seconds before a store that failed is tried again, doubling up to the last."""

WATCH = 2.0
"""Seconds between two checks of a working store, to detect its loss before the next change."""

WAITING = 1000
"""Most plans that wait for the store; the oldest are dropped first."""


class StoreWriter:
    """The only writer to the store."""

    def __init__(
        self,
        keeping: StateStore,
        runtime: Runtime,
        tasks: VitalTasks,
        *,
        changed: Callable[[str], None],
        taken: Callable[[str], None],
    ) -> None:
        """Write to a store.

        Args:
            keeping: the store.
            runtime: tasks and waiting.
            tasks: the tasks of the controller, which get those of the writer.
            changed: called when the store stops working (with the reason) and when it works again (empty).
            taken: called when another controller uses it (with the reason), and when it works again (empty).
        """
        self._keeping, self._runtime, self._changed, self._taken = keeping, runtime, changed, taken
        self._tasks, self._writing = tasks, runtime.lock()
        self._wake = runtime.signal()
        self._waiting: deque[PlanRecord] = deque(maxlen=WAITING)
        self._drained: frozenset[str] = frozenset()
        self.error = ""
        """The reason why the store does not work; empty: it works."""

    def start(self, drained: frozenset[str]) -> None:
        """Begin to write deferred data. ``drained``: the stored drains."""
        self._drained = drained
        self._tasks.spawn("the store is written", self._run)
        self._tasks.spawn("the store is watched", self._watch)

    @property
    def change(self) -> ChangeNumber | None:
        """The number of the store's last change; ``None``: it has none."""
        return self._keeping.change

    def commit(self, change: StateChange) -> None:
        """Store a change before this returns, with the waiting plans.

        Raises:
            StorageError: it was not stored.
        """
        if self.error:
            raise StorageError(self.error)
        try:
            with self._writing:
                self._write(change)
        except UnavailableError as error:
            self._broken(error)
            raise StorageError(error.reason) from None

    def later(self, record: PlanRecord) -> None:
        """Keep a plan that the network caused; returns at once."""
        if self.error:
            # Paths are large, and after a restart only the newest are needed.
            self._waiting = deque((dataclasses.replace(old, paths=None) for old in self._waiting), maxlen=WAITING)
        self._waiting.append(record)
        self._wake.set()

    def _watch(self) -> None:
        never = self._runtime.signal()
        while True:
            never.wait(WATCH)
            if self.error:
                continue
            try:
                with self._writing:
                    self._runtime.offload(self._keeping.check)
            except UnavailableError as error:
                self._broken(error)
            except Exception as error:
                LOG.exception("the store failed with an unexpected error")
                self._broken(error)

    def _run(self) -> None:
        delay = RETRY_FIRST
        while True:
            self._wake.wait()
            self._wake.clear()
            try:
                with self._writing:
                    # Write even if nothing waits, to detect a failure; this changes nothing.
                    self._write(StateChange(drained=self._drained if self.error else None))
            except Exception as error:
                if not isinstance(error, UnavailableError):
                    LOG.exception("the store failed with an unexpected error")
                self._broken(error)
                self._runtime.sleep(delay)
                delay = min(2 * delay, RETRY_LAST)
                continue
            delay = RETRY_FIRST
            if self.error:
                self.error = ""
                LOG.info("the store works again")
                self._taken("")
                self._changed("")

    def _write(self, change: StateChange) -> None:
        waiting = tuple(self._waiting)
        self._runtime.offload(self._keeping.commit, dataclasses.replace(change, plans=(*waiting, *change.plans)))
        written = {record.epoch for record in waiting}
        self._waiting = deque((record for record in self._waiting if record.epoch not in written), maxlen=WAITING)
        if change.drained is not None:
            self._drained = change.drained

    def _broken(self, error: Exception) -> None:
        reason = str(error)
        if isinstance(error, TakenOverError):
            self._taken(reason)
        if reason != self.error:
            LOG.error("the store does not work: %s", reason)
        if not self.error:
            self._changed(reason)
        self.error = reason
        self._wake.set()
