"""Simulate the search for the source ports of a large fabric's planned flows, at the ICMP limit of its switches.

Hosts run the search of the port agent (``agent/ports/port_search.py``) with the budgets that the controller gives them.
Each flow has a planned path, and each spine answers a limited number of probes a second, whichever host has sent them;
a probe beyond it has no answer. P probes find the port of one flow on average, so no search can end before
``flows x P / (P x limit)`` seconds on average, which is printed beside the measured time.

Usage: ``python -m benchmarks.running.port_search_scale [--hosts 2048] [--peers 8] [--spines 32] [--rate 100]``. Exits 1
if flows lack ports, or if the search takes more than 1.2 times the computed seconds.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import sys
from collections import Counter
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from random import Random
from statistics import median

import numpy as np

from agent.plans.flow_keys import Address
from agent.ports.port_search import HopProbe, PortSearch
from agent.ports.probe_task import AnswerBudget, ProbedPair, ProbeRoutes, ProbeTask
from controller.model.packets.port_numbers import ROCE_PORT
from controller.model.traffic import FIRST_PORT, LAST_PORT

DELAY = 50e-6
"""One way, in seconds."""
SWITCH_BURST = 100.0
"""Answers that a switch gives at once."""
TOO_SLOW = 1.2
STEP = 1e-6
"""Seconds by which a host wakes up late, so that errors of rounding do not wake it too early."""


SPINES = IPv4Address("10.255.0.0")
RECEIVERS = IPv4Address("10.1.0.0")


@dataclass(frozen=True)
class Searched:
    """What all hosts have found, in simulated seconds.

    Attributes:
        states: how many pairs of hosts have ended in each state.
        sent: probes, and how many of them were ``refused`` by the limit of a spine.
        ends: when the last pair of each host had ended.
        least: seconds that no search can take less than on average.
    """

    states: Counter[str]
    sent: int
    refused: int
    ends: list[float]
    least: float


@dataclass
class Spines:
    """The spines' limits of ICMP messages, for all hosts together."""

    a_second: float
    refused: int = 0
    _tokens: dict[int, tuple[float, float]] = field(default_factory=dict)

    def answers(self, spine: int, now: float) -> bool:
        """Return whether a spine answers a probe that has arrived."""
        tokens, at = self._tokens.get(spine, (SWITCH_BURST, now))
        tokens = min(tokens + (now - at) * self.a_second, SWITCH_BURST)
        takes = tokens >= 1
        self._tokens[spine] = tokens - takes, now
        self.refused += not takes
        return takes


def search_of(host: int, wanted: dict[IPv4Address, int], spines: int, budget: AnswerBudget) -> PortSearch:
    """Return the search of a host for one port to each receiver over its planned path."""
    names = [f"spine{n}" for n in range(spines)]
    routes = ProbeRoutes((2,), {(name,): n for n, name in enumerate(names)})
    addresses: dict[Address, str] = {SPINES + n: name for n, name in enumerate(names)}
    pairs = tuple(ProbedPair(dst, routes, {path: 1}, {}) for dst, path in wanted.items())
    source = IPv4Address("10.0.0.0") + host
    task = ProbeTask(f"h{host}", source, FIRST_PORT, LAST_PORT, ROCE_PORT, addresses, budget, pairs)
    return PortSearch(task, Random(host))


def simulate(hosts: int, peers: int, spines: int, rate: float, *, seed: int = 1, burst: int = 6) -> Searched:
    """Let all hosts search at once.

    Args:
        hosts: how many.
        peers: receivers of each, with one planned path each.
        spines: paths of a pair.
        rate: answers a second of a spine.
        seed: of hashes and plans.
        burst: answers of one router to one host at once.
    """
    rng, limits = np.random.default_rng(seed), Spines(rate)
    budget = AnswerBudget(burst, 1.0, rate / hosts)
    wanted = rng.integers(spines, size=(hosts, peers)).tolist()
    searches = [
        search_of(host, {RECEIVERS + n: path for n, path in enumerate(row)}, spines, budget)
        for host, row in enumerate(wanted)
    ]
    order, ends, wakes = itertools.count(), [0.0] * hosts, [0.0] * hosts
    # A host looks at its search (no probe), or gets an answer.
    events: list[tuple[float, int, int, HopProbe | None, int]] = [
        (0.0, next(order), host, None, 0) for host in range(hosts)
    ]
    while events:
        now, _, host, probe, spine = heapq.heappop(events)
        search = searches[host]
        if search.is_done or (probe is None and wakes[host] != now):
            continue
        if probe is not None:
            search.answered(probe, SPINES + spine, now)
        search.expire(now)
        while (sent := search.next(now)) is not None:
            # No port is tried twice, so each draw is that of one port.
            taken = int(rng.integers(spines))
            if limits.answers(taken, now):
                heapq.heappush(events, (now + 2 * DELAY, next(order), host, sent, taken))
        ends[host] = now
        if not search.is_done:
            wakes[host] = now + search.wait(now) + STEP
            heapq.heappush(events, (wakes[host], next(order), host, None, 0))
    pairs = [pair for search in searches for pair in search.ports]
    return Searched(
        Counter(pair.state for pair in pairs),
        sum(pair.sent for pair in pairs),
        limits.refused,
        ends,
        hosts * peers / rate,
    )


def main() -> int:
    """Simulate, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, usual in (("hosts", 2048), ("peers", 8), ("spines", 32), ("seed", 1), ("burst", 6)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--rate", type=float, default=100.0)
    given = parser.parse_args()
    done = simulate(given.hosts, given.peers, given.spines, given.rate, seed=given.seed, burst=given.burst)
    flows, last = given.hosts * given.peers, max(done.ends)
    print(f"{flows} flows: {dict(done.states)}; {done.sent / flows:.1f} probes a flow; {done.refused} were refused")
    print(f"computed {done.least:.1f} s; all {last:.1f} s ({last / done.least:.2f}), half {median(done.ends):.1f} s")
    return int(done.states["complete"] != flows or last > TOO_SLOW * done.least)


if __name__ == "__main__":
    sys.exit(main())
