"""Random numbers for kernels: a 64-bit xorshift generator (Marsaglia, J. Stat. Software 8(14), 2003).

Its state is an array [1] of an odd uint64.
"""

from __future__ import annotations

import numpy as np

from controller.routing.kernels.without_runtime import inner


@inner
def advance(rng):
    """Return the next state of the generator."""
    state = rng[0]
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    rng[0] = state
    return state


@inner
def below(state, n):
    """Return a number below n from the upper bits of a state: the lower ones are less random."""
    return np.int64((state >> np.uint64(11)) % np.uint64(n))


@inner
def draw(rng, n):
    """Draw a number below n."""
    return below(advance(rng), n)
