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
        # Changes of windows are expected anew when movers share links again.
        if n_old <= thing < n_old + len(new.runs):
            put(new.events, thing - n_old + n_new, old.events.time[thing])
    _carry_runs(before, old, after, new)
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
    if len(old.receipts.done):
        # All those that have not ended the present run of their group.
        own = new.receipts.source >= 0
        behind = own & (new.receipts.done <= new.runs[after.group])
        counted = np.bincount(after.group, weights=behind, minlength=len(new.running))
        goes_on = np.bincount(after.group, weights=own, minlength=len(counted)) > 0
        new.running[:] = np.where(goes_on, counted, new.running)
    return moving


def _carry_runs(before: Movers, old: State, after: Movers, new: State) -> None:
    """Bring the runs that movers of groups have ended whose hosts go on by themselves; of several pieces the fewest."""
    if not len(old.receipts.done):
        return
    if len(before.owner) == len(after.owner) and np.array_equal(before.amount, after.amount):
        new.receipts.done[:], new.receipts.busy[:] = old.receipts.done, old.receipts.busy
        return
    n = 1 + int(max(before.owner.max(initial=-1), after.owner.max(initial=-1)))
    done = np.full(n, np.iinfo(np.int64).max)
    np.minimum.at(done, before.owner, old.receipts.done)
    busy = np.zeros(n, dtype=np.bool_)
    np.logical_or.at(busy, before.owner, old.receipts.busy)
    new.receipts.done[:], new.receipts.busy[:] = done[after.owner], busy[after.owner]
