"""The QPs of a connection, from the environment that NCCL logs."""

from __future__ import annotations

from controller.model.choices.qp_mode import MOST_QPS
from controller.model.queue_pairs import QueuePairs
from controller.workload.importers.nccl.log import Log


def queue_pairs_of(log: Log) -> QueuePairs | None:
    """Return the QPs of each connection; ``None``: ``NCCL_IB_QPS_PER_CONNECTION`` was not set, or is 1.

    Where ranks have different values the smallest one counts, with a warning. Without ``NCCL_IB_SPLIT_DATA_ON_QPS``
    messages take turns, as in NCCL 2.20 and later.
    """
    counts = log.qp_settings.get("QPS_PER_CONNECTION", {1})
    if len(counts) > 1:
        log.notes.warn(f"ranks have different values of NCCL_IB_QPS_PER_CONNECTION: {sorted(counts)}")
    # NCCL itself uses at least one and at most this many.
    count = min(max(min(counts), 1), MOST_QPS)
    if count not in counts:
        log.notes.warn(f"NCCL_IB_QPS_PER_CONNECTION is {min(counts)}, NCCL uses {count} (1 to {MOST_QPS})")
    if count == 1:
        return None
    split = log.qp_settings.get("SPLIT_DATA_ON_QPS")
    if split is None:
        log.notes.once("NCCL_IB_SPLIT_DATA_ON_QPS is not in the log: whole messages take turns (NCCL 2.20 and later)")
    return QueuePairs(count, "split" if split is not None and min(split) else "round_robin")
