"""Search of circuits by the time of their routes: simulated annealing (Kirkpatrick, Gelatt and Vecchi, 1983)."""

from __future__ import annotations

import numba as nb
import numpy as np

from controller.circuits.kernels.moves import DUPLEX_BACK, change
from controller.circuits.kernels.routes import route


@nb.njit(nogil=True, cache=True)
def search_routed(succ, kinds, messages, first, members, edge_bytes, parts, passes, steps, heat, seed):
    """Return circuits whose fullest circuit carries fewer bytes, and this number.

    Args:
        succ: [d, n] the circuits to begin with.
        kinds: [d] the kind of each layer.
        messages: [n, n], as for ``route``.
        first: [G + 1], as for ``route``.
        members: as for ``route``.
        edge_bytes: [G], as for ``route``.
        parts: as for ``route``.
        passes: as for ``route``.
        steps: the number of changes to try.
        heat: by which part of the value a change may raise it at the begin; it falls to 0.
        seed: of the random numbers.
    """
    d = len(kinds)
    now = succ.copy()
    value = route(now, messages, first, members, edge_bytes, parts, passes, seed)[0]
    best, least = now.copy(), value
    trial = now.copy()
    np.random.seed(seed)
    for step in range(steps):
        # The routes draw numbers from the same generator, beginning with their seed.
        np.random.seed(seed + 1 + step)
        layer = np.random.randint(d)
        if kinds[layer] == DUPLEX_BACK:
            layer -= 1
        allowed = value * (1.0 - heat * (1.0 - step / steps) * np.log(np.random.random()))
        if not change(trial, kinds, layer):
            continue
        trial_value = route(trial, messages, first, members, edge_bytes, parts, passes, seed)[0]
        if trial_value <= allowed:
            value = trial_value
            now[:] = trial
            if value < least:
                least = value
                best[:] = now
        else:
            trial[:] = now
    return best, least
