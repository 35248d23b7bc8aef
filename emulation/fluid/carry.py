"""Change from one plan to the next during a simulation: transfers under way continue on their new paths."""

from __future__ import annotations

import numpy as np

from controller.model.fabric import BoolArray
from emulation.fluid.heap import put
from emulation.fluid.state import NO_LINK, Movers, State

_LANES = ("lane_head", "lane_tail", "lane_next", "lane_ready", "lane_busy")


def carry_over(before: Movers, old: State, after: Movers, new: State) -> BoolArray:
    """Bring a settled state to the movers of another plan of the same transfers.

    What a transfer still has to send is divided by its new shares; where it has as many pieces of the same sizes as
    before, each keeps what it had left.

    Returns:
        [M] which of the new movers are under way.
    """
    # Links of single movers come last, and nobody asks what they carried.
    links = min(len(new.gbit), len(old.gbit))
    new.gbit[:links] = old.gbit[:links]
    for name in ("running", "runs", "waiting", "started", "groups_left", *_LANES):
        getattr(new, name)[:] = getattr(old, name)
    n_old, n_new = len(before.group), len(after.group)
    for thing in old.events.order[: old.events.size[0]].tolist():
        if thing >= n_old:
            put(new.events, thing - n_old + n_new, old.events.time[thing])
    was_moving: BoolArray = old.limit != NO_LINK
    left = np.where(was_moving, old.left, 0.0)
    if n_old == n_new and np.array_equal(before.amount, after.amount):
        new.left[:], new.begun[:] = left, old.begun
        return was_moving
    n = 1 + int(max(before.owner.max(initial=-1), after.owner.max(initial=-1)))
    total = np.bincount(before.owner, weights=before.amount, minlength=n)
    part_left = np.bincount(before.owner, weights=left, minlength=n) / np.where(total > 0, total, 1.0)
    under_way = np.bincount(before.owner, weights=was_moving, minlength=n) > 0
    begun = np.zeros(n)
    np.maximum.at(begun, before.owner, old.begun)
    new.left[:] = after.amount * part_left[after.owner]
    new.begun[:] = begun[after.owner]
    moving: BoolArray = under_way[after.owner]
    new.running[:] = np.bincount(after.group, weights=moving, minlength=len(new.running))
    return moving
