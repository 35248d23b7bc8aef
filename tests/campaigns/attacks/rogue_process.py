"""The process of one attack, as the campaign sees it."""

from __future__ import annotations

import json
import sys
import time

from emulation.errors import LabError
from emulation.lab import Lab
from tests.campaigns.attacks.order import AttackOrder

LATE_SECONDS = 60.0
"""How much longer than its time an attack may take: the start of a process on a busy machine, one
connection attempt, and its end."""


class RogueProcess:
    """Starts at once.

    Raises:
        LabError: from any method: the attack itself did not work, which is no merit of the controller's.
    """

    def __init__(self, lab: Lab, order: AttackOrder, name: str) -> None:
        """Write the order to a file and start the process."""
        folder = lab.out / "orders"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{name}.json"
        order.write(file)
        self._order = order
        self._child = lab.spawn(name, [sys.executable, "-m", "tests.campaigns.attacks.rogue", str(file)])
        self._deadline = time.monotonic() + order.seconds + LATE_SECONDS

    def running(self) -> bool:
        """Whether the attack still runs."""
        status = self._child.exit_status()
        if status is None and time.monotonic() > self._deadline:
            self._child.kill()
            raise LabError(f"{self._order.attack} did not end{self._child.tail()}")
        if status:
            raise LabError(f"{self._order.attack} ended with status {status}{self._child.tail()}")
        return status is None

    def counts(self) -> str:
        """Return the amount of sent data, as text.

        Raises:
            LabError: the attack has sent nothing.
        """
        counts = json.loads(self._child.log.read_text().splitlines()[-1])
        if not counts["sends"]:
            raise LabError(f"{self._order.attack} has sent nothing{self._child.tail()}")
        size = counts["bytes"] / 1e6
        connections = f" on {counts['connections']} connections" if counts["connections"] else ""
        return f"{counts['sends']} sends, {size:.1f} MB{connections}"
