"""Hedera's annealing over the path class of each destination host."""

from __future__ import annotations

import numba as nb
import numpy as np

from controller.model.tolerances import ROUNDING

COLD = 1000
"""The paper's scale of energy in its simulations: exp(c (E - E') / T) with c = 1000 T0, energy in link capacities."""


@nb.njit(nogil=True, cache=True)
def _moved(host, new, ptr, units, src, dst, demand, tier, gbps, otherwise, path, load):
    """Send a host's units over class ``new`` (or their other path if it is not live); return the change of energy."""
    live_up, live_down = tier.up, tier.down
    change = 0.0
    for i in range(ptr[host], ptr[host + 1]):
        u = units[i]
        k = new if live_up[src[u], new] >= 0 and live_down[dst[u], new] >= 0 else otherwise[u]
        for adding in range(2):
            at = path[u] if adding == 0 else k
            amount = -demand[u] if adding == 0 else demand[u]
            for link in (live_up[src[u], at], live_down[dst[u], at]):
                change -= max(0.0, load[link] - gbps[link])
                load[link] += amount
                change += max(0.0, load[link] - gbps[link])
        path[u] = k
    return change


@nb.njit(nogil=True, cache=True)
def anneal(
    src, dst, receiver, host_leaf, demand, classes, tier, gbps, otherwise, rounds, seed,
):  # fmt: skip
    """Return the path class [U] of each unit in the best state found.

    Args:
        src: [U] source leaf of each unit.
        dst: [U] destination leaf of each unit.
        receiver: [U] destination host of each unit.
        host_leaf: [H] leaf of each host.
        demand: [U] Gbit/s.
        classes: the path classes to choose from.
        tier: the live links of the units' choices.
        gbps: [E] capacity of each link.
        otherwise: [U] class of a unit for which its host's class is not live.
        rounds: the number of steps.
        seed: the seed of the generator.
    """
    live_up, live_down = tier.up, tier.down
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
        load[live_up[src[u], path[u]]] += demand[u]
        load[live_down[dst[u], path[u]]] += demand[u]
    state = np.empty(n_hosts, np.int64)
    for host in range(n_hosts):
        state[host] = classes[host % len(classes)]
        _moved(host, state[host], ptr, units, src, dst, demand, tier, gbps, otherwise, path, load)
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
        change = _moved(one, new, ptr, units, src, dst, demand, tier, gbps, otherwise, path, load)
        if not alone:
            change += _moved(other, old, ptr, units, src, dst, demand, tier, gbps, otherwise, path, load)
        temperature = hot * (1.0 - step / rounds)
        if change > 0.0 and (temperature <= 0.0 or np.random.random() >= np.exp(-change / temperature)):
            _moved(one, old, ptr, units, src, dst, demand, tier, gbps, otherwise, path, load)
            if not alone:
                _moved(other, new, ptr, units, src, dst, demand, tier, gbps, otherwise, path, load)
            continue
        state[one] = new
        if not alone:
            state[other] = old
        energy += change
        if energy < best_energy * (1.0 - ROUNDING):
            best_energy = energy
            best[:] = path
    return best
