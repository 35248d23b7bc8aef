"""How connections use several QPs, by name; apart from ``queue_pairs``, so that commands start without NumPy."""

from __future__ import annotations

from typing import Literal, get_args

QpMode = Literal["split", "round_robin"]
"""Whether every message is cut into parts for all QPs, or whole messages take turns."""

QP_MODES: tuple[QpMode, ...] = get_args(QpMode)

MOST_QPS = 128
"""Most QPs of a connection, as in NCCL (``NCCL_IB_MAX_QPS``)."""
