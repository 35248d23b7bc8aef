"""Which collectives of a rank's trace overlap with its computing, from what its nodes wait for."""

from __future__ import annotations

from typing import Any

from controller.workload.importers.chakra.trace import Key
from controller.workload.importers.float_time import NO_LANE, Task, float_times

ON_GPU, ON_CPU = 0, 1
"""The lanes of a rank."""

MOST_NODES = 1_000_000
"""Of longer traces the order is not examined: some hundred bytes a node."""

LEAST_PART = 0.01
"""A run has to have a float of this part of an iteration's computing, and of half of its own time if that is known."""


class TraceOrder:
    """The nodes of a rank's trace, and what they wait for."""

    def __init__(self) -> None:
        """Begin without nodes."""
        self._index: dict[int, int] = {}
        self._rows: list[tuple[float, int, tuple[int, ...]]] = []
        self._runs: list[tuple[int, Key, int, float]] = []
        self._is_known = True

    def add(self, node: Any, seconds: float = 0.0, *, on_gpu: bool = True) -> None:
        """Add a node that computes for so long, or only passes on."""
        if len(self._rows) == MOST_NODES or node.id in self._index:
            # Nodes with one number cannot be told apart.
            self._is_known = False
            return
        self._index[node.id] = len(self._rows)
        lane = (ON_GPU if on_gpu else ON_CPU) if seconds else NO_LANE
        self._rows.append((seconds, lane, (*node.data_deps, *node.ctrl_deps)))

    def add_run(self, node: Any, key: Key, size: int, seconds: float) -> None:
        """Add a run of a collective: its bytes, and the seconds that it took, if the trace has them."""
        self.add(node)
        self._runs.append((len(self._rows) - 1, key, size, seconds))

    def overlap(self, iterations: int) -> dict[Key, tuple[float, float]]:
        """Return for each collective the bytes of the runs that overlap with computing, and of all of them.

        Nothing where nodes do not say what they wait for.
        """
        if not self._is_known or not any(after for *_, after in self._rows):
            return {}
        tasks = [
            # Converters drop nodes, and leave references to them.
            Task(seconds, lane, tuple({self._index[number]: None for number in after if number in self._index}))
            for seconds, lane, after in self._rows
        ]
        whole, floats = float_times(tasks)
        least = LEAST_PART * whole / iterations
        bound = {other for task in tasks for other in task.after} | {i for i, task in enumerate(tasks) if task.after}
        sums: dict[Key, tuple[float, float]] = {}
        for i, key, size, seconds in self._runs:
            overlaps = i in bound and floats[i] > 0 and floats[i] >= max(least, seconds / 2)
            beside, every = sums.get(key, (0.0, 0.0))
            sums[key] = (beside + size * overlaps, every + size)
        return sums
