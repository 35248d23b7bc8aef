"""The reports of the agent to the controller, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from ipaddress import IPv6Address
from statistics import median
from typing import Any

from agent.linux.kernel import Counts
from agent.linux.kernel_state import in_use
from agent.linux.nic_counters import NicCounts
from agent.linux.pacer import Pacing
from agent.path_health import Death
from agent.plans.flow_keys import described
from agent.plans.host_plan import HostPlan

NOTHING = Counts(0, 0)
LONGEST_REASON = 500
NO_BYPASSES: Mapping[IPv6Address, bool] = {}


class FlowTotals:
    """What was sent of each flow since the agent's kernel state began, whatever elements of maps were replaced."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._before: dict[bytes, Counts] = {}
        self._last: dict[bytes, Counts] = {}

    def update(self, counts: Mapping[bytes, Counts]) -> dict[bytes, Counts]:
        """Take what the kernel counts into account, and return the totals of those flows that have sent since."""
        changed = {}
        for key, count in counts.items():
            last, before = self._last.get(key, NOTHING), self._before.get(key, NOTHING)
            if count.packets < last.packets:
                # The element is a new one, and counts from zero.
                before = self._before[key] = Counts(before.packets + last.packets, before.bytes + last.bytes)
                last = NOTHING
            if count.packets > last.packets:
                changed[key] = Counts(before.packets + count.packets, before.bytes + count.bytes)
        self._last = dict(counts)
        self._before = {key: value for key, value in self._before.items() if key in counts}
        return changed


def report(
    held: tuple[int, str] | None,
    plan: HostPlan,
    dead: Mapping[IPv6Address, Death],
    sent: Mapping[bytes, Counts],
    round_trips: Mapping[IPv6Address, tuple[list[float], int]],
    live: Callable[[IPv6Address], bool],
    now: float,
    counters: NicCounts | None = None,
    pacing: Pacing | None = None,
    bypasses: Mapping[IPv6Address, bool] = NO_BYPASSES,
) -> dict[str, Any]:
    """Return a report.

    Args:
        held: epoch and digest of the plan that the kernel holds; it was read back.
        plan: the newest plan.
        dead: the dead paths.
        sent: totals of flows.
        round_trips: times and the number of lost probes, by carrier.
        live: whether a path is live.
        now: the time, on the clock of the deaths.
        counters: of the NIC; ``None``: not read yet.
        pacing: of the flows; ``None``: not known yet.
        bypasses: whether each bypass probe comes back.
    """
    epoch, digest = held or (None, None)
    document: dict[str, Any] = {
        "epoch": epoch,
        # A plan in a file has none.
        "digest": digest or None,
        "dead": [
            {
                "carrier": str(carrier),
                "since": round(now - death.since, 3),
                "evidence": death.evidence,
                "at": death.at,
            }
            for carrier, death in dead.items()
        ],
        "flows": [
            {
                **described(key),
                "packets": count.packets,
                "bytes": count.bytes,
                "carrier": str(in_use(plan.flows[key], live)),
            }
            for key, count in sent.items()
            if key in plan.flows
        ],
        "round_trips": [
            {"carrier": str(carrier), "median_us": round(1e6 * median(times)) if times else None, "lost": lost}
            for carrier, (times, lost) in round_trips.items()
            if times or lost
        ],
        "counters": counters,
        "pacing": None if pacing is None else {**asdict(pacing), "reason": _printable(pacing.reason)},
    }
    if bypasses:
        # A controller that gives no such probes does not know the member.
        document["bypasses"] = [{"probe": str(probe), "came_back": back} for probe, back in bypasses.items()]
    return document


def _printable(text: str) -> str:
    """Return a text as the controller takes it: names of interfaces may have any characters."""
    return ascii(text)[1:-1][:LONGEST_REASON] if not (text.isascii() and text.isprintable()) else text[:LONGEST_REASON]
