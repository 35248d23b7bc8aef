"""Bytes that links and flows have carried between two readings of the switches' counters.

The bytes that a flow has sent are taken from the counter of its own rule, if it has one; else from host links: if all
flows of a host but one are known, the rest of the host's sent (or received) bytes belongs to that one. This is repeated
until nothing more follows. The remaining flows are estimated: the flows of a host share its sent bytes in proportion to
their sizes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.switch_key import SwitchKey
from controller.telemetry.counters import SwitchCounters
from controller.telemetry.trace import TraceInputs

SLACK = 0.03
"""Relative tolerance between counters of one moment, for packets in flight and other traffic such as ARP."""


@dataclass(frozen=True)
class Between:
    """Bytes that links have carried between two readings.

    Attributes:
        bytes: [E] bytes sent on each directed link; NaN if not known, or if counters have restarted.
        seconds: [E] time between the two readings; NaN where ``bytes`` is.
    """

    bytes: FloatArray
    seconds: FloatArray


@dataclass(frozen=True)
class Sent:
    """Bytes that links and flows have sent between two readings.

    Attributes:
        link: [E] bytes sent on each link; NaN if not known.
        row: [R] bytes of each row of the encoding.
        estimated: [R] whether the bytes of the row are an estimate.
        lost: [N] bytes that each switch of the fabric received and did not forward; infinite if not known, 0 for
            leaves.
    """

    link: FloatArray
    row: FloatArray
    estimated: IntArray
    lost: FloatArray


def between(
    fabric: Fabric, before: Mapping[SwitchKey, SwitchCounters], now: Mapping[SwitchKey, SwitchCounters]
) -> Between:
    """Return the bytes that links have carried between two readings.

    For a cable, the sender's counter is used, or the receiver's if the sender was not read.
    """
    counts = np.full((2, fabric.n_links), np.nan)
    key = {switch.name: switch.key for switch in fabric.switches}

    def counted(switch: str, port: int | None, *, sent: bool) -> tuple[float, float]:
        old, new = before.get(key[switch]), now.get(key[switch])
        if old is None or new is None or port is None or port not in old.ports or port not in new.ports:
            return math.nan, math.nan
        one, other = old.ports[port], new.ports[port]
        many = other.tx_bytes - one.tx_bytes if sent else other.rx_bytes - one.rx_bytes
        return (float(many), new.at - old.at) if many >= 0 and new.at > old.at else (math.nan, math.nan)

    for h, host in enumerate(fabric.hosts):
        counts[:, h] = counted(host.leaf, host.port, sent=False)
        counts[:, fabric.n_hosts + h] = counted(host.leaf, host.port, sent=True)
    for c, cable in enumerate(fabric.cables):
        ends = ((cable.lower, cable.lower_port), (cable.upper, cable.upper_port))
        for link, (sender, receiver) in enumerate((ends, ends[::-1]), fabric.first_cable_link + 2 * c):
            many = counted(*sender, sent=True)
            counts[:, link] = counted(*receiver, sent=False) if math.isnan(many[0]) else many
    return Between(counts[0], counts[1])


def sent(situation: TraceInputs, link: FloatArray, own: FloatArray) -> Sent:
    """Return the bytes that each row of the encoding has sent.

    Args:
        situation: the desired state.
        link: [E] bytes sent on each link (``between``).
        own: [R] bytes counted in the same time by a rule of this row alone; NaN without such a rule.
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
    # Sent bytes of hosts come first: they are exact even where packets are lost.
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
    return Sent(link, row, estimated, _lost_above_leaves(situation.fabric, link))


def _lost_above_leaves(fabric: Fabric, link: FloatArray) -> FloatArray:
    up, down = link[fabric.first_cable_link :: 2], link[fabric.first_cable_link + 1 :: 2]
    # Unknown counters of a cable that is down count as 0.
    alive = np.array([cable.up for cable in fabric.cables], dtype=np.bool_)
    lost = np.where(alive | ~np.isnan(up - down), up - down, 0.0)
    number = {switch.name: n for n, switch in enumerate(fabric.switches)}
    each = np.zeros(len(number))
    np.add.at(each, [number[cable.upper] for cable in fabric.cables], lost)
    np.add.at(each, [number[cable.lower] for cable in fabric.cables], -lost)
    each[: fabric.n_leaves] = 0.0
    lost_bytes: FloatArray = np.where(np.isnan(each), np.inf, np.maximum(each, 0.0))
    return lost_bytes
