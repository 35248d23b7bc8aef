"""Max-min fair rates of flows, computed anew only where flows begin and end (compiled).

A change of one flow's rate reaches another only over links that their flows can fill. So rates are computed for the
flows that are connected with a change by such links, and all others keep theirs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from controller.model.tolerances import ROUNDING
from controller.routing.kernels.without_runtime import without_runtime


class FlowLinks(NamedTuple):
    """R flows and E links that can be full (arrays, because compiled code reads them).

    Attributes:
        most: [R] highest rate of each flow in Gbit/s.
        weight: [R] rates of flows that share a full link are in these proportions.
        flow_ptr: [R+1] first entry of each flow.
        flow_link: [N] link of each entry.
        link_ptr: [E+1] first entry of each link.
        link_flow: [N] flow of each entry.
        capacity: [E] Gbit/s.
    """

    most: Any
    weight: Any
    flow_ptr: Any
    flow_link: Any
    link_ptr: Any
    link_flow: Any
    capacity: Any


class FlowRates(NamedTuple):
    """The flows that are sent, their rates, and scratch.

    Attributes:
        sends: [R] whether each flow is sent.
        rate: [R] its rate in Gbit/s.
        end: [R] when it ends at this rate, in seconds.
        wanted: [E] sum of the highest rates of the flows that are sent.
        changed: [R] flows that began or ended; a flow may occur twice.
        flows: [R] the flows whose rates are computed.
        links: [E] the links that may limit them.
        reached: [R] whether each flow is one of ``flows``.
        limits: [E] whether each link is one of ``links``.
        level: [R] the rate by weight that a flow's links allow at present.
        room: [E] Gbit/s that flows with known rates leave.
        slope: [E] sum of the weights of the others.
        rising: [E] their number.
        fair: [E] room by slope.
        lowest: [E] the lowest level of a flow on the link.
    """

    sends: Any
    rate: Any
    end: Any
    wanted: Any
    changed: Any
    flows: Any
    links: Any
    reached: Any
    limits: Any
    level: Any
    room: Any
    slope: Any
    rising: Any
    fair: Any
    lowest: Any


@nb.njit(nogil=True, cache=True)
def no_rates(n_flows, n_links):
    """Return the state in which no flow is sent."""
    return FlowRates(
        np.zeros(n_flows, np.bool_),
        np.zeros(n_flows),
        np.full(n_flows, np.inf),
        np.zeros(n_links),
        np.zeros(2 * n_flows, np.int64),
        np.zeros(n_flows, np.int64),
        np.zeros(n_links, np.int64),
        np.zeros(n_flows, np.bool_),
        np.zeros(n_links, np.bool_),
        np.zeros(n_flows),
        np.zeros(n_links),
        np.zeros(n_links),
        np.zeros(n_links, np.int64),
        np.zeros(n_links),
        np.zeros(n_links),
    )


@without_runtime
def begin(links, rates, flow, gbit, now):
    """Let a flow be sent; its rate is unknown until ``share``."""
    rates.sends[flow] = True
    rates.rate[flow], rates.end[flow] = links.most[flow], now + gbit / links.most[flow]
    for i in range(links.flow_ptr[flow], links.flow_ptr[flow + 1]):
        rates.wanted[links.flow_link[i]] += links.most[flow]


@without_runtime
def finish(links, rates, flow):
    """Let a flow be sent no longer."""
    rates.sends[flow] = False
    rates.rate[flow], rates.end[flow] = 0.0, np.inf
    for i in range(links.flow_ptr[flow], links.flow_ptr[flow + 1]):
        rates.wanted[links.flow_link[i]] -= links.most[flow]


@without_runtime
def left(rates, flow, now):
    """Return the Gbit that a flow has not sent."""
    return max(0.0, rates.end[flow] - now) * rates.rate[flow] if rates.sends[flow] else 0.0


@without_runtime
def share(links, rates, n_changed, now):
    """Compute the max-min fair rates after the first ``n_changed`` of ``changed`` began or ended.

    Raise the rates of all flows together. A link limits its flows as soon as none of them is limited by another link
    at a lower level: that order gives the same rates as the order of levels (Bertsekas and Gallager, Data Networks,
    6.5.2), in fewer rounds.

    Returns:
        the number of flows and entries examined.
    """
    n_flows, n_links = _reach(links, rates, n_changed)
    for i in range(n_links):
        e = rates.links[i]
        rates.room[e], rates.slope[e], rates.rising[e] = links.capacity[e], 0.0, 0
    for i in range(n_flows):
        r = rates.flows[i]
        for k in range(links.flow_ptr[r], links.flow_ptr[r + 1]):
            rates.slope[links.flow_link[k]] += links.weight[r]
            rates.rising[links.flow_link[k]] += 1
    examined, left = n_flows + n_links, n_flows
    while left > 0:
        examined += _raise(links, rates, left, n_links)
        known, i = left, 0
        while i < left:
            r = rates.flows[i]
            if _limited(links, rates, r):
                left -= 1
                rates.flows[i], rates.flows[left] = rates.flows[left], r
            else:
                i += 1
        for i in range(left, known):
            _settle(links, rates, rates.flows[i], now)
    for i in range(n_flows):
        rates.reached[rates.flows[i]] = False
    for i in range(n_links):
        rates.limits[rates.links[i]] = False
    return examined


@without_runtime
def _raise(links, rates, left, n_links):
    """Compute ``fair``, ``level`` and ``lowest`` for the first ``left`` flows; return what was examined."""
    for i in range(n_links):
        e = rates.links[i]
        rates.lowest[e] = np.inf
        rates.fair[e] = rates.room[e] / rates.slope[e] if rates.rising[e] > 0 else np.inf
    examined = n_links
    for i in range(left):
        r = rates.flows[i]
        begin, end = links.flow_ptr[r], links.flow_ptr[r + 1]
        level = links.most[r] / links.weight[r]
        for k in range(begin, end):
            if rates.limits[links.flow_link[k]]:
                level = min(level, rates.fair[links.flow_link[k]])
        rates.level[r] = level
        for k in range(begin, end):
            rates.lowest[links.flow_link[k]] = min(rates.lowest[links.flow_link[k]], level)
        examined += end - begin + 1
    return examined


@without_runtime
def _reach(links, rates, n_changed):
    """Find the flows and links that a change reaches; return their numbers."""
    n_flows, n_links, looked = 0, 0, 0
    for i in range(n_changed):
        r = rates.changed[i]
        if rates.sends[r] and not rates.reached[r]:
            rates.reached[r], rates.flows[n_flows] = True, r
            n_flows += 1
        for k in range(links.flow_ptr[r], links.flow_ptr[r + 1]):
            # Also if it cannot be full any more: its flows are to become faster.
            if not rates.limits[links.flow_link[k]]:
                rates.limits[links.flow_link[k]], rates.links[n_links] = True, links.flow_link[k]
                n_links += 1
    while looked < n_links:
        link = rates.links[looked]
        looked += 1
        for i in range(links.link_ptr[link], links.link_ptr[link + 1]):
            r = links.link_flow[i]
            if not rates.sends[r] or rates.reached[r]:
                continue
            rates.reached[r], rates.flows[n_flows] = True, r
            n_flows += 1
            for k in range(links.flow_ptr[r], links.flow_ptr[r + 1]):
                e = links.flow_link[k]
                if not rates.limits[e] and rates.wanted[e] > links.capacity[e] * (1.0 + ROUNDING):
                    rates.limits[e], rates.links[n_links] = True, e
                    n_links += 1
    return n_flows, n_links


@without_runtime
def _limited(links, rates, flow):
    """Return whether the present level of a flow is its final one."""
    level = rates.level[flow]
    limited = links.most[flow] <= level * links.weight[flow] * (1.0 + ROUNDING)
    for k in range(links.flow_ptr[flow], links.flow_ptr[flow + 1]):
        e = links.flow_link[k]
        if rates.limits[e]:
            fair = rates.fair[e]
            limited |= fair <= level * (1.0 + ROUNDING) and fair <= rates.lowest[e] * (1.0 + ROUNDING)
    return limited


@without_runtime
def _settle(links, rates, flow, now):
    """Give a flow its rate."""
    rate = rates.level[flow] * links.weight[flow]
    rates.end[flow] = now + (rates.end[flow] - now) * rates.rate[flow] / rate
    rates.rate[flow] = rate
    for k in range(links.flow_ptr[flow], links.flow_ptr[flow + 1]):
        e = links.flow_link[k]
        rates.room[e] -= rate
        rates.slope[e] -= links.weight[flow]
        rates.rising[e] -= 1
