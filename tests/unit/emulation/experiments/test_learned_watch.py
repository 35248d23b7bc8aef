"""The iterations that a job needs until it is learned are those that had ended when that was seen."""

from __future__ import annotations

from typing import Any

import pytest

from emulation.experiments.learned.job_clock import JobClock
from emulation.experiments.learned.learned_truth import SentJob
from emulation.experiments.learned.learned_watch import LearnedWatch
from emulation.roce.job_cycle import JobCycle

EDGES = [("h1", "h2", 1), ("h2", "h1", 2)]
SENT = SentJob("a", dict.fromkeys(EDGES, 1000.0), 2.0)


def document(edges: list[tuple[str, str, int]], size: int = 1000, period: float | None = 2.0) -> list[dict[str, Any]]:
    flows = [{"src": src, "dst": dst, "udp_src": port, "bytes": size} for src, dst, port in edges]
    return [{"summary": {"name": "x", "period_seconds": period, "iterations": 3}, "job": {"flows": flows}}]


WRONG, EXACT = document(EDGES, period=1.0), document(EDGES, 1005, 2.03)


@pytest.mark.parametrize(
    ("answers", "appeared", "known"),
    [
        ([[], document(EDGES[:1]), EXACT, EXACT], 3, 3),
        ([[], WRONG, document(EDGES, period=None), EXACT], 2, 4),
        ([EXACT, EXACT, WRONG, EXACT], 1, 4),
        ([[], EXACT, EXACT, document(EDGES, 1011)], 2, None),
        ([[], [], document(EDGES[:1]), []], None, None),
    ],
)
def test_a_job_appears_with_its_last_flow_and_is_known_when_its_figures_stay_exact(
    answers: list[list[dict[str, Any]]], appeared: int | None, known: int | None
) -> None:
    clock, told = JobClock([JobCycle("a", 9, ((0, 1.0),))]), list[dict[str, Any]]()
    watch = LearnedWatch(lambda: list(told), ["a"], clock)
    for stage, answer in enumerate(answers):
        told[:] = answer
        clock.on_ended("a", stage, 10.0 * stage)
        watch.look()
    assert watch.appeared(SENT) == appeared
    assert watch.known(SENT, 0.01) == known
