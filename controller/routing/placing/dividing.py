"""Division of loads between switches among the choices of one tier of cables, with few loads cut.

Choices that no switch can distinguish form a type; a linear program says how much of each pair of switches goes by
which type (``by_kind``). Within a type all choices are alike, and there are two ways to divide loads among them:

* *Time slots*, where flows have few different loads: colour each class of equal flows with as many colours as its
  busiest switch needs. A colour is a matching, so it may be thought of as a slot of time in which each switch sends and
  receives one flow. Slots are laid whole onto choices while they fit, and what is left is laid end to end over what
  is left of them (the wrap-around rule: McNaughton, Management Science 6, 1959). Each boundary between choices cuts a
  slot, so at most one flow a switch: never more than switches x choices extra pieces. All links of a choice carry
  pieces of the same sizes, so they run and finish together, whoever shares bandwidth a flow at a time.
* *Halving*, elsewhere: divide the flows between the two halves of the choices such that every switch's sums are
  divided exactly and the divided flows form a forest; go on with each half.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.model.fabric import FloatArray, IntArray
from controller.model.tolerances import ROUNDING
from controller.model.traffic import Int64Array
from controller.routing.kernels.placing import edge_coloring, splitting
from controller.routing.placing.pieces import Pieces
from controller.routing.relaxation.concurrent import Routing


def by_kind(routing: Routing, load: FloatArray) -> list[tuple[int, Int64Array, FloatArray]]:
    """Lay each commodity's flows end to end over its types: a boundary between two types cuts one flow.

    Returns:
        each type, with the demands [N] that go by it, and their loads [N].
    """
    order = np.lexsort((-load, routing.of_demand))
    owner = routing.of_demand[order]
    edge = np.sort(routing.row, kind="stable")
    by_row = np.argsort(routing.row, kind="stable")
    n = int(owner.max(initial=-1)) + 1
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
    return [(int(kind), order[flow_at[which == kind]], (cuts - begin)[which == kind]) for kind in np.unique(which)]


class SwitchLoads(NamedTuple):
    """The N loads to divide, by the switches between which they go.

    Attributes:
        part: [N] number of the flow (``Pieces.part``).
        load: [N] Gbit/s.
        src, dst: [N] switches of one tier.
        group: [N] phase group.
        n_switches: the number of switches of the tier.
    """

    part: Int64Array
    load: FloatArray
    src: NDArray[np.integer]
    dst: NDArray[np.integer]
    group: IntArray
    n_switches: int


def spread(
    choices: Int64Array, ends: SwitchLoads, room: tuple[FloatArray, FloatArray], steady: bool, seed: int
) -> Pieces:
    """Divide loads among equivalent choices.

    Args:
        choices: [C] the choices.
        ends: the loads.
        room: [N], [N] what one of the choices can carry from the source of each load, and to its destination.
        steady: whether all phase groups are one.
        seed: the seed of the colouring.
    """
    if len(choices) == 1:
        return Pieces(ends.part, np.broadcast_to(choices, ends.part.shape), ends.load)
    up, down = room
    pieces = _time_slots(choices, ends, min(up.min(), down.min()), seed)
    if pieces is not None:
        return pieces
    limit = np.zeros(2 * ends.n_switches)
    limit[ends.src], limit[ends.n_switches + ends.dst] = up, down
    # With several phases a switch's limit is not one phase's: sums are divided exactly, nothing is rounded.
    return halve(choices, ends, limit if steady else limit * 0.0)


def halve(choices: Int64Array, ends: SwitchLoads, limit: FloatArray, weight: FloatArray | None = None) -> Pieces:
    """Divide what each switch sends, and receives, in each phase group in proportion to the weights of choices.

    Args:
        choices: [C] the choices.
        ends: the loads.
        limit: [2N] for each unit of weight what a switch may send, then what it may receive, where that keeps flows
            whole.
        weight: [C] of the choices; ``None``: 1 each.
    """
    weights = np.ones(len(choices)) if weight is None else weight
    blocks = []
    for group in np.unique(ends.group):
        of = ends.group == group
        blocks.append(
            _halve(choices, weights, ends.part[of], ends.load[of], ends.src[of], ends.dst[of], limit, ends.n_switches)
        )
    return Pieces.joined(blocks)


def _time_slots(classes: Int64Array, loads: SwitchLoads, room: float, seed: int) -> Pieces | None:
    """Lay colour classes as slots of time onto the spines; ``None`` if they take more than all spines' ``room``."""
    part, load, src, dst, _, n_leaves = loads
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
    weight: FloatArray,
    part: Int64Array,
    load: FloatArray,
    src: NDArray[np.integer],
    dst: NDArray[np.integer],
    limit: FloatArray,
    n_leaves: int,
) -> Pieces:
    """Divide between two halves of the classes, and each half again, until one class is left."""
    if len(classes) == 1 or not len(part):
        return Pieces(part, np.broadcast_to(classes[:1], part.shape), load)
    half = len(classes) // 2
    one, other = float(weight[:half].sum()), float(weight[half:].sum())
    first = splitting.divide(src, dst, load, n_leaves, one / (one + other), limit * one, limit * other)
    blocks = []
    for side, amount in ((slice(half), first), (slice(half, None), load - first)):
        kept = np.flatnonzero(amount > ROUNDING * load)
        blocks.append(
            _halve(classes[side], weight[side], part[kept], amount[kept], src[kept], dst[kept], limit, n_leaves)
        )
    return Pieces.joined(blocks)
