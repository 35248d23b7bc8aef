"""When the GPU of a rank runs kernels, in the times of a profiler's trace."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np


class GpuKernels:
    """The kernels of collectives, by their row in a table, and others, which compute."""

    def __init__(self) -> None:
        """Begin without kernels."""
        self._rows: list[tuple[int, float, float]] = []
        self._begins, self._ends = array("d"), array("d")

    def add(self, event: Mapping[str, Any], row: int | None) -> None:
        """Add an event if it is a kernel with valid times: of the collective in this row, or one that computes."""
        if event.get("cat") != "kernel":
            return
        begin, duration = event.get("ts"), event.get("dur")
        if not isinstance(begin, int | float) or not isinstance(duration, int | float):
            return
        if not math.isfinite(begin) or not 0 < duration < math.inf:
            return
        if row is not None:
            self._rows.append((row, float(begin), float(begin + duration)))
        else:
            self._begins.append(begin)
            self._ends.append(begin + duration)

    def overlaps(self) -> Iterator[tuple[int, float, float]]:
        """Yield each row, the time in which the GPU computed meanwhile, and the time of the collective's kernel."""
        begins, ends = np.array(self._begins), np.array(self._ends)
        order = np.argsort(begins, kind="stable")
        # Kernels of several streams count once: a kernel computes from the end of all before it, if it ends later.
        latest = np.maximum.accumulate(ends[order])
        begins = np.maximum(begins[order], np.concatenate([[-np.inf], latest[:-1]])[: len(latest)])
        busy = np.concatenate([[0.0], np.cumsum(np.maximum(latest - begins, 0.0))])

        def before(at: float) -> float:
            """Return the time in which the GPU computed before a time."""
            n = int(np.searchsorted(begins, at))
            return float(busy[n] - max(0.0, latest[n - 1] - at)) if n else 0.0

        for row, begin, end in self._rows:
            yield row, before(end) - before(begin), end - begin
