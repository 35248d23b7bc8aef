"""Compute the outcomes of failures off the event loop: a few in a thread, many in a process of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.core.ports.runtime import Runtime
from controller.planning.survival import Failure, Outcome, Situation, all_at_once, one_by_one
from controller.service.tasks.worker_process import Worker
from controller.views import survival


class FailureAnalyst:
    """Owns the process, which the first large request starts."""

    def __init__(self, runtime: Runtime) -> None:
        """Prepare the process; it is not started yet."""
        self._runtime, self._worker = runtime, Worker(runtime.start_process)

    def outcomes(self, situation: Situation, failures: Sequence[Failure]) -> Iterable[Outcome]:
        """Return the outcome of each failure; called in a worker thread."""
        if len(failures) < survival.PART:
            for outcome in one_by_one(situation, failures):
                yield outcome
                self._runtime.rest()
            return
        # On another core, and without this process's lock.
        yield from self._worker.run(all_at_once, situation, failures)

    def close(self) -> None:
        """End the process."""
        self._worker.close()
