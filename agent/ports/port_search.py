"""The search for source ports: a state machine without clocks and sockets.

Each candidate is a port at random, since with linear hashes consecutive ports may miss paths for thousands of ports.
Its probes go out with one hop limit after the other; when the answers so far lead to no path that lacks ports, the
others are left out. All answers are kept: a port that leads over a path which is not wanted now may be wanted later.

Where the hash of the routers may be linear, and that would spare probes, one destination of each kind teaches it first
(``linear_hash.py``), and the others wait. Then one port of each other one shows which ports lead over its paths.

With P paths that are equally likely, the first ports of all of them take P (1 + 1/2 + .. + 1/P) candidates on average,
and that of one path P. Candidates beyond those under way when the last port is found are waste, so a pair has more than
one under way only where many are needed. A probe whose answer is late (``answer_times.py``) may be lost: it is waited
for, but the search goes on beside it.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from random import Random
from typing import Literal, NamedTuple

from agent.plans.flow_keys import Address
from agent.ports.answer_budgets import AnswerBudgets
from agent.ports.answer_times import AnswerTimes
from agent.ports.linear_hash import HashModels, LinearHash
from agent.ports.probe_task import Answers, ProbedPair, ProbeTask

PATIENCE_SECONDS = 0.5
"""For which an answer is waited for."""

WASTE = 0.05
"""Of the candidates that are needed on average, the part that may be under way beside the first one."""

GIVE_UP = 16
"""A path without a port after this number of answered candidates for each path of the pair has none: with equally
likely paths, the chance of an error is exp(-16)."""

SILENT = 6
"""Probes of a pair in a row without an answer, after which its routers count as silent."""

WORTH = 2
"""Times the probes of a lesson, that candidates at random would take where one is given."""

MOST_LATE = 2
"""Late probes of a pair beside which others are sent: the fewer, the less is asked of routers that do not answer."""

MOST_STRANGE = 8
"""Answers of a pair that fit no path of which examples are kept."""

PairState = Literal["searching", "complete", "unreachable", "silent", "exhausted"]
PathEvidence = Literal["icmp", "samples"]
"""What shows the paths of ports: messages of routers about probes, or packets that routers have sampled."""


class HopProbe(NamedTuple):
    """A probe: its destination, its source port, and its hop limit."""

    dst: Address
    port: int
    hop: int


class StrangeAnswer(NamedTuple):
    """A port whose answers fit no path; ``unreachable``: the last router could not forward, whatever the hop limit."""

    port: int
    answers: Answers
    unreachable: bool


@dataclass
class PairPorts:
    """The ports to one destination that probes have shown, and how far its search has come.

    Attributes:
        dst: the destination.
        map: of the pair.
        state: ``complete``: all wanted ports are known; ``unreachable``: all but those of paths that no port leads
            over; ``silent``: routers do not answer; ``exhausted``: there are no more candidates.
        path_of: the path of each port.
        at: when the probes of each port were answered last.
        astray: ports that lead over none of the paths that lacked ports, by the answers so far.
        unreachable: wanted paths that no port leads over.
        strange: ports whose answers fit no path.
        sent: probes that were sent, and how many of them had no answer.
        answered: candidates of which enough is known.
        evidence: what has shown the paths.
    """

    dst: Address
    map: str
    state: PairState = "searching"
    path_of: dict[int, int] = field(default_factory=dict)
    at: dict[int, float] = field(default_factory=dict)
    astray: set[int] = field(default_factory=set)
    unreachable: frozenset[int] = frozenset()
    strange: list[StrangeAnswer] = field(default_factory=list)
    sent: int = 0
    unanswered: int = 0
    answered: int = 0
    evidence: PathEvidence = "icmp"


class _Flight(NamedTuple):
    """A probe under way: when it was sent, and the routers that may answer it."""

    sent: float
    routers: frozenset[str]


class _PairSearch:
    """The search for the ports of one destination."""

    def __init__(self, pair: ProbedPair, task: ProbeTask, random: Random, model: LinearHash) -> None:
        self.pair, self._task, self._random, self.hash = pair, task, random, model
        # Whether this pair teaches the hash, and whether it waits for another one that does.
        self.teaches = self.waits = False
        self._shift: int | None = None
        self._predicted: dict[int, int] = {}
        self.ports = PairPorts(pair.dst, pair.map)
        self._tried: set[int] = set()
        self._halfway: deque[tuple[int, Answers]] = deque()
        self._under_way: dict[int, Answers] = {}
        self._late: set[int] = set()
        self._in_a_row = 0
        self._count: dict[int, int] = defaultdict(int)
        self._known = deque(pair.known.items())
        self.settle()

    @property
    def is_open(self) -> bool:
        return self.ports.state == "searching"

    def next(self) -> tuple[HopProbe, frozenset[str]] | None:
        """Return the probe to send next, with the routers that may answer it; ``None``: wait for answers."""
        if not self.is_open:
            return None
        if not self._halfway:
            candidate = self._known_port()
            if candidate is None and self._is_teaching:
                candidate = None if self._under_way else self.hash.asked
            elif candidate is None and not self.waits and self._n_awaited < self._most_under_way():
                candidate = self._candidate()
            if candidate is None:
                return None
            self._tried.add(candidate)
            self._halfway.append((candidate, ()))
        port, answers = self._halfway[0]
        return HopProbe(self.pair.dst, port, self.pair.routes.hops[len(answers)]), self.pair.routes.next_routers(
            answers
        )

    @property
    def _n_awaited(self) -> int:
        """How many probes are under way without those that may be lost."""
        return len(self._under_way) - len(self._late)

    def late(self, probe: HopProbe) -> None:
        """Note that a probe may be lost."""
        if len(self._late) < MOST_LATE and not self._is_teaching:
            self._late.add(probe.port)

    def sent(self, probe: HopProbe) -> None:
        port, answers = self._halfway.popleft()
        assert port == probe.port
        self._under_way[port] = answers
        self.ports.sent += 1

    def answered(self, probe: HopProbe, router: str, now: float, *, unreachable: bool) -> None:
        self._in_a_row = 0
        self._late.discard(probe.port)
        answers = (*self._under_way.pop(probe.port), router)
        hops, paths = self.pair.routes.hops, self.pair.routes.paths
        fitting = [path for each, path in paths.items() if each[: len(answers)] == answers]
        if unreachable or not fitting:
            if len(self.ports.strange) < MOST_STRANGE:
                self.ports.strange.append(StrangeAnswer(probe.port, answers, unreachable))
            self.ports.answered += 1
            self.ports.astray.add(probe.port)
        elif len(answers) == len(hops):
            self.ports.answered += 1
            self._note(probe.port, fitting[0])
            self.ports.at[probe.port] = now
        elif self._missing().isdisjoint(fitting) and not self._teaches_by(probe.port) and not self._task.given:
            self.ports.answered += 1
            # Another port may have taken the place of one that is still right.
            if self.pair.known.get(probe.port) not in fitting:
                self.ports.astray.add(probe.port)
        else:
            self._halfway.append((probe.port, answers))
            return
        self._compare(probe.port)
        self.settle()

    @property
    def _is_teaching(self) -> bool:
        return self.teaches and self.hash.kind == "learning"

    def _teaches_by(self, port: int) -> bool:
        """Return whether the path of a port says something of the hash."""
        return self._is_lesson(port) or (self.hash.kind == "linear" and self._shift is None)

    def _is_lesson(self, port: int) -> bool:
        return self._is_teaching and port == self.hash.asked

    def _compare(self, port: int) -> None:
        """Compare the path of a port with what is known of the hash."""
        path = self.ports.path_of.get(port)
        predicted = self._predicted.pop(port, None)
        if self._is_lesson(port):
            if path is None:
                self.hash.answer(None)
            # The lesson may ask for ports that were probed before.
            while path is not None and self._is_teaching:
                self.hash.answer(path)
                path = self.ports.path_of.get(self.hash.asked)
        elif path is not None and predicted is not None and path != predicted:
            self.hash.missed()
        path = self.ports.path_of.get(port)
        if self.hash.kind == "linear" and self._shift is None and path is not None:
            self._shift = self.hash.shift(port, path)

    def lost(self, probe: HopProbe) -> None:
        del self._under_way[probe.port]
        self._late.discard(probe.port)
        self._predicted.pop(probe.port, None)
        self.ports.unanswered += 1
        self._in_a_row += 1
        if self._task.given:
            # No other port can take its place.
            self._tried.discard(probe.port)
            self._known.append((probe.port, self.pair.known[probe.port]))
        if self._in_a_row >= SILENT and self.is_open:
            self.ports.state = "silent"
            self.teaches = False
        self.settle()

    def _note(self, port: int, path: int) -> None:
        self.ports.path_of[port] = path
        self._count[path] += 1

    def _missing(self) -> frozenset[int]:
        """Return the wanted paths that lack ports."""
        return frozenset(path for path, ports in self.pair.wanted.items() if self._count[path] < ports)

    def settle(self) -> None:
        """Find out whether the search has come to an end."""
        if self._is_teaching:
            self.ports.state = "searching"
            return
        if not self.is_open:
            return
        if self._task.given:
            if not self._under_way and not self._halfway and not self._known:
                self.ports.state = "exhausted" if self._missing() or self.ports.astray else "complete"
            return
        missing = self._missing()
        if self.ports.answered >= GIVE_UP * len(self.pair.routes.paths):
            self.ports.unreachable = frozenset(path for path in missing if not self._count[path])
        if missing <= self.ports.unreachable:
            self.ports.state = "unreachable" if self.ports.unreachable else "complete"
        elif not self._under_way and not self._halfway and len(self._tried) >= self._n_candidates:
            self.ports.state = "exhausted"

    def _known_port(self) -> int | None:
        """Return a port that had a path which lacks ports; those under way count for theirs. Given ones are all due."""
        if self._task.given:
            return self._known.popleft()[0] if self._known else None
        expected = Counter(self.pair.known.get(port) for port in self._under_way if port not in self._late)
        for place, (port, path) in enumerate(self._known):
            if self.pair.wanted.get(path, 0) > self._count[path] + expected[path] and port not in self._tried:
                del self._known[place]
                return port
        return None

    def _most_under_way(self) -> int:
        """Return how many candidates may be under way at once; 0 where there are no more."""
        if len(self._tried) >= self._n_candidates or self._task.given:
            return 0
        n_paths, missing = len(self.pair.routes.paths), self._missing() - self.ports.unreachable
        if self.hash.kind == "linear":
            # The first port shows where others lead.
            return 1 if self._shift is None else sum(self.pair.wanted[path] - self._count[path] for path in missing)
        all_of_them = n_paths * sum(1 / n for n in range(1, len(missing) + 1))
        most = n_paths * max((self.pair.wanted[path] - self._count[path] for path in missing), default=0)
        return 1 + int(WASTE * max(all_of_them, most))

    @property
    def _n_candidates(self) -> int:
        return self._task.last_port - self._task.first_port + 1

    def _candidate(self) -> int:
        if self.hash.kind == "linear" and (port := self._by_hash()) is not None:
            return port
        while True:
            port = self._random.randint(self._task.first_port, self._task.last_port)
            if port not in self._tried:
                return port
            if 2 * len(self._tried) > self._n_candidates:
                every = range(self._task.first_port, self._task.last_port + 1)
                return self._random.choice([each for each in every if each not in self._tried])

    def _by_hash(self) -> int | None:
        """Return a port that leads over a path which lacks ports, if the hash tells one."""
        if self._shift is None:
            return None
        expected = Counter(path for port, path in self._predicted.items() if port not in self._late)
        for path in self._missing():
            if self.pair.wanted[path] > self._count[path] + expected[path]:
                port = self.hash.port(self._shift, path)
                if port is not None and port not in self._tried:
                    self._predicted[port] = path
                    return port
        return None

    @property
    def expected(self) -> int:
        """How many candidates its search takes, about, if nothing is known of the hash."""
        known = Counter(self.pair.known.values())
        lacking = sum(max(ports - known[path], 0) for path, ports in self.pair.wanted.items())
        return len(self.pair.routes.paths) * min(lacking, 2)


class PortSearch:
    """The search for all ports of a task. Times are seconds of one clock."""

    def __init__(
        self,
        task: ProbeTask,
        random: Random,
        budgets: AnswerBudgets | None = None,
        hashes: HashModels | None = None,
        times: AnswerTimes | None = None,
    ) -> None:
        """Begin.

        Args:
            task: what is wanted.
            random: draws the candidates.
            budgets: of routers, as an earlier search has left them; ``None``: they are full.
            hashes: what earlier searches have seen of the routers' hashes; ``None``: nothing.
            times: of the answers that earlier searches have got; ``None``: they got none.
        """
        self._names, self._budgets = task.routers, budgets or AnswerBudgets(task.budget)
        self._times = times or AnswerTimes()
        known, ends = hashes or HashModels(), (task.first_port, task.last_port)
        self._pairs: dict[Address, _PairSearch] = {}
        self._alike: dict[LinearHash, list[_PairSearch]] = defaultdict(list)
        for asked in task.pairs:
            model = known.model(asked.routes.hops, asked.routes.numbers, ends, random)
            self._pairs[asked.dst] = one = _PairSearch(asked, task, random, model)
            self._alike[model].append(one)
        for model, alike in self._alike.items():
            if model.kind == "learning" and sum(each.expected for each in alike) > WORTH * model.probes:
                model.begin()
                for each in alike:
                    each.waits, each.teaches = each is not alike[0], each is alike[0]
                alike[0].settle()
        self._open = sum(pair.is_open for pair in self._pairs.values())
        # Pairs with a probe to send, by the routers that may answer it: their budgets are the same.
        self._ready: dict[frozenset[str], deque[_PairSearch]] = {}
        self._listed: set[Address] = set()
        self._under_way: dict[HopProbe, _Flight] = {}
        self._by_age: deque[tuple[float, HopProbe]] = deque()
        self._on_time: deque[tuple[float, HopProbe]] = deque()
        for pair in self._pairs.values():
            self._list(pair)

    @property
    def is_done(self) -> bool:
        """Whether the search has come to its end."""
        return not self._open

    @property
    def ports(self) -> list[PairPorts]:
        """The ports of each destination, as far as probes have shown them."""
        return [pair.ports for pair in self._pairs.values()]

    def next(self, now: float) -> HopProbe | None:
        """Return a probe to send now, which counts as sent; ``None``: there is none now."""
        for routers, pairs in [*self._ready.items()]:
            while pairs and self._budgets.allows(routers, now):
                pair = pairs.popleft()
                self._listed.discard(pair.pair.dst)
                if (wanted := pair.next()) is None:
                    continue
                pair.sent(wanted[0])
                self._budgets.send(routers, now)
                self._under_way[wanted[0]] = _Flight(now, routers)
                self._by_age.append((now, wanted[0]))
                self._on_time.append((now, wanted[0]))
                self._list(pair)
                # Other routers are next, so that none of them waits for those of which all is asked.
                self._ready[routers] = self._ready.pop(routers)
                return wanted[0]
            if not pairs:
                del self._ready[routers]
        return None

    def wait(self, now: float) -> float:
        """Return the seconds until something is to be done if no answer comes before."""
        tokens = [self._budgets.wait(routers, now) for routers in self._ready]
        end = [self._by_age[0][0] + PATIENCE_SECONDS - now] if self._by_age else []
        late = [self._on_time[0][0] + self._times.late - now] if self._on_time else []
        return max(min([*end, *late, *tokens], default=0.0), 0.0)

    def answered(self, probe: HopProbe, address: Address, now: float, *, unreachable: bool = False) -> None:
        """Take an answer to a probe; one that is not awaited is ignored.

        Args:
            probe: which one.
            address: of the router that has answered.
            now: the time.
            unreachable: the router could not forward the probe, in place of that its hop limit was reached.
        """
        flight = self._under_way.pop(probe, None)
        if flight is None:
            return
        router, pair = self._names.get(address, str(address)), self._pairs[probe.dst]
        self._times.take(now - flight.sent)
        self._budgets.answered(flight.routers, router, now)
        before = pair.is_open
        pair.answered(probe, router, now, unreachable=unreachable)
        self._open -= before and not pair.is_open
        self._list(pair)
        self._end_lesson(pair)

    def expire(self, now: float) -> None:
        """Give up probes without an answer. All answers that have arrived must have been taken before."""
        self._look_for_late(now)
        while self._by_age:
            sent, probe = self._by_age[0]
            # An answered probe is not under way any more; it is never sent again.
            if probe in self._under_way and now - sent < PATIENCE_SECONDS:
                return
            self._by_age.popleft()
            if (flight := self._under_way.pop(probe, None)) is not None:
                self._budgets.lost(flight.routers, now)
                pair = self._pairs[probe.dst]
                before = pair.is_open
                pair.lost(probe)
                self._open -= before and not pair.is_open
                self._list(pair)
                self._end_lesson(pair)

    def _look_for_late(self, now: float) -> None:
        """Have pairs go on whose answers are late."""
        while self._on_time:
            sent, probe = self._on_time[0]
            if probe in self._under_way:
                if now - sent < self._times.late:
                    return
                pair = self._pairs[probe.dst]
                pair.late(probe)
                self._list(pair)
            self._on_time.popleft()

    def close(self, now: float) -> None:
        """Give up all probes that are under way: an earlier search does not wait for them."""
        for flight in self._under_way.values():
            self._budgets.lost(flight.routers, now)
        self._under_way.clear()

    def _end_lesson(self, pair: _PairSearch) -> None:
        """Let the others go on when their teacher has come to an end."""
        alike = self._alike[pair.hash]
        if any(each.waits for each in alike) and (pair.hash.kind != "learning" or not any(e.teaches for e in alike)):
            for each in alike:
                each.waits = each.teaches = False
                self._list(each)

    def _list(self, pair: _PairSearch) -> None:
        """Note that a pair has a probe to send, if it does."""
        if pair.pair.dst not in self._listed and (wanted := pair.next()) is not None:
            self._listed.add(pair.pair.dst)
            self._ready.setdefault(wanted[1], deque()).append(pair)
