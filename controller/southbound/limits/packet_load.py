"""The rate of packets that each switch sends to the controller: at a very high rate some of them get lost."""

from __future__ import annotations

from collections.abc import Callable

from controller.model.switch_key import SwitchKey

LOUD = 200
"""Packets a second of one switch, beside link discovery, above which answers to probes may be among those that its
meter, its queue, or the controller's own limits drop (``leaf_guards.ARP_METER``)."""

MEMORY = 2
"""Seconds for which a switch counts as loud afterwards."""

_FORGET = 10_000
"""Switches that are remembered."""


class PacketLoad:
    """Packets by switch and second.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin without packets."""
        self._clock = clock
        self._count: dict[SwitchKey, tuple[int, int]] = {}
        self._loud_until: dict[SwitchKey, int] = {}

    def arrived(self, key: SwitchKey, packets: int = 1) -> None:
        """Count packets from a switch, whether or not they are processed."""
        second = int(self._clock())
        of, n = self._count.get(key, (second, 0))
        n = n + packets if of == second else packets
        if key not in self._count and len(self._count) >= _FORGET:
            self._count.clear()
        self._count[key] = second, n
        if n >= LOUD:
            self._loud_until[key] = second + MEMORY

    def loud(self, key: SwitchKey) -> bool:
        """Return whether so many packets have come from a switch a moment ago that some may have been lost."""
        until = self._loud_until.get(key)
        if until is None:
            return False
        if int(self._clock()) > until:
            del self._loud_until[key]
            return False
        return True
