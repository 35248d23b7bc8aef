"""Times that no circuits and no routes can undercut, and that of the ideal switch."""

from __future__ import annotations

import numpy as np

from controller.circuits.demand import ShardDemand
from controller.model.fabric import FloatArray
from controller.model.units import GBIT


def ideal_seconds(demand: ShardDemand, nics: int, gbps: float) -> float:
    """Return the time on one switch without bottlenecks, to which each server has all its NICs."""
    out, into = demand.sent
    return float(np.maximum(out.max(axis=1), into.max(axis=1)).sum()) / nics * GBIT / gbps


def bound_seconds(demand: ShardDemand, nics: int, gbps: float, *, duplex: bool) -> float:
    """Return a lower bound of the time of any circuits and any routes, also split ones.

    A byte of a ring crosses one circuit at least. Of the servers, at most d^k are k hops away from one (with duplex
    circuits d (d - 1)^(k-1): E. F. Moore's bound), so messages cross at least as many circuits as if the largest ones
    went to the nearest places; the same counts for what a server receives. n d circuits carry all this.
    """
    total = 0.0
    for slot in range(len(demand.messages)):
        part = demand.slot(slot)
        crossed = sum(group.total_bytes for group in part.groups) + least_hop_bytes(
            part.messages[0], nics, duplex=duplex
        )
        by_circuits = crossed / (part.n * nics) * GBIT / gbps
        total += max(by_circuits, ideal_seconds(part, nics, gbps))
    return total


def least_hop_bytes(messages: FloatArray, nics: int, *, duplex: bool) -> float:
    """Return the least sum of bytes times hops of messages [n, n] that any circuits have."""
    n = len(messages)
    hops, places, at = np.empty(n - 1), nics, 0
    for hop in range(1, n):
        hops[at : at + places] = hop
        at += places
        if at >= n - 1:
            break
        # With one NIC, or two duplex ones, as many servers are one hop farther.
        places = max(1, places * (nics - 1 if duplex else nics))
    return max(_nearest(messages, hops), _nearest(messages.T, hops))


def _nearest(messages: FloatArray, hops: FloatArray) -> float:
    n = len(messages)
    others = messages[~np.eye(n, dtype=np.bool_)].reshape(n, n - 1)
    largest_first = np.sort(others, axis=1)[:, ::-1]
    return float((largest_first * hops).sum())
