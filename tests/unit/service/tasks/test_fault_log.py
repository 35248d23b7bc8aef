"""The first of the faults that follow each other is logged, and the task goes on."""

from __future__ import annotations

import logging

import pytest

from controller.service.tasks.fault_log import FaultLog


def test_the_first_fault_after_a_success_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    outcomes = [True, False, False, True, False, True]
    faults, done = FaultLog("nothing was counted"), 0

    def step() -> None:
        nonlocal done
        done += 1
        if not outcomes[done - 1]:
            raise ValueError(f"step {done}")

    with caplog.at_level(logging.ERROR):
        for _ in outcomes:
            faults.run(step)
    assert done == len(outcomes)
    assert [(row.message, str(row.exc_info[1])) for row in caplog.records if row.exc_info] == [
        ("nothing was counted", "step 2"),
        ("nothing was counted", "step 5"),
    ]
