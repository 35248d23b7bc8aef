"""The total load of phases that never run at once."""

from __future__ import annotations

import numba as nb


@nb.njit(nogil=True, cache=True)
def group_total(by_group, group_job):
    """Return the sum over jobs of their heaviest phase group; group 0 counts as a separate job."""
    total, heaviest = 0.0, 0.0
    for g in range(len(group_job)):
        if g > 0 and group_job[g] != group_job[g - 1]:
            total += heaviest
            heaviest = 0.0
        heaviest = max(heaviest, by_group[g])
    return total + heaviest
