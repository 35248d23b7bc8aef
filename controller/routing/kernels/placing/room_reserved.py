"""What ``room_by_matching`` keeps for the choices whose switches above have lost links.

A switch above that has lost s links needs s of its pod's switches below to pass nothing on to it: each has a unit that
stays below there, or an idle choice. A pod with several such choices may have just enough of these, so they are shared
out before the units of one choice are chosen: by backtracking, pod by pod, in a bounded number of steps.
"""

from __future__ import annotations

import numba as nb
import numpy as np

MOST_STEPS = 2_000
"""Most things tried in a pod."""


@nb.njit(nogil=True, cache=True)
def reserve(ends, crosses, live, above, lacking, pod, idle_of, reserved, idle):
    """Share out units that stay below, and idle choices, among the choices that need them.

    Args:
        ends: [2, U] the switch of each unit on its way up and down.
        crosses: [U] whether the unit goes on to the tier above.
        live: [2, N, K] the live links of the choices.
        above: [N, K] the switch above to which each choice leads; -1: none.
        lacking: [2, M] by how much each switch above has fewer links above than below.
        pod: [N] the switches below with the same switches above have the same number.
        idle_of: [2, N] choices that each switch leaves idle; changes.
        reserved: [U] receives the choice for which a unit is kept (-1: none).
        idle: [2, N, K] receives the choices that are kept idle.

    Returns:
        whether all choices of all pods got what they need.
    """
    pods = pod.max() + 1
    order = np.argsort(pod, kind="mergesort")
    first = np.searchsorted(pod[order], np.arange(pods + 1))
    unit_pod = np.where(crosses, pods, pod[ends[0]])
    unit_order = np.argsort(unit_pod, kind="mergesort")
    unit_first = np.searchsorted(unit_pod[unit_order], np.arange(pods + 1))
    for p in range(pods):
        nodes, own = order[first[p] : first[p + 1]], unit_order[unit_first[p] : unit_first[p + 1]]
        if not _reserve_in_pod(nodes, own, ends, live, above, lacking, idle_of, reserved, idle):
            return False
    return True


@nb.njit(nogil=True, cache=True)
def _reserve_in_pod(nodes, own, ends, live, above, lacking, idle_of, reserved, idle):
    """Share out in one pod, with the switches ``nodes`` and the units ``own`` that stay in it."""
    n_choices, n_nodes = above.shape[1], len(nodes)
    wanted = np.empty((n_choices * n_nodes, 3), np.int64)
    n = 0
    for k in range(n_choices):
        lost = np.zeros(2, np.int64)
        for a in nodes:
            if above[a, k] >= 0:
                for side in range(2):
                    lost[side] = max(lost[side], min(n_nodes, lacking[side, above[a, k]]))
        for i in range(max(lost[0], lost[1])):
            wanted[n, 0], wanted[n, 1], wanted[n, 2] = k, int(i < lost[0]), int(i < lost[1])
            n += 1
    # Thing i is what a choice may get: unit i, then switches that are idle up and down.
    things = len(own) + n_nodes * n_nodes
    at, got = 0, np.full(n, -1, np.int64)
    used = np.zeros((2, n_choices, n_nodes), np.bool_)
    place = np.full(above.shape[0], -1, np.int64)
    place[nodes] = np.arange(n_nodes)
    tried = 0
    while 0 <= at < n:
        k, up, down = wanted[at, 0], wanted[at, 1], wanted[at, 2]
        if got[at] >= 0:
            _take(got[at], k, up, down, -1, nodes, own, ends, place, idle_of, reserved, used)
        i = got[at] + 1
        while i < things and not _fits(i, k, up, down, nodes, own, ends, live, place, idle_of, reserved, used):
            i += 1
        tried += 1
        if i == things or tried > MOST_STEPS:
            got[at] = -1
            at -= 1
            if tried > MOST_STEPS:
                return False
            continue
        got[at] = i
        _take(i, k, up, down, 1, nodes, own, ends, place, idle_of, reserved, used)
        at += 1
    if at < 0:
        return False
    for j in range(n):
        i = got[j] - len(own)
        if i >= 0:
            for side, a in ((0, nodes[i // n_nodes]), (1, nodes[i % n_nodes])):
                if wanted[j, 1 + side]:
                    idle[side, a, wanted[j, 0]] = True
    return True


@nb.njit(nogil=True, cache=True)
def _fits(i, k, up, down, nodes, own, ends, live, place, idle_of, reserved, used):
    """Return whether thing i may be given to choice k."""
    if i < len(own):
        u = own[i]
        a, b = ends[0, u], ends[1, u]
        free = not (used[0, k, place[a]] or used[1, k, place[b]])
        return reserved[u] < 0 and free and live[0, a, k] and live[1, b, k]
    i -= len(own)
    a, b = i // len(nodes), i % len(nodes)
    if up and (used[0, k, a] or idle_of[0, nodes[a]] <= 0 or not live[0, nodes[a], k]):
        return False
    return not (down and (used[1, k, b] or idle_of[1, nodes[b]] <= 0 or not live[1, nodes[b], k]))


@nb.njit(nogil=True, cache=True)
def _take(i, k, up, down, step, nodes, own, ends, place, idle_of, reserved, used):
    """Give thing i to choice k (step 1), or take it back (-1)."""
    if i < len(own):
        u = own[i]
        reserved[u] = k if step > 0 else -1
        used[0, k, place[ends[0, u]]] = used[1, k, place[ends[1, u]]] = step > 0
        return
    i -= len(own)
    a, b = i // len(nodes), i % len(nodes)
    if up:
        used[0, k, a] = step > 0
        idle_of[0, nodes[a]] -= step
    if down:
        used[1, k, b] = step > 0
        idle_of[1, nodes[b]] -= step
