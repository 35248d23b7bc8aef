"""A binary heap of numbered things by time, in which any of them can be moved or taken out (compiled)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from controller.routing.kernels.without_runtime import without_runtime


class Heap(NamedTuple):
    """Things 0..N-1, each at most once.

    Attributes:
        time: [N] of each thing that is in the heap.
        order: [N] things, the heap itself.
        place: [N] where each is in ``order``, -1 outside.
        size: [1] how many are in.
    """

    time: Any
    order: Any
    place: Any
    size: Any


def empty_heap(n: int) -> Heap:
    """Return an empty heap for items 0..n-1."""
    return Heap(np.zeros(n), np.zeros(n, dtype=np.int64), np.full(n, -1, dtype=np.int64), np.zeros(1, dtype=np.int64))


@without_runtime
def _up(heap, at):
    thing = heap.order[at]
    time = heap.time[thing]
    while at > 0:
        parent = (at - 1) >> 1
        other = heap.order[parent]
        if heap.time[other] <= time:
            break
        heap.order[at] = other
        heap.place[other] = at
        at = parent
    heap.order[at] = thing
    heap.place[thing] = at


@without_runtime
def _down(heap, at):
    thing = heap.order[at]
    time = heap.time[thing]
    n = heap.size[0]
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        if child + 1 < n and heap.time[heap.order[child + 1]] < heap.time[heap.order[child]]:
            child += 1
        other = heap.order[child]
        if heap.time[other] >= time:
            break
        heap.order[at] = other
        heap.place[other] = at
        at = child
    heap.order[at] = thing
    heap.place[thing] = at


@without_runtime
def put(heap, thing, time):
    """Put a thing in, or move it, to a time."""
    at = heap.place[thing]
    if at < 0:
        at = heap.size[0]
        heap.size[0] += 1
        heap.order[at] = thing
        heap.place[thing] = at
        heap.time[thing] = time
        _up(heap, at)
        return
    before = heap.time[thing]
    heap.time[thing] = time
    if time < before:
        _up(heap, at)
    else:
        _down(heap, at)


@without_runtime
def drop(heap, thing):
    """Take a thing out, if it is in."""
    at = heap.place[thing]
    if at < 0:
        return
    heap.size[0] -= 1
    heap.place[thing] = -1
    last = heap.order[heap.size[0]]
    if last != thing:
        heap.order[at] = last
        heap.place[last] = at
        _up(heap, at)
        _down(heap, heap.place[last])
