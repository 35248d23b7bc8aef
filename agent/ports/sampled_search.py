"""The search for source ports where routers answer no probes: by packets that they sample. No clocks, no sockets.

A router that samples one packet in N tells nothing of most of them, so a port that is asked about by itself takes N
packets on average until it is seen. A search needs any port of a path, though: each packet has another source port at
random, and with P equally likely paths a path has its port after N P packets on average, whatever became of the
others. Ports in use are asked about by themselves, but only if packets of their own flows were not seen lately: those
cost nothing.

Nothing follows from one packet that was not seen. After many times N, it is told that nothing is seen (``silent``),
and a port that was not seen is not known any more.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random

from agent.plans.flow_keys import Address
from agent.ports.port_search import GIVE_UP, MOST_STRANGE, HopProbe, PairPorts, StrangeAnswer
from agent.ports.probe_task import ProbedPair, ProbeTask
from agent.ports.sampled_paths import SampledPaths

ONE_IN = 1000
"""Packets of which a router samples one, as long as it has not said so."""

UNSEEN = 8
"""Times that number of packets of which none was seen: the chance of an error is exp(-8)."""

LATENCY_SECONDS = 5.0
"""From a packet to its sample: routers send samples within a second, and others hand them on."""

AT_ONCE_SECONDS = 0.05
"""The part of a second's packets that may leave at once."""


@dataclass
class _Checked:
    """A port that had a path: packets that were sent of it, and when the last one was."""

    path: int
    sent: int = 0
    last: float = float("-inf")


class _SampledPair:
    """The search for the ports of one destination."""

    def __init__(self, pair: ProbedPair, task: ProbeTask, random: Random, paths: SampledPaths, fresh: float) -> None:
        self.pair, self.paths, self._task, self._random = pair, paths, task, random
        self.ports = PairPorts(pair.dst, pair.map, evidence="samples")
        self._hop = pair.routes.hops[-1] + 1
        self._count: Counter[int] = Counter()
        self._checked: dict[int, _Checked] = {}
        self._fresh, self._heard, self._unseen, self._last = fresh, False, 0, float("-inf")
        self._answered: set[int] = set()
        self._halfway: deque[int] = deque(maxlen=MOST_STRANGE)
        for port in paths:
            self._look(port)
        left = Counter({path: many - self._count[path] for path, many in pair.wanted.items()})
        for port, path in pair.known.items():
            if task.given and port not in self.ports.path_of:
                self._checked[port] = _Checked(path)
            elif port not in self.ports.path_of and port not in self.ports.astray and left[path] > 0:
                left[path] -= 1
                self._checked[port] = _Checked(path)

    @property
    def is_open(self) -> bool:
        return self.ports.state == "searching"

    def seen(self, port: int) -> None:
        """Take into account that a packet of a port was seen."""
        if self.paths.shown(port).at >= self._fresh:
            self._heard, self._unseen = True, 0
            self._look(port)

    def next(self, now: float) -> HopProbe:
        """Return the packet to send next, which counts as sent."""
        port = self._port()
        if (checked := self._checked.get(port)) is not None:
            checked.sent, checked.last = checked.sent + 1, now
        self.ports.sent += 1
        self._unseen += 1
        self._last = now
        return HopProbe(self.pair.dst, port, self._hop)

    def _port(self) -> int:
        checked = min(self._checked, key=lambda port: self._checked[port].sent, default=None)
        expected = Counter(each.path for each in self._checked.values())
        lacks = any(
            many > self._count[path] + expected[path]
            for path, many in self.pair.wanted.items()
            if path not in self.ports.unreachable
        )
        turn = self.ports.sent % 2
        if checked is not None and (not lacks or turn or self._task.given):
            return checked
        if self._halfway and turn:
            self._halfway.rotate(1)
            return self._halfway[0]
        return self._random.randint(self._task.first_port, self._task.last_port)

    def _look(self, port: int) -> None:
        """See what samples show of a port."""
        shown = self.paths.shown(port)
        if shown.at < self._fresh:
            return
        if shown.both or not shown.paths:
            if port not in self.ports.astray and len(self.ports.strange) < MOST_STRANGE:
                self.ports.strange.append(StrangeAnswer(port, shown.routers, False))
            self._settled(port)
            self._forget(port)
            self.ports.astray.add(port)
        elif len(shown.paths) == 1:
            (path,) = shown.paths
            self._settled(port)
            if self.ports.path_of.get(port, path) != path:
                self._forget(port)
            if port not in self.ports.path_of:
                self._count[path] += 1
            self.ports.path_of[port], self.ports.at[port] = path, shown.at
        elif self._missing().isdisjoint(shown.paths):
            self._settled(port)
            if self.pair.known.get(port) not in shown.paths:
                self.ports.astray.add(port)
        elif port not in self._halfway:
            self._halfway.append(port)

    def _forget(self, port: int) -> None:
        """Forget the path of a port that leads elsewhere."""
        path = self.ports.path_of.pop(port, None)
        if path is not None:
            self._count[path] -= 1
            del self.ports.at[port]

    def _settled(self, port: int) -> None:
        self._checked.pop(port, None)
        self._answered.add(port)
        if port in self._halfway:
            self._halfway.remove(port)

    def _missing(self) -> frozenset[int]:
        return frozenset(path for path, many in self.pair.wanted.items() if self._count[path] < many)

    def settle(self, one_in: float, now: float) -> None:
        """Find out whether the search has come to an end."""
        if not self.is_open:
            return
        enough = UNSEEN * one_in
        for port, each in [*self._checked.items()]:
            if each.sent >= enough and now - each.last >= LATENCY_SECONDS:
                del self._checked[port]
                self._unseen = 0
                self.ports.unanswered += each.sent
                if self._heard:
                    # Packets of others are seen: those of this port do not pass where they did.
                    self.ports.astray.add(port)
        self.ports.answered = len(self._answered)
        if self._task.given and not self._checked:
            self.ports.state = "exhausted" if self._missing() or self.ports.astray else "complete"
            return
        missing = self._missing()
        if self.ports.answered >= GIVE_UP * len(self.pair.routes.paths):
            self.ports.unreachable = frozenset(path for path in missing if not self._count[path])
        if missing <= self.ports.unreachable and not self._checked:
            self.ports.state = "unreachable" if self.ports.unreachable else "complete"
        elif self._unseen >= enough and now - self._last >= LATENCY_SECONDS:
            self.ports.state = "silent"

    def is_at_rest(self, one_in: float) -> bool:
        """Return whether enough packets have left of which nothing was seen yet: samples may be under way."""
        return self._unseen >= UNSEEN * one_in


class SampledSearch:
    """The search for all ports of a task by samples. Times are seconds of one clock."""

    def __init__(
        self,
        task: ProbeTask,
        random: Random,
        a_second: float,
        paths: Mapping[Address, SampledPaths],
        fresh: float,
        now: float,
    ) -> None:
        """Begin.

        Args:
            task: what is wanted; its budget is not needed.
            random: draws the candidates.
            a_second: packets that may be sent in a second.
            paths: what samples have shown so far, by destination.
            fresh: the time since which samples count.
            now: the time.
        """
        self._pairs = {each.dst: _SampledPair(each, task, random, paths[each.dst], fresh) for each in task.pairs}
        self._turns = deque(self._pairs.values())
        self._a_second, self._one_in = a_second, float(ONE_IN)
        self._most = max(1.0, a_second * AT_ONCE_SECONDS)
        self._tokens, self._at = self._most, now
        self.settle(now)

    @property
    def is_done(self) -> bool:
        """Whether the search has come to its end."""
        return not any(pair.is_open for pair in self._pairs.values())

    @property
    def ports(self) -> list[PairPorts]:
        """The ports of each destination, as far as samples have shown them."""
        return [pair.ports for pair in self._pairs.values()]

    def look(self, ports: Iterable[tuple[Address, int]], one_in: float | None) -> None:
        """Take into account that samples have shown something of these ports, by destination.

        Args:
            ports: the ports.
            one_in: packets of which routers sample one, as they say; ``None``: not known.
        """
        self._one_in = one_in or self._one_in
        for dst, port in ports:
            if (pair := self._pairs.get(dst)) is not None:
                pair.seen(port)

    def settle(self, now: float) -> None:
        """Find out which pairs have come to an end."""
        for pair in self._pairs.values():
            pair.settle(self._one_in, now)

    def next(self, now: float) -> HopProbe | None:
        """Return a packet to send now, which counts as sent; ``None``: there is none now."""
        self._tokens = min(self._tokens + max(now - self._at, 0.0) * self._a_second, self._most)
        self._at = max(now, self._at)
        if self._tokens < 1:
            return None
        for _ in range(len(self._turns)):
            pair = self._turns[0]
            self._turns.rotate(-1)
            if pair.is_open and not pair.is_at_rest(self._one_in):
                self._tokens -= 1
                return pair.next(now)
        return None

    def wait(self, now: float) -> float:
        """Return the seconds until something is to be done, if no sample comes before."""
        if any(pair.is_open and not pair.is_at_rest(self._one_in) for pair in self._pairs.values()):
            # Some at a time: a packet takes less time to send than to wait for.
            return max((self._most / 2 - self._tokens) / self._a_second, 1 / self._a_second)
        return LATENCY_SECONDS / 10
