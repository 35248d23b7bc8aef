"""A job's clock tells when it computes and sends, from the ends of its stages."""

from __future__ import annotations

import time

import pytest

from emulation.experiments.learned.job_clock import JobClock
from emulation.roce.job_cycle import JobCycle

TWO_PHASES = JobCycle("a", 5, ((0, 30.0), (1, 10.0)))


def test_bursts_begin_when_the_computing_before_their_phase_is_over() -> None:
    clock = JobClock([TWO_PHASES])
    assert clock.shortest_burst() == 0
    for stage, at in enumerate((100.0, 112.0, 145.0, 156.0)):
        clock.on_ended("a", stage, at)
    assert [(burst.begin, burst.end) for burst in clock.bursts()] == [(110, 112), (142, 145), (155, 156)]
    assert clock.shortest_burst() == pytest.approx(1.0)
    assert clock.iterations("a") == 2


def test_jobs_are_idle_while_all_compute_and_send_while_none_does() -> None:
    clock = JobClock([TWO_PHASES, JobCycle("b", 5, ((0, 20.0),))])
    now = time.monotonic()
    clock.on_ended("a", 0, now - 5)
    assert (clock.idle_for(), clock.sending_for()) == (0, 0), "nothing is known of b"
    clock.on_ended("b", 0, now)
    assert 0 < clock.idle_for() <= 5
    assert clock.sending_for() == 0
    clock.on_ended("a", 1, now - 25)
    assert clock.idle_for() <= 5
    clock.on_ended("b", 1, now - 30)
    assert clock.idle_for() == 0, "b sends"
    assert clock.sending_for() == 0, "a computes"
    clock.on_ended("a", 2, now - 20)
    assert clock.sending_for() >= 10
