"""What links and flows have carried between two readings of the switches' counters.

What a flow has sent is known from its own rule's counter, where it has one; else from host links: where all flows of a
host but one are known, the rest of what the host sent (or received) is that one's, again and again until nothing more
follows. What is left is estimated: flows of one host share what it sent in proportion to their bytes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.telemetry.counts import SwitchCount
from controller.telemetry.trace import Situation

SLACK = 0.03
"""Counters of one moment disagree by so much of what they count: packets are on their way, others (ARP) mix in."""


@dataclass(frozen=True)
class Between:
    """What links have carried between two readings.

    Attributes:
        bytes: [E] that left by each directed link; NaN: not known, or counters have begun anew.
        seconds: [E] between the two; NaN where bytes are.
    """

    bytes: FloatArray
    seconds: FloatArray


@dataclass(frozen=True)
class Sent:
    """Between two readings.

    Attributes:
        link: [E] bytes that left by each link, NaN where that is not known.
        row: [R] bytes of each row of the wire.
        estimated: [R] whether that is a guess.
        lost_in_spine: [S] bytes that were sent to each spine and that it has not sent on; infinite where not known.
    """

    link: FloatArray
    row: FloatArray
    estimated: IntArray
    lost_in_spine: FloatArray


def between(fabric: Fabric, before: Mapping[int, SwitchCount], now: Mapping[int, SwitchCount]) -> Between:
    """What links have carried between two readings.

    Of the two ends of a cable the sender's counter is taken, or the receiver's where the sender is not read.
    """
    found = np.full((2, fabric.n_links), np.nan)
    dpid = {switch.name: switch.dpid for switch in (*fabric.leaves, *fabric.spines)}

    def counted(switch: str, port: int | None, *, sent: bool) -> tuple[float, float]:
        old, new = before.get(dpid[switch]), now.get(dpid[switch])
        if old is None or new is None or port is None or port not in old.ports or port not in new.ports:
            return math.nan, math.nan
        one, other = old.ports[port], new.ports[port]
        many = other.tx_bytes - one.tx_bytes if sent else other.rx_bytes - one.rx_bytes
        return (float(many), new.at - old.at) if many >= 0 and new.at > old.at else (math.nan, math.nan)

    for h, host in enumerate(fabric.hosts):
        found[:, h] = counted(host.leaf, host.port, sent=False)
        found[:, fabric.n_hosts + h] = counted(host.leaf, host.port, sent=True)
    for c, cable in enumerate(fabric.cables):
        ends = ((cable.leaf, cable.leaf_port), (cable.spine, cable.spine_port))
        for link, (sender, receiver) in enumerate((ends, ends[::-1]), fabric.first_cable_link + 2 * c):
            many = counted(*sender, sent=True)
            found[:, link] = counted(*receiver, sent=False) if math.isnan(many[0]) else many
    return Between(found[0], found[1])


def sent(situation: Situation, link: FloatArray, own: FloatArray) -> Sent:
    """What each row has sent.

    Args:
        link: [E] bytes that left by each link (``between``).
        own: [R] bytes that a rule of the row's own has counted meanwhile, NaN where it has none.
    """
    traffic, wire, n_hosts = situation.traffic, situation.wire, situation.fabric.n_hosts
    row = own.copy()
    ends = (traffic.src[wire.flow], n_hosts + traffic.dst[wire.flow])
    rest = {int(end): float(link[end]) for column in ends for end in np.unique(column)}
    open_: dict[int, set[int]] = defaultdict(set)
    for r, (src, dst) in enumerate(zip(*(column.tolist() for column in ends), strict=True)):
        for end in (src, dst):
            if math.isnan(row[r]):
                open_[end].add(r)
            else:
                rest[end] -= row[r]
    went, came = float(link[:n_hosts].sum()), float(link[n_hosts : 2 * n_hosts].sum())
    loses = not came >= went * (1 - SLACK)
    estimated = np.zeros(len(row), dtype=np.int32)
    # What hosts have sent is looked at first: it is right also where packets are lost.
    for ready in ([end for end in open_ if end < n_hosts], list(open_)):
        receivers = len(ready) == len(open_)
        while ready:
            end = ready.pop()
            if len(open_[end]) != 1 or math.isnan(rest[end]):
                continue
            (r,) = open_[end]
            row[r], estimated[r] = max(rest[end], 0.0), receivers and loses
            for other in (int(ends[0][r]), int(ends[1][r])):
                open_[other].discard(r)
                rest[other] -= row[r]
                if receivers or other < n_hosts:
                    ready.append(other)
    left = np.flatnonzero(np.isnan(row))
    weight = traffic.bytes[wire.flow[left]] * wire.share[left]
    total = np.bincount(ends[0][left], weights=weight, minlength=n_hosts)
    of_host = np.array([max(rest.get(h, math.nan), 0.0) for h in range(n_hosts)])
    row[left] = of_host[ends[0][left]] * weight / total[ends[0][left]]
    estimated[left] = 1
    return Sent(link, row, estimated, _lost_in_spines(situation.fabric, link))


def _lost_in_spines(fabric: Fabric, link: FloatArray) -> FloatArray:
    up, down = link[fabric.first_cable_link :: 2], link[fabric.first_cable_link + 1 :: 2]
    # What is not known of a cable that is down is nothing.
    alive = np.array([cable.up for cable in fabric.cables], dtype=np.bool_)
    lost = np.where(alive | ~np.isnan(up - down), up - down, 0.0)
    each = np.bincount(fabric.cable_spine, weights=lost, minlength=fabric.n_spines)
    found: FloatArray = np.where(np.isnan(each), np.inf, np.maximum(each, 0.0))
    return found
