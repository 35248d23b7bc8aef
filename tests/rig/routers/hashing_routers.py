"""A simulated network of routers that hash the 5-tuple, with limits of their ICMP messages; for probes of ports."""

from __future__ import annotations

import heapq
import itertools
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from hashlib import blake2b
from ipaddress import IPv4Address
from math import prod
from random import Random

from agent.plans.flow_keys import Address
from agent.ports.port_search import HopProbe, PortSearch
from agent.ports.probe_task import AnswerBudget, ProbedPair, ProbeRoutes, ProbeTask
from controller.model.packets.port_numbers import ROCE_PORT

SOURCE = IPv4Address("10.0.1.1")
FIRST_PORT, LAST_PORT = 49152, 51199
UNLIMITED = AnswerBudget(1000, 1e6)
ROUNDING = 1e-6
MOST_SECONDS = 1e5


@dataclass
class HashingNetwork:
    """Routers between one host and others: the leaf chooses among ``widths[0]`` uplinks, the next among ``widths[1]``.

    Attributes:
        widths: numbers of uplinks, from the leaf up.
        seed: of the hashes.
        polarised: whether all routers have the same hash.
        linear: whether it is a CRC (the numbers of uplinks are powers of two then), and not one of cryptography. Each
            router adds a seed of its own, and has its uplinks in an order of its own.
        by_choice: whether routers of the highest layer are named by the last choice alone, as those of several planes
            that have equal names would be; then probes of two hop limits are needed.
        delay: one way, in seconds.
        limit: of the answers of a router; ``None``: there is none.
        silent: routers that never answer.
        unnamed: routers that the task does not name, as if the file lacked them.
        broken: routers without a way down.
        answered: how many probes each router has answered, and ``refused`` by its limit.
        times: when each router has answered.
    """

    widths: tuple[int, ...]
    seed: int
    polarised: bool = False
    linear: bool = False
    by_choice: bool = False
    delay: float = 1e-4
    limit: AnswerBudget | None = None
    silent: Collection[str] = ()
    unnamed: Collection[str] = ()
    broken: Collection[str] = ()
    answered: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    _tokens: dict[str, tuple[float, float]] = field(default_factory=dict)
    _orders: dict[tuple[int, str], tuple[list[int], int]] = field(default_factory=dict)

    @property
    def n_paths(self) -> int:
        """The number of paths."""
        return prod(self.widths)

    def choices(self, dst: Address, port: int) -> tuple[int, ...]:
        """Return the uplinks that packets take."""
        taken: tuple[int, ...] = ()
        for tier, width in enumerate(self.widths):
            router = "" if self.polarised else f"{tier} {taken}"
            if self.linear:
                taken += (self._by_crc(dst, port, tier, router),)
                continue
            data = f"{self.seed} {router} {SOURCE} {dst} {port}".encode()
            taken += (int.from_bytes(blake2b(data, digest_size=8).digest()) % width,)
        return taken

    def _by_crc(self, dst: Address, port: int, tier: int, router: str) -> int:
        width = self.widths[tier]
        key = self.seed, router
        if key not in self._orders:
            own = Random(f"{self.seed} {router}")
            self._orders[key] = own.sample(range(width), width), own.randrange(width)
        order, seed = self._orders[key]
        code = zlib.crc32(SOURCE.packed + dst.packed + port.to_bytes(2)) >> 8 * tier
        return order[(code ^ seed) % width]

    def path(self, dst: Address, port: int) -> int:
        """Return the number of the path that packets take."""
        number = 0
        for width, choice in zip(self.widths, self.choices(dst, port), strict=True):
            number = number * width + choice
        return number

    def reachable(self, dst: Address) -> frozenset[int]:
        """Return the paths that some port leads over."""
        return frozenset(self.path(dst, port) for port in range(FIRST_PORT, LAST_PORT + 1))

    def router(self, taken: tuple[int, ...]) -> str:
        """Return the name of the router to which uplinks lead."""
        if self.by_choice and len(taken) == len(self.widths):
            taken = taken[-1:]
            return f"top{taken[0]}"
        return "up" + ".".join(map(str, taken))

    @property
    def routers(self) -> list[str]:
        """The names of all routers above the leaf."""
        every = (
            taken
            for tiers in range(1, len(self.widths) + 1)
            for taken in itertools.product(*map(range, self.widths[:tiers]))
        )
        return [*dict.fromkeys(map(self.router, every))]

    def address(self, router: str) -> IPv4Address:
        """Return the address from which a router answers."""
        return IPv4Address("10.255.0.1") + self.routers.index(router)

    def task(
        self, wanted: dict[Address, dict[int, int]], *, budget: AnswerBudget = UNLIMITED, last_port: int = LAST_PORT
    ) -> ProbeTask:
        """Return what the host is asked to probe."""
        hops = (2, 3) if self.by_choice else (len(self.widths) + 1,)
        paths = {}
        for number, taken in enumerate(itertools.product(*map(range, self.widths))):
            answers = tuple(self.router(taken[: hop - 1]) for hop in hops)
            if not {self.router(taken[:n]) for n in range(1, len(taken) + 1)} & {*self.unnamed}:
                paths[answers] = number
        routes = ProbeRoutes(hops, paths)
        names: dict[Address, str] = {self.address(name): name for name in self.routers if name not in self.unnamed}
        pairs = tuple(ProbedPair(dst, routes, each, {}) for dst, each in wanted.items())
        return ProbeTask("h1", SOURCE, FIRST_PORT, last_port, ROCE_PORT, names, budget, pairs)

    def answer(self, probe: HopProbe, now: float) -> tuple[Address, bool] | None:
        """Return the router that answers a probe, and whether it could not forward it; ``None``: none does."""
        passed = self.choices(probe.dst, probe.port)
        every = [self.router(passed[:n]) for n in range(1, len(passed) + 1)]
        broken = next((n for n, name in enumerate(every) if name in self.broken and n + 2 < probe.hop), None)
        name = every[probe.hop - 2 if broken is None else broken]
        if name in self.silent or not self._takes(name, now):
            return None
        self.answered[name] += 1
        self.times[name].append(now)
        return self.address(name), name in self.broken

    def _takes(self, router: str, now: float) -> bool:
        if self.limit is None:
            return True
        tokens, at = self._tokens.get(router, (self.limit.burst, now))
        tokens = min(tokens + (now - at) * self.limit.a_second, self.limit.burst)
        if tokens < 1 - ROUNDING:
            self._tokens[router] = tokens, now
            self.refused[router] += 1
            return False
        self._tokens[router] = tokens - 1, now
        return True


def run(search: PortSearch, network: HashingNetwork, *, begin: float = 0.0) -> float:
    """Carry out a search from a time on; return when it has ended."""
    now, order = begin, itertools.count()
    events: list[tuple[float, int, HopProbe, tuple[Address, bool] | None]] = []
    while not search.is_done and now < begin + MOST_SECONDS:
        while events and events[0][0] <= now:
            at, _, probe, answer = heapq.heappop(events)
            if answer is not None:
                search.answered(probe, answer[0], now, unreachable=answer[1])
            elif (answer := network.answer(probe, at)) is not None:
                heapq.heappush(events, (at + network.delay, next(order), probe, answer))
        search.expire(now)
        while (sent := search.next(now)) is not None:
            heapq.heappush(events, (now + network.delay, next(order), sent, None))
        until = now + search.wait(now) + ROUNDING / 1e3
        now = min(until, events[0][0]) if events else until
    return now
