"""Sightings of the flows of a job, as hosts report them."""

from __future__ import annotations

from typing import Any

import numpy as np

from controller.learning.sightings import QpKey
from tests.unit.learning.drawn_sightings import Draw, Transfers, polled_counters

PERIOD, ITERATIONS = 1.5, 10


def sightings(flows: list[dict[str, Any]], now: float) -> dict[str, Any]:
    """Return what hosts report of flows that are sent in each of ten iterations until now."""
    n = len(flows)
    keys = tuple(QpKey(i, i, flow["udp_src"], i) for i, flow in enumerate(flows))
    sizes = np.array([flow["bytes"] for flow in flows], dtype=np.int64)
    transfers = Transfers(keys, np.arange(n, dtype=np.int32), sizes, np.full(n, 0.6), np.full(n, 1.2))
    batch = polled_counters(
        transfers, Draw(PERIOD, ITERATIONS, start=now - PERIOD * ITERATIONS), 0.1, np.random.default_rng(0)
    )
    return {
        "qps": [{key: flow[key] for key in ("src", "dst", "udp_src")} | {"dst_qp": i} for i, flow in enumerate(flows)],
        "qp": batch.qp.tolist(),
        "at": batch.at.tolist(),
        "bytes": batch.sent.tolist(),
    }
