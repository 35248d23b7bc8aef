"""Hedera's loop: once in a period, the flows that send much are placed anew, by their estimated demands.

Al-Fares et al., "Hedera: Dynamic Flow Scheduling for Data Center Networks" (NSDI 2010): edge switches hash new flows;
the scheduler polls their counters every 5 s, takes a flow that sends at a tenth of its host's rate or more as large,
estimates the natural demands of the large flows, and places them by Global First Fit or Simulated Annealing.

No job is pushed. The loop is a client of the controller, as any scheduler beside it would be: it pushes the large
flows as one job, and the controller, which runs with Hedera's placement as its policy, estimates, places and installs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from emulation.experiments.learned.learned_truth import Edge
from emulation.experiments.loop_thread import LoopThread

LARGE = 0.1
"""Part of the rate of its sender from which a flow is large (Hedera, section 2.2)."""

JOB = "hedera"
"""Name of the job that the loop pushes."""

_FLOW_BYTES = 10**9
"""Of each flow of the job. Estimated demands do not depend on it."""


class LargeFlows:
    """Tells large flows by two readings of their counters."""

    def __init__(self, bytes_per_second: Mapping[str, float]) -> None:
        """Begin without a reading.

        Args:
            bytes_per_second: rate of each host's link.
        """
        self._least = {host: LARGE * rate for host, rate in bytes_per_second.items()}
        self._last: Mapping[Edge, int] = {}
        self._at: float | None = None

    def step(self, at: float, sent: Mapping[Edge, int]) -> tuple[Edge, ...]:
        """Take a reading; return the flows that were large since the one before, in order; none at the first.

        Args:
            at: seconds on any clock, later than the reading before.
            sent: bytes of each flow since its counter was made. One that is lower than before was made anew.
        """
        before, last, self._last, self._at = self._at, self._last, dict(sent), at
        if before is None:
            return ()
        rises = {flow: size - last.get(flow, 0) if size >= last.get(flow, 0) else size for flow, size in sent.items()}
        return tuple(sorted(flow for flow, rise in rises.items() if rise >= self._least[flow[0]] * (at - before) > 0))


def large_flows_job(flows: Sequence[Edge]) -> dict[str, Any]:
    """Return the job of some large flows, for ``PUT /v1/jobs/NAME``."""
    rows = [
        {"src": src, "dst": dst, "udp_src": port, "bytes": _FLOW_BYTES, "collective": "large"}
        for src, dst, port in flows
    ]
    return {"name": JOB, "flows": rows}


@dataclass(frozen=True)
class Placement:
    """One placement of large flows.

    Attributes:
        seconds: since the loop began, when every switch had confirmed it.
        took: seconds from the reading of the counters until then.
        flows: the large flows.
        plan: the controller's plan.
        links: links between switches of each flow that leaves its leaf.
        off_plan: the flows whose packets leave by another uplink than planned, in words.
    """

    seconds: float
    took: float
    flows: tuple[Edge, ...]
    plan: Mapping[str, Any]
    links: Mapping[Edge, tuple[str, ...]]
    off_plan: tuple[str, ...]


def largest(placements: Sequence[Placement]) -> Placement:
    """Return the placement of most flows, the first of them: later ones are often of the flows that end last."""
    return max(placements, key=lambda placement: len(placement.flows))


class Placer(Protocol):
    """What places large flows on a network."""

    def place(self, flows: Sequence[Edge]) -> Mapping[str, Any]:
        """Push the flows and wait until every switch has confirmed the plan; return it."""
        ...

    def check(self, flows: Sequence[Edge]) -> tuple[Mapping[Edge, tuple[str, ...]], tuple[str, ...]]:
        """Return the planned links of the flows, and which of them do not follow (``Placement``)."""
        ...


class HederaLoop(LoopThread):
    """A thread that places the large flows of each period, until ``with`` ends.

    Flows that are no longer large lose their paths at the next placement, and are hashed again. If none is large,
    nothing changes. Nor does it if the large flows are the same as before: they would get the same paths.

    Attributes:
        placements: so far.
        looks: number of readings so far.
    """

    def __init__(
        self, read: Callable[[], Mapping[Edge, int]], large: LargeFlows, placer: Placer, period: float
    ) -> None:
        """Prepare it.

        Args:
            read: reads the counters of all flows.
            large: finds large ones.
            placer: places these.
            period: seconds between two readings.
        """
        super().__init__("hedera")
        self.placements: list[Placement] = []
        self.looks = 0
        self._read, self._large, self._placer, self._period = read, large, placer, period
        self._placed: tuple[Edge, ...] = ()

    def _run(self) -> None:
        begun = time.monotonic()
        due = begun
        while True:
            self._look(begun)
            # Looks that were missed, while a placement took long, are left out.
            due = max(due + self._period, time.monotonic())
            if self._ended.wait(due - time.monotonic()):
                return

    def _look(self, begun: float) -> None:
        at = time.monotonic()
        sent = self._read()
        flows = self._large.step(time.monotonic(), sent)
        self.looks += 1
        if not flows or flows == self._placed:
            return
        plan = self._placer.place(flows)
        now = time.monotonic()
        self._placed = flows
        self.placements.append(Placement(now - begun, now - at, flows, plan, *self._placer.check(flows)))
