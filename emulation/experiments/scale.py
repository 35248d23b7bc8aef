"""Scaling of a fabric's Gbit/s and a job's gigabytes to rates and sizes for one machine, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.plan import Plan
from controller.model.traffic import Traffic
from emulation.rates import MAX_MBPS
from emulation.roce.sender import SenderOptions
from emulation.roce.wire import FRAME_OVERHEAD

FASTEST_MBPS = 15.0
TOTAL_MBPS = 240.0
"""Two cores carry 16 hosts that all send 20 Mbit/s through leaf, spine and leaf, if they have nothing else to do; at 50
the switches run out of processor. Where packets pass more than these three switches, hosts may send less."""

ROUTERS_PART = 2 / 3
"""Part of these rates on Linux routers, where an agent on each host and carriers take processor time, too."""

SLOWEST_MBPS = 0.1
"""A packet takes a third of a second there; below it nothing that is measured means anything."""

MTU = SenderOptions().mtu
PACKET_BYTES = MTU + FRAME_OVERHEAD
"""Of a full packet on a link."""

EFFICIENCY = MTU / PACKET_BYTES
"""Fraction of a link's bytes that is payload. Plans and jobs count payload only."""


@dataclass(frozen=True)
class Scale:
    """The scale factors of an experiment.

    Attributes:
        mbps_per_gbps: Mbit/s of an emulated link for each Gbit/s in the fabric.
        bytes: emulated bytes for each byte of the job.
    """

    mbps_per_gbps: float
    bytes: float

    @property
    def rate(self) -> float:
        """Emulated bit/s for each bit/s of the fabric."""
        return self.mbps_per_gbps / 1e3

    @property
    def time(self) -> float:
        """Emulated seconds for each second of a plan: bytes over rates, and the headers that plans do not count."""
        return self.bytes / self.rate / EFFICIENCY


def scale_for(fabric: Fabric, ideal_seconds: float, *, seconds: float, link_mbps: float | None = None) -> Scale:
    """Return the scale at which a job of ``ideal_seconds`` on the fabric takes ``seconds`` in the emulation.

    Args:
        fabric: the fabric.
        ideal_seconds: duration on the fabric.
        seconds: duration in the emulation.
        link_mbps: rate of the fastest link; ``None``: ``FASTEST_MBPS``, or less if all hosts together would send more
            than ``TOTAL_MBPS``, or three fifths of it through the five switches of a path in three layers. On routers,
            ``ROUTERS_PART`` of that.

    Raises:
        InputError: a rate is not possible or not meaningful.
    """
    fastest = float(fabric.link_gbps.max())
    if link_mbps is None:
        everyone = float(fabric.link_gbps[: fabric.n_hosts].sum())
        switches = 2 * len(fabric.layers) - 1
        per_gbps = min(FASTEST_MBPS / fastest, TOTAL_MBPS * 3 / switches / everyone)
        per_gbps *= ROUTERS_PART if fabric.routers else 1.0
    elif SLOWEST_MBPS <= link_mbps <= MAX_MBPS:
        per_gbps = link_mbps / fastest
    else:
        raise InputError(f"{SLOWEST_MBPS:g} to {MAX_MBPS:g}", field="--link-mbps", value=link_mbps)
    slowest = float(fabric.link_gbps.min()) * per_gbps
    if slowest < SLOWEST_MBPS:
        raise InputError(
            f"the slowest link would have {slowest:.2g} Mbit/s; the fabric is too large or too uneven for one machine",
            field="--link-mbps" if link_mbps is not None else "--fabric",
        )
    return Scale(per_gbps, seconds * EFFICIENCY * per_gbps / 1e3 / ideal_seconds)


def longest_job(traffic: Traffic, plan: Plan, computing: Mapping[str, float]) -> float:
    """Return the seconds of the longest iteration of a job alone, with its seconds of computing.

    Its sending is the sum over its phases, each as long as its longest collective.
    """
    sending = phase_sums(traffic, plan.objective.ideal_seconds)
    return max(seconds + computing.get(job, 0.0) for job, seconds in sending.items())


def phase_sums(traffic: Traffic, collective_seconds: np.ndarray) -> dict[str, float]:
    """Seconds of each job with something on the network, from [K] seconds of its collectives (NaN: none)."""
    longest: dict[tuple[str, int], float] = {}
    for row, value in zip(traffic.collectives, collective_seconds.tolist(), strict=True):
        if value == value:
            key = (row.job, row.phase)
            longest[key] = max(longest.get(key, 0.0), value)
    sums: dict[str, float] = {}
    for (job, _), value in longest.items():
        sums[job] = sums.get(job, 0.0) + value
    return sums
