"""Hedera's annealing over the path of each destination host."""

from __future__ import annotations

import numba as nb
import numpy as np

from controller.model.tolerances import ROUNDING
from controller.routing.kernels.paths import met, path_links

COLD = 1000
"""The paper's scale of energy in its simulations: exp(c (E - E') / T) with c = 1000 T0, energy in link capacities."""


@nb.njit(nogil=True, cache=True)
def _lead(ways, src, dst, choices):
    """Return the path between two leaves that makes the first of these choices, as many as it needs.

    ``choices`` is the number of a path among those of the highest tier.
    """
    top = met(ways, src, dst)
    after = 1
    for tier in range(top + 1, len(ways.width)):
        after *= ways.width[tier]
    return ways.first[top] + choices // after


@nb.njit(nogil=True, cache=True)
def _live_links(ways, src, dst, path, links):
    """Write the links of a path to ``links``; return their number, 0 if one is not there."""
    n = path_links(ways, src, dst, path, links)
    for i in range(n):
        if links[i] < 0:
            return 0
    return n


@nb.njit(nogil=True, cache=True)
def _moved(host, new, ptr, units, src, dst, demand, ways, gbps, otherwise, path, load, links):
    """Send a host's units by choices ``new`` (or their other path if it is not live); return the change of energy."""
    change = 0.0
    for i in range(ptr[host], ptr[host + 1]):
        u = units[i]
        n = path_links(ways, src[u], dst[u], path[u], links)
        for j in range(n):
            change -= max(0.0, load[links[j]] - gbps[links[j]])
            load[links[j]] -= demand[u]
            change += max(0.0, load[links[j]] - gbps[links[j]])
        path[u] = _lead(ways, src[u], dst[u], new)
        n = _live_links(ways, src[u], dst[u], path[u], links)
        if not n:
            path[u] = otherwise[u]
            n = path_links(ways, src[u], dst[u], path[u], links)
        for j in range(n):
            change -= max(0.0, load[links[j]] - gbps[links[j]])
            load[links[j]] += demand[u]
            change += max(0.0, load[links[j]] - gbps[links[j]])
    return change


@nb.njit(nogil=True, cache=True)
def anneal(
    src,
    dst,
    receiver,
    host_leaf,
    demand,
    classes,
    ways,
    gbps,
    otherwise,
    rounds,
    seed,
):
    """Return the path [U] of each unit in the best state found.

    Args:
        src: [U] source leaf of each unit.
        dst: [U] destination leaf of each unit.
        receiver: [U] destination host of each unit.
        host_leaf: [H] leaf of each host.
        demand: [U] Gbit/s.
        classes: the choices of a path to choose from, as numbers among the paths of the highest tier.
        ways: the live ways.
        gbps: [E] capacity of each link.
        otherwise: [U] path of a unit for which its host's is not live.
        rounds: the number of steps.
        seed: the seed of the generator.
    """
    links = np.empty(2 * len(ways.width), np.int64)
    np.random.seed(seed)
    n_hosts = len(host_leaf)
    units = np.argsort(receiver, kind="mergesort")
    ptr = np.searchsorted(receiver[units], np.arange(n_hosts + 1))
    members = np.argsort(host_leaf, kind="mergesort")
    first = np.searchsorted(host_leaf[members], host_leaf)
    last = np.searchsorted(host_leaf[members], host_leaf, side="right")
    active = np.flatnonzero(ptr[1:] > ptr[:-1])
    path = otherwise.copy()
    load = np.zeros(len(gbps))
    for u in range(len(path)):
        n = path_links(ways, src[u], dst[u], path[u], links)
        for i in range(n):
            load[links[i]] += demand[u]
    state = np.empty(n_hosts, np.int64)
    for host in range(n_hosts):
        state[host] = classes[host % len(classes)]
        _moved(host, state[host], ptr, units, src, dst, demand, ways, gbps, otherwise, path, load, links)
    energy = 0.0
    for e in range(len(gbps)):
        energy += max(0.0, load[e] - gbps[e])
    best, best_energy, hot = path.copy(), energy, gbps.max() / COLD
    for step in range(rounds):
        if best_energy <= 0.0:
            break
        one = active[np.random.randint(len(active))]
        other = members[first[one] + np.random.randint(last[one] - first[one])]
        old, new = state[one], state[other]
        alone = other == one or old == new
        if alone:
            new = classes[np.random.randint(len(classes))]
        change = _moved(one, new, ptr, units, src, dst, demand, ways, gbps, otherwise, path, load, links)
        if not alone:
            change += _moved(other, old, ptr, units, src, dst, demand, ways, gbps, otherwise, path, load, links)
        temperature = hot * (1.0 - step / rounds)
        if change > 0.0 and (temperature <= 0.0 or np.random.random() >= np.exp(-change / temperature)):
            _moved(one, old, ptr, units, src, dst, demand, ways, gbps, otherwise, path, load, links)
            if not alone:
                _moved(other, new, ptr, units, src, dst, demand, ways, gbps, otherwise, path, load, links)
            continue
        state[one] = new
        if not alone:
            state[other] = old
        energy += change
        if energy < best_energy * (1.0 - ROUNDING):
            best_energy = energy
            best[:] = path
    return best
