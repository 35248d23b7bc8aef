"""Reports of a job that goes on with every iteration, and what the controller planned of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.rig.controller import Controller
from tests.unit.learning.drawn_sightings import Draw, Transfers, edges, polled_counters

GB = 1_000_000_000


PERIOD, FIRST, UNCHANGED, ANOTHER = 0.5, 10, 100, 4


class Report:
    """What hosts report of the iterations of a ring, which vary by 1 % of the bytes and 5 % of the period."""

    def __init__(self, order: list[int], begin: float, iterations: int, first_qp: int) -> None:
        """Draw all iterations."""
        self.pairs = [(a, order[(i + 1) % len(order)]) for i, a in enumerate(order)]
        ring: Transfers = edges(self.pairs, GB, 0.2, PERIOD, first_qp=first_qp)
        draw = Draw(PERIOD, iterations, begin, period_jitter=0.05, bytes_jitter=0.01)
        self._keys = ring.keys
        self._batch = polled_counters(ring, draw, 0.04, np.random.default_rng(first_qp))
        self.end = float(self._batch.at[-1])

    def between(self, begin: float, end: float) -> dict[str, Any]:
        """Return the body of a request with the sightings of some time."""
        rows = (self._batch.at >= begin) & (self._batch.at < end)
        qps = [
            {"src": f"h{key.src + 1}", "dst": f"h{key.dst + 1}", "udp_src": key.udp_src, "dst_qp": key.dst_qp}
            for key in self._keys
        ]
        return {
            "qps": qps,
            "qp": self._batch.qp[rows].tolist(),
            "at": self._batch.at[rows].tolist(),
            "bytes": self._batch.sent[rows].tolist(),
        }


def planned(controller: Controller) -> set[tuple[str, str]]:
    return {(flow["src"], flow["dst"]) for flow in controller.get("/v1/plan").body["plan"]["flows"]}
