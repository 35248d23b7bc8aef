"""QPs from the environment that NCCL logs."""

from __future__ import annotations

import pytest

from controller.model.queue_pairs import QueuePairs
from controller.workload.importers.nccl import queue_pairs_of
from controller.workload.importers.nccl.log import Log
from controller.workload.importers.notes import Notes


@pytest.mark.parametrize(
    ("settings", "qps"),
    [
        ([], None),
        (["NCCL_IB_QPS_PER_CONNECTION set by environment to 1."], None),
        (["NCCL_IB_QPS_PER_CONNECTION set by environment to 4."], QueuePairs(4, "round_robin")),
        (
            [
                "NCCL_IB_QPS_PER_CONNECTION set by environment to 8.",
                "NCCL_IB_SPLIT_DATA_ON_QPS set by environment to 1.",
            ],
            QueuePairs(8, "split"),
        ),
        (["NCCL_IB_QPS_PER_CONNECTION set by environment to 500."], QueuePairs(128, "round_robin")),
    ],
)
def test_qps_are_those_of_the_environment(settings: list[str], qps: QueuePairs | None) -> None:
    log = Log(Notes())
    for line in settings:
        assert log.add("log:1", f"host:12:34 [0] NCCL INFO {line}")
    assert queue_pairs_of(log) == qps
    assert bool(log.notes.sentences()) == (qps is not None and qps.mode == "round_robin")


def test_ranks_with_different_qps_are_told() -> None:
    log = Log(Notes())
    for pid, qps in ((12, 4), (13, 2)):
        log.add("log:1", f"host:{pid}:34 [0] NCCL INFO NCCL_IB_QPS_PER_CONNECTION set by environment to {qps}.")
    assert queue_pairs_of(log) == QueuePairs(2, "round_robin")
    assert "different values of NCCL_IB_QPS_PER_CONNECTION: [2, 4]" in log.notes.warnings()[0]


@pytest.mark.parametrize(("value", "qps"), [("0", None), ("1000000000", QueuePairs(128, "round_robin"))])
def test_a_number_of_qps_that_nccl_does_not_use_is_told_with_the_one_that_it_does(
    value: str, qps: QueuePairs | None
) -> None:
    log = Log(Notes())
    log.add("log:1", f"host:12:34 [0] NCCL INFO NCCL_IB_QPS_PER_CONNECTION set by environment to {value}.")
    assert queue_pairs_of(log) == qps
    (warning,) = log.notes.warnings()
    assert f"NCCL_IB_QPS_PER_CONNECTION is {value}, NCCL uses {1 if qps is None else 128}" in warning
