"""Counters that are late: which of their readings tell something.

A switch may show what a flow has sent some time later, all at once. Amid a burst, readings of such a counter rise and
stand still by turns, at distances of the switch's and the reader's clocks, which look like iterations.
"""

from __future__ import annotations

import numpy as np

from controller.learning.sightings import QpKey, SightingBatch

LATE_SECONDS = 1.5
"""Open vSwitch shows bytes up to a second late; readings take their time, too."""
FORGOTTEN_SECONDS = 600.0
"""Silence of a leaf after which a counter of it is new."""


class LateCounters:
    """Takes readings of counters in order of time, and leaves out those that are equal only because they are late."""

    def __init__(self) -> None:
        """Begin without readings."""
        self._changed: dict[QpKey, tuple[int, float]] = {}
        self._pruned = 0.0

    def certain(self, batch: SightingBatch) -> SightingBatch:
        """Return the readings that differ from the one before, or are equal for longer than a counter may be late."""
        changed, kept = self._changed, np.zeros(len(batch.qp), dtype=np.bool_)
        rows = zip(batch.qp.tolist(), batch.at.tolist(), batch.sent.tolist(), strict=True)
        for row, (qp, at, sent) in enumerate(rows):
            before = changed.get(batch.keys[qp])
            if before is None or before[0] != sent:
                changed[batch.keys[qp]] = sent, at
                kept[row] = True
            else:
                kept[row] = at - before[1] > LATE_SECONDS
        self._prune(float(batch.at.max(initial=0.0)))
        return batch._replace(qp=batch.qp[kept], at=batch.at[kept], sent=batch.sent[kept])

    def _prune(self, now: float) -> None:
        if now - self._pruned > FORGOTTEN_SECONDS:
            self._changed = {key: last for key, last in self._changed.items() if now - last[1] < FORGOTTEN_SECONDS}
            self._pruned = now
