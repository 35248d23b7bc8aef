"""The number of packets that a switch may send to the controller, by ingress port. Pure: time is an argument.

A host that floods its port must not use up what its leaf's uplinks need for link discovery, and one switch must not
hold up others. So every port has a budget of its own, which no other port can use up, and beyond that a share of what
its switch and the whole controller have.
"""

from __future__ import annotations

from controller.southbound.limits.allowance import Allowance

WINDOW_SECONDS = 0.25
"""Seconds between two refills."""

GUARANTEED = 1
"""Packets of each port and window, independent of the others: discovery needs one a second."""

PORT, SWITCH, CONTROLLER = 16, 512, 4096
"""Packets in a window beyond those: of one port, of one switch, of all of them."""

BACKLOG = 8
"""Windows that may be refilled at once: packets that came while this program was held up are no flood."""

OTHER = -1
"""Stands for all ports that a switch has not reported."""


class ControllerBudget:
    """The budget that all switches share."""

    def __init__(self) -> None:
        """Begin with a full budget."""
        self._began, self.left = float("-inf"), CONTROLLER

    def refill(self, now: float) -> None:
        """Refill after whole windows; ``now`` is in seconds."""
        windows = _windows(now - self._began)
        if windows:
            self._began, self.left = now, windows * CONTROLLER


class PacketBudget:
    """The budget of one switch.

    Attributes:
        dropped: packets that were too many, since the start of the connection.
    """

    def __init__(self, everybody: ControllerBudget) -> None:
        """Begin with a full budget, beside the share of ``everybody``."""
        self._everybody = everybody
        self._began, self._left = float("-inf"), SWITCH
        self._own, self._most = GUARANTEED, GUARANTEED + PORT
        self._by_port: dict[int, int] = {}
        self.dropped = 0

    def refill(self, now: float) -> None:
        """Refill after whole windows; call it with the time in seconds before each series of ``take``."""
        self._everybody.refill(now)
        windows = _windows(now - self._began)
        if windows:
            self._began, self._left = now, windows * SWITCH
            self._own, self._most = windows * GUARANTEED, windows * (GUARANTEED + PORT)
            self._by_port.clear()

    def take(self, port: int) -> bool:
        """Return whether one more packet from this port may be processed."""
        count = self._by_port.get(port, 0)
        if count >= self._own:
            if count >= self._most or not self._left or not self._everybody.left:
                self.dropped += 1
                return False
            self._left -= 1
            self._everybody.left -= 1
        self._by_port[port] = count + 1
        return True


class WatchBudget(Allowance):
    """The budget of packets that come because of watch windows, from all switches together.

    Attributes:
        taken, dropped: packets so far, within the budget and beyond it.
    """

    def __init__(self, per_second: float, now: float) -> None:
        """Begin with the packets of a second."""
        super().__init__(per_second, now)
        self.taken = self.dropped = 0

    def take(self, now: float) -> bool:
        """Return whether one more packet may be processed, and count it."""
        allowed = super().take(now)
        if allowed:
            self.taken += 1
        else:
            self.dropped += 1
        return allowed


def _windows(seconds: float) -> int:
    """Return the number of whole windows in some time, up to ``BACKLOG``."""
    return int(min(seconds / WINDOW_SECONDS, BACKLOG))
