"""Steps of tasks that go on after a fault."""

from __future__ import annotations

import logging
from collections.abc import Callable

LOG = logging.getLogger("fairspine.service")


class FaultLog:
    """Runs the steps of one task, and logs the first one of the faults that follow each other.

    A fault of such a task (learning, recording) is no reason to stop routing, and one that lasts must not fill the log.
    """

    def __init__(self, text: str) -> None:
        """Begin without a fault; ``text`` says what could not be done."""
        self._text, self._failed = text, False

    def run(self, step: Callable[[], object]) -> None:
        """Run a step; log an exception that it raises."""
        try:
            step()
            self._failed = False
        except Exception:
            if not self._failed:
                LOG.exception("%s", self._text)
            self._failed = True
