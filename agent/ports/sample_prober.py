"""The loop of the search by samples, for destinations on the way to which routers answer no probes."""

from __future__ import annotations

import dataclasses
import select
import time
from random import Random

from agent.plans.flow_keys import Address
from agent.ports.hop_probes import HopProbeSocket
from agent.ports.port_plan import PortPlan
from agent.ports.port_search import PairPorts
from agent.ports.ports_in_use import PortChange, PortsInUse
from agent.ports.probe_task import ProbeTask
from agent.ports.sample_reader import SampleAnswer
from agent.ports.sampled_paths import SampledPaths
from agent.ports.sampled_search import LATENCY_SECONDS, ONE_IN, SampledSearch

STEADY_SHARE = 0.25
"""Of the packets of a second, those for checks of ports of which none were seen."""

SAMPLING_SECONDS = 1.0
"""A router sends a sample at most so long after the packet (sFlow version 5)."""

ICMP_AGAIN_SECONDS = 300.0
"""After which routers that have answered no probes are probed again."""


class SampledPorts:
    """What samples have shown of all destinations, which outlives plans. Times are seconds of one clock."""

    def __init__(self) -> None:
        """Begin without samples."""
        self._silent: dict[Address, float] = {}
        self._maps: dict[Address, tuple[str, SampledPaths, float]] = {}
        self.one_in: float | None = None

    def follow(self, plan: PortPlan, now: float) -> None:
        """Forget what held in another state of the cables."""
        for pair in plan.task.pairs:
            before = self._maps.get(pair.dst)
            if before is None or before[0] != pair.map:
                # What is told later may have been sampled before.
                since = now if before is None else now + SAMPLING_SECONDS
                self._maps[pair.dst] = pair.map, SampledPaths(pair.routes), since

    def note_silent(self, dst: Address, now: float) -> None:
        """Note that routers on the way to a destination have answered no probes."""
        self._silent[dst] = now

    def is_silent(self, dst: Address, now: float) -> bool:
        """Return whether samples are to be looked for there, and no answers."""
        return now - self._silent.get(dst, float("-inf")) < ICMP_AGAIN_SECONDS

    def take(self, samples: SampleAnswer) -> None:
        """Take what the controller has told."""
        self.one_in = samples.one_in or self.one_in
        for packet in samples.packets:
            of = self._maps.get(packet.dst)
            if of is not None and packet.at >= of[2]:
                of[1].take(packet)

    def paths(self) -> dict[Address, SampledPaths]:
        """Return what is known of ports, by destination."""
        return {dst: paths for dst, (_, paths, _) in self._maps.items()}

    def contradicts(self, dst: Address, port: int, path: int) -> bool:
        """Return whether samples show that a port leads elsewhere."""
        of = self._maps.get(dst)
        return of is not None and path not in of[1].shown(port).paths

    def check_seconds(self, plan: PortPlan, a_second: float) -> float:
        """Return the time between two checks of a port, of which packets are sent only if none of its flow are seen.

        Args:
            plan: its flows.
            a_second: packets that the host may send in a second.
        """
        each = (self.one_in or ONE_IN) / (a_second * STEADY_SHARE)
        return max(plan.check_seconds, len(plan.flows) * each) + LATENCY_SECONDS


class SampleProber:
    """Learns ports by samples, and checks those in use; it is used as ``PortProber`` is.

    Attributes:
        changes: ports in use that the last search has shown to lead elsewhere.
        in_use: the ports in use.
    """

    def __init__(
        self, task: ProbeTask, random: Random, probes: HopProbeSocket, known: SampledPorts, a_second: float
    ) -> None:
        """Store what is wanted, what is known, and how many packets may be sent in a second."""
        self._random, self._probes, self._known, self._a_second = random, probes, known, a_second
        self.in_use = PortsInUse(task)
        self.changes: list[PortChange] = []
        self._search: SampledSearch | None = None

    @property
    def is_searching(self) -> bool:
        """Whether a search is running."""
        return self._search is not None

    def begin(self, fresh_seconds: float) -> None:
        """Begin a search, in which packets count that were seen in the last so many seconds."""
        now = time.monotonic()
        self._search = SampledSearch(
            self.in_use.task, self._random, self._a_second, self._known.paths(), now - fresh_seconds, now
        )

    def step(self, seconds: float, *interrupts: int) -> bool:
        """Go on for some time, or until one of these files can be read; return whether it is at its end.

        Raises:
            HostAgentError: no route leads to a destination.
        """
        search = self._search
        assert search is not None
        end = time.monotonic() + seconds
        while not search.is_done and (now := time.monotonic()) < end:
            while (packet := search.next(now)) is not None:
                self._probes.send(packet)
            search.settle(now)
            if not search.is_done and select.select([*interrupts], [], [], min(search.wait(now), end - now))[0]:
                break
        return search.is_done

    def take(self, samples: SampleAnswer) -> None:
        """Take samples into account that are in what is known already."""
        if self._search is not None:
            self._search.look([(packet.dst, packet.port) for packet in samples.packets], samples.one_in)

    def so_far(self) -> list[PairPorts]:
        """Return what the search has learned, and take it into account for the ports in use."""
        assert self._search is not None
        self.changes = self.in_use.take(self._search.ports)
        return self._search.ports

    def end(self) -> list[PairPorts]:
        """End the search, and return what it has learned."""
        ports = self.so_far()
        self._search = None
        return ports


def part_of(task: ProbeTask, wanted: frozenset[Address]) -> ProbeTask:
    """Return the part of a task that is about these destinations."""
    return dataclasses.replace(task, pairs=tuple(pair for pair in task.pairs if pair.dst in wanted))
