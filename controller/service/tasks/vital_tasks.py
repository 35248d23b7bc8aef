"""Tasks that run as long as the controller does: one that ends is a fault, which the watchdog makes a restart."""

from __future__ import annotations

from collections.abc import Callable

from controller.core.ports.runtime import Runtime


class VitalTasks:
    """Tasks without which the controller does not do its work.

    Attributes:
        ended: the names of those that have ended.
    """

    def __init__(self, runtime: Runtime) -> None:
        """Begin without tasks."""
        self._runtime = runtime
        self.ended: list[str] = []

    def spawn(self, name: str, task: Callable[[], None]) -> None:
        """Run a task that never returns."""

        def run() -> None:
            try:
                task()
            finally:
                self.ended.append(name)

        self._runtime.spawn(run)
