"""``split``: few flows cut in few pieces, with every link as full as with free splitting.

1. Path classes that no leaf can distinguish form a type. Where there are several types, a vertex of the linear program
   says how much of each pair of leaves goes by which type; few pairs use more than one.
2. Within a type all spines are alike, and there are two ways to divide flows among them:

   * *Time slots*, where flows have few different loads: colour each class of equal flows with as many colours as its
     busiest leaf needs. A colour is a matching, so it may be thought of as a slot of time in which each leaf sends and
     receives one flow. Slots are laid whole onto spines while they fit, and what is left is laid end to end over what
     is left of them (the wrap-around rule: McNaughton, Management Science 6, 1959). Each spine boundary cuts a slot,
     so at most one flow a leaf: never more than leaves x spines extra pieces. All links of a spine carry pieces of the
     same sizes, so they run and finish together, whoever shares bandwidth a flow at a time.
   * *Halving*, elsewhere: divide the flows between the two halves of the spines such that every leaf's sums are
     divided exactly and the divided flows form a forest; go on with each half.
3. Pieces are put together again where that costs no more than ``TOLERATED`` of the level, or until they are few enough.
   If that is at odds with the level, pieces are searched for better places; small instances go to an integer program.
"""

from __future__ import annotations

import numpy as np

from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.tolerances import ROUNDING, TOLERANCE
from controller.model.traffic import Int64Array, Traffic
from controller.routing import coloring, concurrent
from controller.routing.base import Options, Result
from controller.routing.bounds import split_bound
from controller.routing.demand import Demand
from controller.routing.fewest_pieces import fewest_pieces
from controller.routing.improve_levels import levels_of
from controller.routing.incremental_split import incremental_split
from controller.routing.kernels import edge_coloring, splitting
from controller.routing.pieces import Pieces
from controller.routing.previous_plan import PreviousPlan

AIM = 0.997
"""The fraction of ``bound_split`` that is the first target; the small remainder keeps more flows whole."""

TOLERATED = 0.992
"""The least fraction of ``bound_split`` that merging pieces may reach."""

POLISHING = 100_000
"""Moves and swaps of pieces that are tried if merging pieces lost more than is tolerated."""


def assign(
    fabric: Fabric,
    traffic: Traffic,
    *,
    seed: int = 0,
    previous: PreviousPlan | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Result:
    """Assign paths and shares within 1 % of ``bound_split``; at most ``options.max_splits`` extra pieces."""
    demand = Demand.of(fabric, traffic)
    path = coloring.color_units(demand, seed)
    best = split_bound(demand) if demand.in_game.any() else 1.0
    levels = levels_of(demand, path)
    if not demand.in_game.any() or np.nanmin(levels) >= AIM * best:
        return Result(demand.assignment(path))
    return Result(split_units(demand, best, seed, budget(fabric, options)).assignment(demand))


def budget(fabric: Fabric, options: Options) -> int:
    """Return the number of extra pieces allowed: at most leaves x spines, a parallel cable counting as a spine."""
    most = fabric.n_leaves * fabric.n_paths
    return most if options.max_splits is None else min(most, options.max_splits)


def split_units(demand: Demand, best: float, seed: int, extra: int) -> Pieces:
    """Return pieces that reach about ``best`` (``bound_split``) with at most ``extra`` more of them than flows."""
    blocks = []
    for kind, part, load in _by_type(demand, best * AIM):
        classes = np.flatnonzero(demand.fabric.path_type == kind).astype(np.int64)
        blocks.append(_spread(demand, classes, part, load, 1.0 / (best * AIM), seed))
    pieces = Pieces.joined(blocks).merged().enforceable(demand)
    pieces = pieces.reunited(demand, 1.0 / (best * TOLERATED), extra)
    # Where the budget was tight, some pieces overload their links: they move and swap as whole units do.
    level = best * TOLERATED
    if pieces.lowest_level(demand) >= level * (1 - TOLERANCE):
        return pieces
    moved, reached = pieces.searched(demand, level, POLISHING, seed)
    if reached:
        return moved.merged()
    path = coloring.color_units(demand, seed)
    return incremental_split(demand, path, level, extra, seed) or fewest_pieces(demand, level, extra) or pieces


def _by_type(demand: Demand, level: float) -> list[tuple[int, Int64Array, FloatArray]]:
    """Return (path type, parts, loads) such that every type's links can carry its loads at this level."""
    load = demand.load[demand.part_flow]
    part = np.flatnonzero(load > 0).astype(np.int64)
    kinds = demand.fabric.path_type
    if kinds.max(initial=-1) <= 0:
        return [(0, part, load[part])]
    flow = demand.part_flow[part]
    routing = concurrent.route(
        demand.fabric, demand.leaf_src[flow], demand.leaf_dst[flow], load[part], demand.part_group[part],
        demand.group_job, seconds=1.0 / level,
    )  # fmt: skip
    return _cut_commodities(routing, part, load[part])


def _cut_commodities(
    routing: concurrent.Routing, part: Int64Array, load: FloatArray
) -> list[tuple[int, Int64Array, FloatArray]]:
    """Lay each commodity's flows end to end over its types: a boundary between two types cuts one flow."""
    order = np.lexsort((-load, routing.of_demand))
    owner = routing.of_demand[order]
    edge = np.sort(routing.row, kind="stable")
    by_row = np.argsort(routing.row, kind="stable")
    n = len(routing.commodity)
    # Positions along one line on which every commodity has an interval of its own, as long as its load.
    total = np.bincount(owner, weights=load[order], minlength=n)
    routed = np.bincount(edge, weights=routing.gbit[by_row], minlength=n)
    width = routing.gbit[by_row] * (total / np.where(routed > 0, routed, 1.0))[edge]
    flow_end, kind_end = np.cumsum(load[order]), np.cumsum(width)
    cuts = np.unique(np.concatenate([flow_end, kind_end]))
    # The difference between two ends that are equal but for rounding is no piece.
    keep = np.diff(np.concatenate([[0.0], cuts])) > ROUNDING * max(1.0, float(cuts[-1]))
    keep[-1] = True
    cuts = cuts[keep]
    begin = np.concatenate([[0.0], cuts[:-1]])
    middle = (begin + cuts) / 2
    flow_at = np.minimum(np.searchsorted(flow_end, middle), len(order) - 1)
    kind_at = np.minimum(np.searchsorted(kind_end, middle), len(by_row) - 1)
    which = routing.kind[by_row[kind_at]]
    return [
        (int(kind), part[order[flow_at[which == kind]]], (cuts - begin)[which == kind]) for kind in np.unique(which)
    ]


def _spread(
    demand: Demand, classes: Int64Array, part: Int64Array, load: FloatArray, seconds: float, seed: int
) -> Pieces:
    """Divide loads among equivalent path classes, whose links may be busy for ``seconds``."""
    fabric, flow = demand.fabric, demand.part_flow[part]
    src, dst = demand.leaf_src[flow], demand.leaf_dst[flow]
    if len(classes) == 1:
        return Pieces(part, np.broadcast_to(classes, part.shape), load)
    up = fabric.link_gbps[demand.tier.up[src, classes[0]]]
    down = fabric.link_gbps[demand.tier.down[dst, classes[0]]]
    pieces = _time_slots(classes, part, load, src, dst, min(up.min(), down.min()) * seconds, fabric.n_leaves, seed)
    if pieces is not None:
        return pieces
    limit = np.zeros(2 * fabric.n_leaves)
    limit[src], limit[fabric.n_leaves + dst] = up * seconds, down * seconds
    blocks = []
    for group in np.unique(demand.part_group[part]):
        members = np.flatnonzero(demand.part_group[part] == group)
        # With several phases a leaf's limit is not one phase's: sums are divided exactly, nothing is rounded.
        most = limit if len(demand.group_job) == 1 else limit * 0.0
        blocks.append(_halve(classes, part[members], load[members], src[members], dst[members], most, fabric.n_leaves))
    return Pieces.joined(blocks)


def _time_slots(
    classes: Int64Array,
    part: Int64Array,
    load: FloatArray,
    src: IntArray,
    dst: IntArray,
    room: float,
    n_leaves: int,
    seed: int,
) -> Pieces | None:
    """Lay colour classes as slots of time onto the spines; ``None`` if they take more than all spines' ``room``."""
    sizes, size_of = np.unique(np.round(load / load.max(), 9), return_inverse=True)
    size_of = size_of.reshape(-1)
    ends = np.stack([np.bincount(size_of * n_leaves + end, minlength=len(sizes) * n_leaves) for end in (src, dst)])
    slots = ends.reshape(2, len(sizes), n_leaves).max(axis=(0, 2))
    longest = np.array([load[size_of == i].max() for i in range(len(sizes))]) if len(sizes) <= 64 else None
    if longest is None or float(slots @ longest) > room * len(classes) * (1 + ROUNDING):
        return None
    slot, first = np.empty(len(part), dtype=np.int64), 0
    for i in range(len(sizes)):
        members = np.flatnonzero(size_of == i)
        order = np.arange(len(members), dtype=np.int32)
        left, n_left = edge_coloring.slots(src[members], order, n_leaves, int(slots[i]))
        right, n_right = edge_coloring.slots(dst[members], order, n_leaves, int(slots[i]))
        slot[members] = first + edge_coloring.color(left, right, max(n_left, n_right), int(slots[i]), seed & 0xFFFFFFFF)
        first += int(slots[i])
    length = np.repeat(longest, slots)
    # Spines filled exactly alike may need fewer cuts (and equal ones) than completely filled spines.
    even = max(float(length.sum()) / len(classes), float(length.max()))
    layouts = [_lay_slots(length, len(classes), amount) for amount in {room, min(room, even)}]
    where, amount = min(layouts, key=lambda layout: sum(map(len, layout[0])))
    by_slot = np.argsort(slot, kind="stable")
    ptr = np.searchsorted(slot[by_slot], np.arange(first + 1))
    blocks = []
    for s in range(first):
        members = by_slot[ptr[s] : ptr[s + 1]]
        for spine, share in zip(where[s], amount[s], strict=True):
            rows = np.full(len(members), classes[spine])
            blocks.append(Pieces(part[members], rows, load[members] * share))
    return Pieces.joined(blocks)


def _lay_slots(length: FloatArray, n_spines: int, room: float) -> tuple[list[list[int]], list[list[float]]]:
    """Return spines and shares of each slot: the longest first, whole while a spine has room, the rest wrapped around.

    >>> where, share = _lay_slots(np.ones(4), 3, 4 / 3)  # three whole slots; the fourth in three equal pieces
    >>> where, np.round(share[3], 3).tolist()
    ([[0], [1], [2], [0, 1, 2]], [0.333, 0.333, 0.333])
    """
    free = np.full(n_spines, room)
    where: list[list[int]] = [[] for _ in length]
    share: list[list[float]] = [[] for _ in length]
    left = []
    for s in np.argsort(-length, kind="stable").tolist():
        spine = int(np.argmax(free))
        if free[spine] >= length[s] * (1 - ROUNDING):
            where[s], share[s] = [spine], [1.0]
            free[spine] -= length[s]
        else:
            left.append(s)
    spine = 0
    for s in left:
        rest = float(length[s])
        while rest > ROUNDING * length[s]:
            while free[spine] <= ROUNDING * room and spine + 1 < n_spines:
                spine += 1
            piece = min(rest, float(free[spine])) if spine + 1 < n_spines else rest
            where[s].append(spine)
            share[s].append(piece / float(length[s]))
            free[spine] -= piece
            rest -= piece
    return where, share


def _halve(
    classes: Int64Array,
    part: Int64Array,
    load: FloatArray,
    src: IntArray,
    dst: IntArray,
    limit: FloatArray,
    n_leaves: int,
) -> Pieces:
    """Divide between two halves of the classes, and each half again, until one class is left."""
    if len(classes) == 1 or not len(part):
        return Pieces(part, np.broadcast_to(classes[:1], part.shape), load)
    half = len(classes) // 2
    first = splitting.divide(src, dst, load, n_leaves, half / len(classes), limit * half, limit * (len(classes) - half))
    blocks = []
    for chosen, amount in ((classes[:half], first), (classes[half:], load - first)):
        kept = np.flatnonzero(amount > ROUNDING * load)
        blocks.append(_halve(chosen, part[kept], amount[kept], src[kept], dst[kept], limit, n_leaves))
    return Pieces.joined(blocks)
