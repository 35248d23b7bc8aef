"""The iterations that a job needs until it is learned are those that had ended when all of its flows were seen."""

from __future__ import annotations

from typing import Any

from emulation.experiments.job_clock import JobClock
from emulation.experiments.learned_truth import SentJob
from emulation.experiments.learned_watch import LearnedWatch
from emulation.roce.job_cycle import JobCycle

SENT = SentJob("a", {("h1", "h2", 1): 8.0, ("h2", "h1", 2): 8.0}, 2.0)


def document(edges: list[tuple[str, str, int]]) -> dict[str, Any]:
    flows = [{"src": src, "dst": dst, "udp_src": port, "bytes": 8} for src, dst, port in edges]
    return {"summary": {"name": "x", "period_seconds": 2.0, "iterations": 3}, "job": {"flows": flows}}


def test_a_job_is_learned_when_its_last_flow_is_and_later_looks_change_nothing() -> None:
    clock, told = JobClock([JobCycle("a", 9, ((0, 1.0),))]), list[dict[str, Any]]()
    watch = LearnedWatch(lambda: told, [SENT], clock)
    edges = list(SENT.bytes)
    for stage, known in enumerate(([], edges[:1], edges, edges)):
        told[:] = [document(known)] if known else []
        clock.on_ended("a", stage, 10.0 * stage)
        watch.look()
    assert watch.iterations == {"a": 3}
