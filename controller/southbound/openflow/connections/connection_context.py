"""Values that the connections of all switches share: budgets, logs, notices, and a clock of running time."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from controller.southbound.limits.notices import Notices
from controller.southbound.limits.packet_budget import ControllerBudget, WatchBudget
from controller.southbound.limits.quiet_log import QuietLog

LOG = logging.getLogger("fairspine.southbound")

WATCHED_PER_SECOND = 1000
"""Packets of watch windows that are processed a second."""

MOST_SWITCHES = 8192
"""Switches whose dropped packets are counted."""


class ConnectionContext:
    """The shared values; there is one object for all connections.

    Attributes:
        awake: seconds during which this program could read what switches sent. While it is held up (stopped, or very
            busy) no connection's time runs out.
        heard, heard_at: when something came last from any switch that has completed its handshake, on the clock of
            ``awake`` and on ``clock``.
        echo_seconds: the longest time between two echo requests to a switch; ``None``: as Ryu's options say.
        ends: how many connections were ended by this side, by kind of reason.
        dropped: packets that were too many, by datapath id.
        watched: the budget of packets that come because of watch windows, from all switches together.
    """

    def __init__(self, *, name: Callable[[int], str], changed: Callable[[], None], clock: Callable[[], float]) -> None:
        """Begin with full budgets.

        Args:
            name: of a switch, for people.
            changed: called when there is a new notice.
            clock: seconds of a monotonic clock.
        """
        self.name, self.clock = name, clock
        self.notices = Notices(clock, changed=changed)
        self.log = QuietLog(LOG, clock=clock)
        self.everybody = ControllerBudget()
        self.watched = WatchBudget(WATCHED_PER_SECOND, clock())
        self.awake = self.heard = 0.0
        self.heard_at = clock()
        self.echo_seconds: float | None = None
        self.ends: Counter[str] = Counter()
        self.dropped: Counter[int] = Counter()

    def ended(self, place: str, who: str, kind: str, reason: str) -> None:
        """Count and log a connection that this side has ended."""
        self.ends[kind] += 1
        self.log.warning((place, kind), "%s is closed: %s", who, reason)

    def too_many_packets(self, dpid: int | None, who: str, count: int) -> None:
        """Count and log packets of a switch that were dropped."""
        if dpid is None:
            return
        if dpid in self.dropped or len(self.dropped) < MOST_SWITCHES:
            self.dropped[dpid] += count
        self.log.warning((dpid, "packets"), "%s exceeds its packet budget: further packets are dropped", who)
