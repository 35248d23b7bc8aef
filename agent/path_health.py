"""Which paths are dead: a state machine without clocks and sockets.

A path dies by a router's message, or when its probes are lost: ``MISSES`` in a row, none of them answered within the
patience of its path. Patience is that of RFC 6298 (smoothed time and four times its deviation), at least
``LEAST_PATIENCE``. An answer that is late, but comes, takes the miss back and counts as a measured time, so a busy
machine makes a path more patient, not dead. A path dies only if, meanwhile, a probe of another path was sent and came
back: if all are missing, the host's own link or processor is at fault, and moving would not help.

A dead path lives again after ``GOOD_ANSWERS`` probes in a row and its penalty; one without probes, after its penalty
alone. The penalty doubles with each death that comes soon after the last one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address

MISSES = 3
GOOD_ANSWERS = 20
LEAST_PATIENCE = 0.03
MOST_PATIENCE = 2.0
FIRST_PATIENCE = 0.3
"""In seconds, before any answer has come (RFC 6298, 2.1, has one second for the whole internet)."""

PENALTY_SECONDS, MOST_PENALTY_SECONDS = 2.0, 120.0
PENALTY_WITHOUT_PROBES_SECONDS = 10.0
CALM_SECONDS = 300.0
"""After so long without a death, the penalty is the first one again."""

ALPHA, BETA, DEVIATIONS = 1 / 8, 1 / 4, 4
"""Weights of RFC 6298, 2.3."""

ICMP, PROBE = "icmp", "probe"


@dataclass(frozen=True)
class Death:
    """Why a path is dead, and since when.

    Attributes:
        at: address of the router that said so.
    """

    since: float
    evidence: str
    at: str | None = None


@dataclass
class _Probed:
    """The state of one probed path."""

    smoothed: float | None = None
    deviation: float = 0.0
    waiting: dict[int, float] = field(default_factory=dict)
    missed: list[float] = field(default_factory=list)
    late: dict[int, float] = field(default_factory=dict)
    good: int = 0
    lost: int = 0
    times: list[float] = field(default_factory=list)

    @property
    def patience(self) -> float:
        """The time in seconds that an answer to a probe may take (RFC 6298)."""
        if self.smoothed is None:
            return FIRST_PATIENCE
        return min(max(self.smoothed + DEVIATIONS * self.deviation, LEAST_PATIENCE), MOST_PATIENCE)

    def measured(self, seconds: float) -> None:
        """Take a round-trip time into account."""
        if self.smoothed is None:
            self.smoothed, self.deviation = seconds, seconds / 2
        else:
            self.deviation += BETA * (abs(self.smoothed - seconds) - self.deviation)
            self.smoothed += ALPHA * (seconds - self.smoothed)


class PathHealth:
    """The health of the paths of a plan. Times are seconds of one clock."""

    def __init__(self) -> None:
        """Begin without paths; every carrier is live until something else is heard."""
        self.dead: dict[IPv6Address, Death] = {}
        self._carriers: dict[IPv6Address, set[IPv6Address]] = {}
        self._probed: dict[IPv6Address, _Probed] = {}
        self._penalty: dict[IPv6Address, tuple[float, float]] = {}
        self.came_back = float("-inf")
        """When the newest of all probes that have come back was sent."""

    def watch(self, probes: Mapping[IPv6Address, Iterable[IPv6Address]]) -> None:
        """Set which probe goes over the paths of which carriers; what is known of others than these is dropped."""
        self._carriers = {probe: set(carriers) for probe, carriers in probes.items()}
        self._probed = {probe: self._probed.get(probe) or _Probed() for probe in probes}

    def forget(self, known: Collection[IPv6Address]) -> None:
        """Drop what is known of carriers that are not among these."""
        self.dead = {carrier: death for carrier, death in self.dead.items() if carrier in known}
        self._penalty = {carrier: penalty for carrier, penalty in self._penalty.items() if carrier in known}

    @property
    def probes(self) -> tuple[IPv6Address, ...]:
        """All probes."""
        return tuple(self._carriers)

    @property
    def waits(self) -> bool:
        """Whether some probe has not come back yet."""
        return any(state.waiting for state in self._probed.values())

    def live(self, carrier: IPv6Address) -> bool:
        """Return whether a path is not dead."""
        return carrier not in self.dead

    def sent(self, probe: IPv6Address, number: int, now: float) -> None:
        """Note that a probe was sent."""
        self._probed[probe].waiting[number] = now

    def answered(self, probe: IPv6Address, number: int, now: float) -> None:
        """Note that a probe has returned at this time; ignore the numbers of probes that are not awaited."""
        state = self._probed.get(probe)
        if state is None:
            return
        sent = state.waiting.pop(number, None)
        if sent is None:
            sent = state.late.pop(number, None)
            if sent is None:
                return
            state.lost -= 1
        self.came_back = max(self.came_back, sent)
        # Probes before this one may still come; they keep their own time.
        state.measured(max(now - sent, 0.0))
        state.times.append(max(now - sent, 0.0))
        state.missed.clear()
        state.good += 1

    def unreachable(self, carrier: IPv6Address, now: float, at: str) -> bool:
        """Note that a router could not forward a packet of this carrier; return whether that is news."""
        if carrier in self.dead:
            return False
        self._die(carrier, Death(now, ICMP, at))
        return True

    def judge(self, now: float) -> bool:
        """Find paths that are dead or live again; return whether there are any.

        All answers that have arrived must have been noted before: then it does not matter how late this is called.
        """
        for state in self._probed.values():
            for number, sent in [*state.waiting.items()]:
                if now - sent > state.patience:
                    state.late[number] = state.waiting.pop(number)
                    state.missed.append(sent)
                    state.lost += 1
                    state.good = 0
            for number, sent in [*state.late.items()]:
                if now - sent > MOST_PATIENCE:
                    del state.late[number]
        changed = False
        for probe, state in self._probed.items():
            if len(state.missed) < MISSES or (len(self._probed) > 1 and self.came_back < state.missed[-2]):
                continue
            for carrier in self._carriers[probe]:
                if carrier not in self.dead:
                    self._die(carrier, Death(now, PROBE))
                    changed = True
        return self._readmit(now) or changed

    def round_trips(self) -> dict[IPv6Address, tuple[list[float], int]]:
        """Return the measured times and the number of lost probes since the last call, by carrier."""
        result = {}
        for probe, state in self._probed.items():
            for carrier in self._carriers[probe]:
                result[carrier] = state.times, max(state.lost, 0)
            state.times, state.lost = [], 0
        return result

    def _die(self, carrier: IPv6Address, death: Death) -> None:
        self.dead[carrier] = death
        probed = [self._probed[probe] for probe, carriers in self._carriers.items() if carrier in carriers]
        for state in probed:
            state.good = 0
        first = PENALTY_SECONDS if probed else PENALTY_WITHOUT_PROBES_SECONDS
        last, penalty = self._penalty.get(carrier, (death.since, 0.0))
        calm = not penalty or death.since - last > CALM_SECONDS
        self._penalty[carrier] = death.since, first if calm else min(2 * penalty, MOST_PENALTY_SECONDS)

    def _readmit(self, now: float) -> bool:
        again = []
        for carrier, death in self.dead.items():
            probed = [self._probed[probe] for probe, carriers in self._carriers.items() if carrier in carriers]
            good = all(state.good >= GOOD_ANSWERS for state in probed)
            if good and now - death.since >= self._penalty[carrier][1]:
                again.append(carrier)
        for carrier in again:
            del self.dead[carrier]
        return bool(again)
