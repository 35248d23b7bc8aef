"""Which NICs are out of order for so long that circuits are planned without them."""

from __future__ import annotations

from controller.circuits.control.job_plans import Nic


class DeadNics:
    """NICs whose ports were down for some time; they count until they were up for as long.

    A NIC that is down when it is seen first counts at once: nobody knows for how long it has been down, and a
    controller that was restarted must not plan with it again.

    Attributes:
        now: the dead ones.
    """

    def __init__(self, seconds: float) -> None:
        """Begin without any."""
        self.now: frozenset[Nic] = frozenset()
        self._seconds = seconds
        self._down: dict[Nic, bool] = {}
        self._since: dict[Nic, float] = {}

    def note(self, nic: Nic, *, down: bool, clock: float) -> None:
        """Take in whether the port of a NIC is down."""
        if nic not in self._down and down:
            self.now |= {nic}
        if self._down.get(nic) != down:
            self._down[nic] = down
            self._since[nic] = clock

    def settle(self, clock: float) -> None:
        """Have those count that were down for long enough, and no others that were up for as long."""
        changed = {nic for nic in self._waiting() if clock - self._since[nic] >= self._seconds}
        self.now ^= changed

    def seconds_left(self, clock: float) -> float | None:
        """Return after which time ``now`` changes if ports stay as they are; ``None``: never."""
        return min((max(0.0, self._since[nic] + self._seconds - clock) for nic in self._waiting()), default=None)

    def _waiting(self) -> set[Nic]:
        return {nic for nic, down in self._down.items() if down != (nic in self.now)}
