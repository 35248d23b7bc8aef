"""A spread of demands over their paths by prices of links that fits into a given time, for one or two tiers of cables.

Each link has a price p >= 0, and a demand goes by each of its paths in proportion to exp(-sum of the prices on it).
Prices rise where a link is busy for longer than the time, and fall where it is not. These are steps along the gradient
of the dual of: of all spreads that fit, find the one of the greatest entropy. From the last steps follows where they
lead if they change in proportion to the prices (Anderson, J. ACM 12(4), 1965; Walker and Ni, SIAM J. Numer. Anal.
49(4), 2011). Where that comes no closer, mostly because nothing fits, the accelerated gradient method begins anew
(Nesterov 1983; Beck and Teboulle, SIAM J. Imaging Sciences 2(1), 2009), with restarts (O'Donoghue and Candes, Found.
Comput. Math. 15, 2015). It takes two to three times as many rounds, but its prices then prove a longer time.

Links of alike choices are one link of their total capacity. Its factor is that of one of them, times the root of
their number: uplink and downlink together then count each of these paths.

A path's factor is a product over its links, so paths need not be listed: what two groups of leaves (pods) exchange by
one first choice is one sum over the choices above for all their leaves. The effort of a round is (pairs of leaves) x
(first choices) + (pairs of groups) x (first choices) x (choices above).
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from controller.model.tolerances import ROUNDING

STEP = 0.5
"""Change of a price by a link that is busy for twice the time. Twice as large steps diverge."""

KEPT = 12
"""Steps from which the next prices follow. More of them take fewer rounds, of which each takes longer."""

CHECKED, SMALLER = 20, 0.25
"""Each ``CHECKED`` rounds of such steps must leave at most this part of the excess. Where a spread fits, they leave a
tenth or less."""

GROWTH = 4.0
"""If the squares of a step add up to this many times those of the one before, former steps are forgotten."""

TINY = float(np.finfo(np.float64).tiny)
"""What keeps linear equations solvable where nothing changes any more."""

LARGEST = 100.0
"""Prices stay below, and above the negative of it, so that the factors of a path neither vanish nor overflow."""


@nb.njit(nogil=True, cache=True, fastmath=True)
def _sums_above(pairs, switch_up, switch_down, factor_up, factor_down, total):
    """Write the sum over the choices above, for each pair of groups [P] and first choice; 0: no such path."""
    for p in range(len(pairs)):
        for j in range(switch_up.shape[1]):
            a, b = switch_up[pairs[p, 0], j], switch_down[pairs[p, 1], j]
            s = 0.0
            if a >= 0 and b >= 0:
                for c in range(factor_up.shape[1]):
                    s += factor_up[a, c] * factor_down[b, c]
            total[p, j] = s


@nb.njit(nogil=True, cache=True, fastmath=True)
def _load_above(pairs, switch_up, switch_down, factor_up, factor_down, total, amount, load_up, load_down):
    """Add what each pair of groups exchanges by each first choice (``amount`` [P, J]) to the links above."""
    for p in range(len(pairs)):
        for j in range(switch_up.shape[1]):
            if amount[p, j] <= 0.0:
                continue
            a, b = switch_up[pairs[p, 0], j], switch_down[pairs[p, 1], j]
            part = amount[p, j] / total[p, j]
            for c in range(factor_up.shape[1]):
                x = part * factor_up[a, c] * factor_down[b, c]
                load_up[a, c] += x
                load_down[b, c] += x


@nb.njit(nogil=True, cache=True, fastmath=True)
def _load_below(src, dst, pair, demand, closed, factor_up, factor_down, total, amount, load_up, load_down):
    """Spread the demands over the first choices; return whether each of them has a path."""
    closed_up, closed_down = closed
    n = factor_up.shape[1]
    weight = np.empty(n)
    for r in range(len(demand)):
        a, b, p = src[r], dst[r], pair[r]
        whole = 0.0
        if p >= 0:
            for j in range(n):
                weight[j] = factor_up[a, j] * factor_down[b, j] * total[p, j]
                whole += weight[j]
        else:
            for j in range(n):
                weight[j] = 0.0 if closed_up[a, j] or closed_down[b, j] else factor_up[a, j] * factor_down[b, j]
                whole += weight[j]
        if not whole > 0.0:
            return False
        part = demand[r] / whole
        for j in range(n):
            x = part * weight[j]
            load_up[a, j] += x
            load_down[b, j] += x
            if p >= 0:
                amount[p, j] += x
    return True


@nb.njit(nogil=True, cache=True)
def _read(table, factor, into):
    """Write the factor of each link of a table."""
    for a in range(table.shape[0]):
        for k in range(table.shape[1]):
            into[a, k] = factor[table[a, k]] if table[a, k] >= 0 else 0.0


@nb.njit(nogil=True, cache=True)
def _add(table, part, load):
    """Add what is on each place of a table to its link, and clear it: several places may be one link."""
    for a in range(table.shape[0]):
        for k in range(table.shape[1]):
            if table[a, k] >= 0:
                load[table[a, k]] += part[a, k]
            part[a, k] = 0.0


@nb.njit(nogil=True, cache=True, fastmath=True)
def _inner(weight, one, other):
    """Return the inner product of two vectors [M]."""
    total = 0.0
    for e in range(len(weight)):
        total += weight[e] * one[e] * other[e]
    return total


@nb.njit(nogil=True, cache=True, fastmath=True)
def _subtract(value, factor, other):
    """Subtract a multiple of a vector [M] from another one."""
    for e in range(len(value)):
        value[e] -= factor * other[e]


@nb.njit(nogil=True, cache=True)
def _solve(gram, n, scratch, side):
    """Solve n equations of a positive matrix, damped where some depend on others; ``side`` becomes the solution."""
    trace = 0.0
    for i in range(n):
        trace += gram[i, i]
    for i in range(n):
        for j in range(n):
            scratch[i, j] = gram[i, j]
        scratch[i, i] += ROUNDING * trace + TINY
    for i in range(n):
        for row in range(i + 1, n):
            part = scratch[row, i] / scratch[i, i]
            for j in range(i, n):
                scratch[row, j] -= part * scratch[i, j]
            side[row] -= part * side[i]
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            side[i] -= scratch[i, j] * side[j]
        side[i] /= scratch[i, i]


@nb.njit(nogil=True, cache=True)
def _accelerated(load, gbps, root, full, seconds, price, trial, factor, momentum):
    """Change prices by an accelerated step along the gradient; return the next momentum."""
    along = 0.0
    after = (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum)) / 2.0
    onward = (momentum - 1.0) / after
    for e in range(len(gbps)):
        busy = load[e] / (gbps[e] * seconds)
        if busy <= 1.0 and trial[e] <= 0.0 and price[e] <= 0.0 and not full[e]:
            continue
        to = trial[e] + STEP * (busy - 1.0) / max(1.0, busy)
        if not full[e]:
            to = max(to, 0.0)
        to = min(max(to, -LARGEST), LARGEST)
        moved = to - price[e]
        along += (busy - 1.0) * gbps[e] * moved
        price[e] = to
        to = min(max(to + onward * moved, -LARGEST), LARGEST)
        trial[e] = to if full[e] else max(to, 0.0)
        factor[e] = root[e] * math.exp(-trial[e])
    # Where the prices of this round lie behind, the momentum leads away from the optimum.
    return 1.0 if along < 0.0 else after


@nb.njit(nogil=True, cache=True)
def spread(
    src,
    dst,
    pair,
    demand,
    pairs,
    switches,
    below,
    above,
    closed,
    gbps,
    root,
    full,
    seconds,
    price,
    rounds,
    enough,
):
    """Search prices with which no link is busy for longer than ``seconds``; return the best excess that was seen.

    Args:
        src: [N] row of the leaf of each demand in the first table of ``below``.
        dst: [N] row of the leaf where it goes to in the second one.
        pair: [N] pair of groups of leaves of each demand, -1 where its leaves meet above the first tier of cables.
        demand: [N] Gbit.
        pairs: [P, 2] rows of groups in ``switches``.
        switches: two tables [groups, J] of the rows of ``above`` to which first choices lead, up and down; -1: none.
        below: two tables [leaves, J] of the links by first choice, up and down; -1: none.
        above: two tables [switches, C] of the links above them, up and down; -1: none.
        closed: two tables [leaves, J]: places that only demands between groups may use, up and down.
        gbps: [M] capacities of the links.
        root: [M] square root of the number of alike choices for which each link stands.
        full: [M] whether a link must be busy all the time: its price may be negative.
        seconds: not less than the cuts require.
        price: [M] prices to begin with; those of the last round on return.
        rounds: how many rounds to try; once more, where the first method gives up.
        enough: the excess at which to stop.

    Returns:
        the least excess (0.01: some link is busy for 1.01 ``seconds``), infinite if a demand has no path.
    """
    total, amount = np.zeros((len(pairs), below[0].shape[1])), np.zeros((len(pairs), below[0].shape[1]))
    factors = (np.zeros(below[0].shape), np.zeros(below[1].shape), np.zeros(above[0].shape), np.zeros(above[1].shape))
    loads = (np.zeros(below[0].shape), np.zeros(below[1].shape), np.zeros(above[0].shape), np.zeros(above[1].shape))
    n_links = len(gbps)
    load, trial = np.zeros(n_links), price.copy()
    factor = root * np.exp(-trial)
    # A step leads from ``trial`` to ``price``. Steps are kept of the links that have a price or have had one, mostly
    # few, in the order in which they got it: ``priced``; ``place`` has their places there, -1 for the others. Of the
    # last steps: how they changed, and how their ends did.
    priced, place, n_priced = np.empty(n_links, np.int32), np.full(n_links, -1, np.int32), 0
    weight, step, onward = np.empty(n_links), np.zeros(n_links), np.empty(n_links)
    changes, moves = np.zeros((KEPT, n_links)), np.zeros((KEPT, n_links))
    # Their inner products, with one another and with the last step.
    gram, along = np.zeros((KEPT, KEPT)), np.zeros(KEPT)
    scratch, part = np.zeros((KEPT, KEPT)), np.zeros(KEPT)
    best, former, kept = np.inf, np.inf, 0
    begin, by_steps, turn, wanted, momentum = price.copy(), True, 0, np.inf, 1.0
    while turn < rounds:
        turn += 1
        _read(below[0], factor, factors[0])
        _read(below[1], factor, factors[1])
        if len(pairs):
            _read(above[0], factor, factors[2])
            _read(above[1], factor, factors[3])
            _sums_above(pairs, switches[0], switches[1], factors[2], factors[3], total)
            amount[:, :] = 0.0
        if not _load_below(src, dst, pair, demand, closed, factors[0], factors[1], total, amount, loads[0], loads[1]):
            return best
        load[:] = 0.0
        _add(below[0], loads[0], load)
        _add(below[1], loads[1], load)
        if len(pairs):
            _load_above(pairs, switches[0], switches[1], factors[2], factors[3], total, amount, loads[2], loads[3])
            _add(above[0], loads[2], load)
            _add(above[1], loads[3], load)
        excess = 0.0
        for e in range(n_links):
            excess = max(excess, load[e] / (gbps[e] * seconds) - 1.0)
        best = min(best, excess)
        if best <= enough:
            break
        if by_steps and turn % CHECKED == 1:
            if best > wanted:
                by_steps, turn = False, 0
                price[:] = begin
                trial[:] = begin
                factor[:] = root * np.exp(-trial)
                continue
            wanted = best * SMALLER
        if not by_steps:
            momentum = _accelerated(load, gbps, root, full, seconds, price, trial, factor, momentum)
            continue
        for e in range(n_links):
            if place[e] < 0 and (full[e] or trial[e] != 0.0 or price[e] != 0.0 or load[e] > gbps[e] * seconds):
                place[e], priced[n_priced], weight[n_priced] = n_priced, e, gbps[e]
                n_priced += 1
        column = kept % KEPT
        for i in range(n_priced):
            e = priced[i]
            busy = load[e] / (gbps[e] * seconds)
            to = trial[e] + STEP * (busy - 1.0) / max(1.0, busy)
            if not full[e]:
                to = max(to, 0.0)
            to = min(max(to, -LARGEST), LARGEST)
            own = to - trial[e]
            changes[column, i], moves[column, i] = own - step[i], to - price[e]
            step[i], price[e], onward[i] = own, to, to
        size = _inner(weight[:n_priced], step, step)
        # The first step has changed from none.
        kept = 0 if size > GROWTH * former or former == np.inf else kept + 1
        former = size
        known = min(kept, KEPT)
        if known:
            for j in range(known):
                gram[column, j] = gram[j, column] = _inner(weight[:n_priced], changes[column], changes[j])
                along[j] += gram[column, j]
            along[column] = _inner(weight[:n_priced], changes[column], step)
            part[:] = along
            _solve(gram, known, scratch, part)
            for j in range(known):
                _subtract(onward[:n_priced], part[j], moves[j])
        for i in range(n_priced):
            e = priced[i]
            least = -LARGEST if full[e] else 0.0
            trial[e] = min(max(onward[i], least), LARGEST)
            factor[e] = root[e] * math.exp(-trial[e]) if trial[e] != 0.0 else root[e]
    return best


@nb.njit(nogil=True, cache=True)
def cheapest(src, dst, pair, demand, pairs, switches, below, above, gbps, price):
    """Return the least seconds that prices prove, whatever they are: demands by their cheapest paths over all links.

    In the time T, links carry at most T x (sum of capacity x price), and each demand costs at least its cheapest path.
    The arguments are those of ``spread``.
    """
    price = np.maximum(price, 0.0)
    by_pair = np.full((len(pairs), below[0].shape[1]), np.inf)
    for p in range(len(pairs)):
        for j in range(by_pair.shape[1]):
            a, b = switches[0][pairs[p, 0], j], switches[1][pairs[p, 1], j]
            if a < 0 or b < 0:
                continue
            for c in range(above[0].shape[1]):
                u, d = above[0][a, c], above[1][b, c]
                if u >= 0 and d >= 0:
                    by_pair[p, j] = min(by_pair[p, j], price[u] + price[d])
    cost = 0.0
    for r in range(len(demand)):
        least = np.inf
        for j in range(below[0].shape[1]):
            u, d = below[0][src[r], j], below[1][dst[r], j]
            if u >= 0 and d >= 0:
                least = min(least, price[u] + price[d] + (by_pair[pair[r], j] if pair[r] >= 0 else 0.0))
        cost += demand[r] * least
    worth = (gbps * price).sum()
    return cost / worth if worth > 0.0 else 0.0
