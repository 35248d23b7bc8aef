"""Which messages and all-reduces of a task graph overlap with its computing, and how long that takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.workload.importers.float_time import NO_LANE, Task, float_times

LEAST_PART = 0.01
"""A communication overlaps with computing if it may take this part of the computing without that all take longer, and
half of its own time if that is known."""

MOST_TASKS = 1_000_000
"""The order of larger graphs is not examined: some hundred bytes a task."""


@dataclass(frozen=True, slots=True)
class GraphTask:
    """A task of the file.

    Attributes:
        seconds: of computing; 0: communication.
        device: node and number of that on which it computes, one task after the other; ``None``: on none.
        next: numbers of the tasks that wait for it.
        expected: seconds that the file expects of a communication; 0: not known.
    """

    seconds: float
    device: tuple[int, int] | None
    next: tuple[int, ...]
    expected: float


@dataclass(frozen=True)
class GraphOrder:
    """What the order of a graph says.

    Attributes:
        seconds: from the begin of an iteration to the end of its last computation, if communication took no time.
        overlapping: numbers of the tasks that may take a part of that without that it takes longer.
    """

    seconds: float
    overlapping: frozenset[int]


def order_of(tasks: Mapping[int, GraphTask]) -> GraphOrder | None:
    """Return what the order of the tasks says; ``None`` if they compute nothing, or are too many.

    Args:
        tasks: by their numbers; those of ``next`` are among them.
    """
    if len(tasks) > MOST_TASKS:
        return None
    index = {number: i for i, number in enumerate(tasks)}
    after: list[list[int]] = [[] for _ in tasks]
    for number, task in tasks.items():
        for other in task.next:
            after[index[other]].append(index[number])
    lane = {device: i for i, device in enumerate(dict.fromkeys(task.device for task in tasks.values()))}
    lane[None] = NO_LANE
    rows = [
        Task(task.seconds, lane[task.device], tuple(dict.fromkeys(before)))
        for task, before in zip(tasks.values(), after, strict=True)
    ]
    whole, floats = float_times(rows, in_order=False)
    if whole <= 0:
        return None
    # Without an edge nothing is known of when a task runs.
    bound = {number for number, row in zip(tasks, rows, strict=True) if row.after or tasks[number].next}
    late = frozenset(
        number
        for (number, task), spare in zip(tasks.items(), floats, strict=True)
        if number in bound and not task.seconds and spare >= max(LEAST_PART * whole, task.expected / 2)
    )
    return GraphOrder(whole, late)
