"""Local search of circuits by bytes times hops."""

from __future__ import annotations

import numba as nb
import numpy as np

from controller.circuits.kernels.hop_counts import hop_bytes
from controller.circuits.kernels.moves import DUPLEX_BACK, change


@nb.njit(nogil=True, cache=True)
def search_hops(succ, kinds, weights, steps, seed):
    """Return circuits with fewer bytes times hops, and this value; a change is kept if the value does not rise.

    Args:
        succ: [d, n] the circuits to begin with.
        kinds: [d] the kind of each layer.
        weights: [n, n].
        steps: the number of changes to try.
        seed: of the random numbers.
    """
    np.random.seed(seed)
    d = len(kinds)
    best = succ.copy()
    cost = hop_bytes(best, weights, np.inf)
    trial = best.copy()
    for _ in range(steps):
        layer = np.random.randint(d)
        if kinds[layer] == DUPLEX_BACK:
            layer -= 1
        if not change(trial, kinds, layer):
            continue
        value = hop_bytes(trial, weights, cost)
        if value <= cost:
            cost = value
            best[:] = trial
        else:
            trial[:] = best
    return best, cost
