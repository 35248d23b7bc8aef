"""Ports that come and go too often are treated as down until they are quiet: a plan for each time would be worse.

Each time a port goes down and comes back, flows move twice, and a port that does so every second never carries much.
The same idea as route flap damping in BGP (RFC 2439), without its decaying penalty: what matters here is over within
seconds.
"""

from __future__ import annotations

from collections import defaultdict, deque

from controller.model.network_state import PortId
from controller.model.switch_key import SwitchKey

MOST = 3
"""Number of times that a port may go down ..."""
WINDOW = 10.0
"""... within this number of seconds; after one more it counts as down ..."""
QUIET = 5.0
"""... until its state has not changed for this number of seconds."""
LOOK_AGAIN = QUIET + 0.05
"""Seconds after the last change of a port after which it no longer counts as flapping."""


class Damper:
    """Remembers when ports went down. Time, in seconds from any origin, is an argument and never goes back."""

    def __init__(self) -> None:
        """Begin without ports."""
        self._downs: dict[PortId, deque[float]] = defaultdict(lambda: deque(maxlen=MOST + 1))
        self._changed: dict[PortId, float] = {}
        self._held: set[PortId] = set()

    def changed(self, port: PortId, up: bool, now: float) -> None:
        """Record that a port came up or went down."""
        self._changed[port] = now
        if up:
            return
        downs = self._downs[port]
        downs.append(now)
        if len(downs) > MOST and now - downs[0] <= WINDOW:
            self._held.add(port)

    def held(self, now: float) -> frozenset[PortId]:
        """Return the ports that count as down, whatever their state."""
        quiet = {port for port in self._held if now - self._changed[port] >= QUIET}
        for port in quiet:
            # It begins anew: the next time that it goes down is the first.
            del self._downs[port]
        self._held -= quiet
        return frozenset(self._held)

    def forget(self, key: SwitchKey) -> None:
        """Forget a disconnected switch with its ports; a later one with the same id may be another."""
        for port in [port for port in self._changed if port.switch == key]:
            del self._changed[port]
            self._downs.pop(port, None)
            self._held.discard(port)
