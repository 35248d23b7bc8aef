"""How much later than needed tasks may end: the float of the critical path method (Kelley and Walker 1959).

Tasks of one lane, such as the computations of a GPU, run one after the other: in the order of a trace, which is that in
which they ran, or of a graph, in that in which they can begin. Communication takes no
time here, because a graph does not say how long a network needs: so the float of a collective is the time that it may
take beside computing.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

NO_LANE = -1


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a graph.

    Attributes:
        seconds: of computing; 0: communication.
        lane: the number of the lane in which it runs; ``NO_LANE``: it waits for no lane.
        after: the tasks that it waits for, as indices.
    """

    seconds: float = 0.0
    lane: int = NO_LANE
    after: tuple[int, ...] = ()


def float_times(tasks: Sequence[Task], *, in_order: bool = True) -> tuple[float, list[float]]:
    """Return how long all tasks take, and by how much later each may end without that all of them take longer.

    Tasks that wait for each other in a circle have no float.

    Args:
        tasks: the tasks.
        in_order: tasks of a lane run in the order in which they are given, as far as possible; else as soon as they
            can.

    >>> float_times([Task(2.0, 0), Task(after=(0,)), Task(3.0, 0, (0,))])
    (5.0, [0.0, 3.0, 0.0])
    """
    waits, following = _with_lanes(tasks, in_order=in_order)
    order, begin = _in_order(tasks, waits, following)
    whole = max((begin[i] + tasks[i].seconds for i in order), default=0.0)
    latest = [whole] * len(tasks)
    floats = [0.0] * len(tasks)
    for i in reversed(order):
        for other in following[i]:
            latest[i] = min(latest[i], latest[other] - tasks[other].seconds)
        floats[i] = max(0.0, latest[i] - begin[i] - tasks[i].seconds)
    return whole, floats


def _with_lanes(tasks: Sequence[Task], *, in_order: bool) -> tuple[list[int], list[list[int]]]:
    """Return the number of tasks that each waits for, and those that wait for it; lanes are in a possible order."""
    waits = [len(task.after) for task in tasks]
    following: list[list[int]] = [[] for _ in tasks]
    for i, task in enumerate(tasks):
        for other in task.after:
            following[other].append(i)
    last: dict[int, int] = {}
    chained = []
    for i in _in_order(tasks, waits, following)[0] if in_order else _as_ready(tasks, waits, following):
        lane = tasks[i].lane
        if lane != NO_LANE:
            if lane in last:
                chained.append((last[lane], i))
            last[lane] = i
    for earlier, later in chained:
        following[earlier].append(later)
        waits[later] += 1
    return waits, following


def _as_ready(tasks: Sequence[Task], waits: Sequence[int], following: Sequence[Sequence[int]]) -> list[int]:
    """Return tasks in the order in which they can begin, where those of a lane begin in this order."""
    left, free = list(waits), dict[int, float]()
    ready = [(0.0, i) for i, count in enumerate(left) if not count]
    earliest = [0.0] * len(tasks)
    order = []
    while ready:
        at, i = heapq.heappop(ready)
        order.append(i)
        lane = tasks[i].lane
        end = (at if lane == NO_LANE else max(at, free.get(lane, 0.0))) + tasks[i].seconds
        if lane != NO_LANE:
            free[lane] = end
        for other in following[i]:
            earliest[other] = max(earliest[other], end)
            left[other] -= 1
            if not left[other]:
                heapq.heappush(ready, (earliest[other], other))
    return order


def _in_order(
    tasks: Sequence[Task], waits: Sequence[int], following: Sequence[Sequence[int]]
) -> tuple[list[int], list[float]]:
    """Return an order in which none waits for a later one, nearest to the given one, and when each begins at best."""
    left = list(waits)
    ready = [i for i, count in enumerate(left) if not count]
    begin = [0.0] * len(tasks)
    order = []
    while ready:
        i = heapq.heappop(ready)
        order.append(i)
        for other in following[i]:
            begin[other] = max(begin[other], begin[i] + tasks[i].seconds)
            left[other] -= 1
            if not left[other]:
                heapq.heappush(ready, other)
    return order, begin
