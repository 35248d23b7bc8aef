"""The order in which ports send discovery packets: all in turn, and at once those with an open question.

The steady round asks every port once in ``period`` seconds, spread evenly in time, and takes longer the more ports
there are: at most ``STEADY_RATE`` probes a second. Ports that lead to no switch, as far as is known, take part in each
``QUIET_EVERY``-th round only. Beside it, ports that are new, have changed or are in doubt are asked at short intervals,
at most ``FAST_RATE`` a second in all.

The rates adapt to what the event loop can do. Where it comes back late, the steady round loses that time and slows
down, a port is not asked a second time before the first packet can be back, and most of the steady round waits for
ports with an open question: in a fabric of a thousand switches that starts, each port so sends one packet, not five.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence

from controller.model.network_state import PortId
from controller.model.switch_key import SwitchKey

STEADY_RATE = 2000.0
FAST_RATE = 4000.0
"""Probes a second."""

PERIOD = 1.0
"""Seconds of a steady round, unless there are too many ports."""

QUIET_EVERY = 5

NEW = (0.0, 0.1, 0.3, 0.7, 1.5)
"""Delays in seconds at which a port is asked that is new or has come up."""

BATCH = 64
"""Most probes in one write: some 10 kB, made in half a millisecond."""

TURN = 0.05
"""Seconds between two calls of ``due`` while the event loop is not busy."""

LONGEST_TICK = 0.25
"""Most seconds between two turns that are made up for, where ports have an open question."""

AWAY = 4
"""Turns of the event loop that a packet may be on its way: it is written, sent on, read, and looked at."""

LEAST_STEADY = 0.25
"""The part of its rate that the steady round keeps while many ports have an open question."""

FAST_BURST = FAST_RATE / 10


class ProbeSchedule:
    """Time, in seconds from any origin, is an argument and never goes back.

    Attributes:
        rounds: how many steady rounds are complete.
        round_ended: when the last one was; before the first, when time began.
        lag: seconds that a packet takes longer to come back than while the event loop is not busy.
    """

    def __init__(self, now: float) -> None:
        """Begin without ports."""
        self._ports: dict[SwitchKey, dict[int, bool]] = {}
        """For each switch and port: whether it takes part in few rounds only."""
        self._n_ports = self._n_quiet = 0
        self._turn: deque[SwitchKey] = deque()
        self._rest: tuple[SwitchKey, deque[int]] = (0, deque())
        self._left = 0
        self._soon: list[tuple[float, PortId, tuple[float, ...]]] = []
        self._next: dict[PortId, float] = {}
        self._at = now
        self._steady, self._fast = 0.0, FAST_BURST
        self.lag = 0.0
        self.rounds, self.round_ended = 0, now

    def __contains__(self, at: PortId) -> bool:
        """Return whether a port is in the schedule."""
        return at.port in self._ports.get(at.switch, ())

    def __len__(self) -> int:
        """Return the number of ports."""
        return self._n_ports

    @property
    def weight(self) -> float:
        """Probes of one steady round, on average."""
        return self._n_ports - self._n_quiet + self._n_quiet / QUIET_EVERY

    @property
    def period(self) -> float:
        """Seconds of one steady round."""
        return max(PERIOD, self.weight / STEADY_RATE)

    def add(self, at: PortId) -> None:
        """Ask this port from now on."""
        ports = self._ports.get(at.switch)
        if ports is None:
            ports = self._ports[at.switch] = {}
            self._turn.append(at.switch)
            self._left += 1
        if at.port not in ports:
            ports[at.port] = False
            self._n_ports += 1

    def remove(self, at: PortId) -> None:
        """Stop asking a port."""
        quiet = self._ports.get(at.switch, {}).pop(at.port, None)
        if quiet is not None:
            self._n_ports -= 1
            self._n_quiet -= quiet
        self._next.pop(at, None)

    def remove_switch(self, key: SwitchKey) -> None:
        """Stop asking the ports of a switch."""
        for port in list(self._ports.get(key, ())):
            self.remove(PortId(key, port))
        if self._ports.pop(key, None) is not None:
            self._turn.remove(key)

    def quiet(self, at: PortId, quiet: bool) -> None:
        """Have a port take part in few rounds, or in all."""
        ports = self._ports.get(at.switch)
        if ports is not None and ports.get(at.port, quiet) != quiet:
            ports[at.port] = quiet
            self._n_quiet += 1 if quiet else -1

    def soon(self, at: PortId, now: float, delays: Sequence[float] = (0.0,)) -> None:
        """Ask a port after each of these delays, unless it is asked sooner anyhow."""
        due = now + delays[0]
        if at in self and not self._next.get(at, float("inf")) <= due:
            self._push(at, due, tuple(later - delays[0] for later in delays[1:]))

    def calm(self, at: PortId) -> None:
        """Return a port to its regular turn."""
        self._next.pop(at, None)

    def due(self, now: float) -> list[tuple[SwitchKey, list[int]]]:
        """Return switches and the ports that they are to send from now; at most ``BATCH`` ports each time."""
        took, self._at = now - self._at, now
        self.lag = max(AWAY * (took - TURN), self.lag / 2)
        self._fast = min(FAST_BURST, self._fast + min(took, LONGEST_TICK) * FAST_RATE)
        ports_of: dict[SwitchKey, list[int]] = {}
        while self._soon and self._soon[0][0] <= now and self._fast >= 1:
            due, at, later = heapq.heappop(self._soon)
            if self._next.get(at) != due:
                continue
            del self._next[at]
            self._fast -= 1
            ports_of.setdefault(at.switch, []).append(at.port)
            if later:
                self._push(at, now + later[0] + self.lag, tuple(each - later[0] for each in later[1:]))
        batches = [batch for key, ports in ports_of.items() for batch in _cut(key, ports)]
        earned = min(took, TURN) * self.weight / self.period
        asked = sum(map(len, ports_of.values()))
        self._steady = min(float(BATCH), self._steady + max(earned - asked, LEAST_STEADY * earned))
        while self._steady > 0 and self._turn and self._n_ports:
            key, ports = self._in_turn(now)
            if ports:
                self._steady -= len(ports)
                batches.append((key, ports))
        return batches

    def _push(self, at: PortId, due: float, later: tuple[float, ...]) -> None:
        self._next[at] = due
        heapq.heappush(self._soon, (due, at, later))

    def _in_turn(self, now: float) -> tuple[SwitchKey, list[int]]:
        """Return the next ports of the steady round; none where a switch has none to be asked in this round."""
        key, rest = self._rest
        if not rest:
            if self._left <= 0:
                self.rounds += 1
                self.round_ended, self._left = now, len(self._turn)
            self._left -= 1
            key = self._turn.popleft()
            self._turn.append(key)
            asked, rounds = self._ports[key].items(), self.rounds
            rest = deque(port for port, quiet in asked if not quiet or (port + rounds) % QUIET_EVERY == 0)
            self._rest = key, rest
        ports_left = self._ports.get(key, {})
        return key, [port for port in (rest.popleft() for _ in range(min(BATCH, len(rest)))) if port in ports_left]


def _cut(key: SwitchKey, ports: list[int]) -> Iterable[tuple[SwitchKey, list[int]]]:
    return ((key, ports[at : at + BATCH]) for at in range(0, len(ports), BATCH))
