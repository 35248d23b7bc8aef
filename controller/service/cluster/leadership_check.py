"""Check something for many tasks at a time: each wants a check that begins after it has asked.

Tasks that ask while a check is under way share the next one, so there is at most one at a time, and any number of tasks
wait for two at most.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.core.ports.runtime import Runtime, Signal
from controller.model.errors import UnavailableError


class _Round:
    """One check and the tasks that wait for it; ``holds``: its result, ``None``: there is none yet."""

    def __init__(self, ended: Signal) -> None:
        self.ended = ended
        self.holds: bool | None = None
        self.error: UnavailableError | None = None


class LeadershipCheck:
    """A check that runs off the event loop; its tasks run on it."""

    def __init__(self, runtime: Runtime, check: Callable[[], bool], *, seconds: float) -> None:
        """Prepare a check.

        Args:
            runtime: of the tasks.
            check: may block, and raise ``UnavailableError``; called off the event loop.
            seconds: limit on waiting for it.
        """
        self._runtime, self._check, self._seconds = runtime, check, seconds
        self._next: _Round | None = None
        self._runs = False

    def holds(self) -> bool:
        """Return the result of a check that begins after this call.

        Raises:
            UnavailableError: it failed or took too long.
        """
        round_ = self._next
        if round_ is None:
            round_ = self._next = _Round(self._runtime.signal())
            if not self._runs:
                self._runs = True
                self._runtime.spawn(self._run)
        round_.ended.wait(self._seconds)
        if round_.error is not None:
            # One error object for many tasks would collect the traceback of each.
            raise UnavailableError(round_.error.reason)
        if round_.holds is None:
            raise UnavailableError(f"the store has not answered for {self._seconds:g} s")
        return round_.holds

    def _run(self) -> None:
        try:
            while (round_ := self._next) is not None:
                self._next = None
                try:
                    round_.holds = self._runtime.offload(self._check)
                except UnavailableError as error:
                    round_.error = error
                round_.ended.set()
        finally:
            self._runs = False
