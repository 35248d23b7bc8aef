"""A planned flow leaves the plan once it has been in no learned job for as long as a job may be silent, not before."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from controller.learning.acting import flows_of
from controller.learning.ended_flows import EndedFlows
from controller.learning.learned_job import LearnedJob
from controller.learning.life import LEAST_SILENCE, SILENT_PERIODS, expires
from tests.unit.learning.ring_jobs import OTHER, RING, by_name, job

EDGES = [*RING, (1, 3), (2, 1)]
SECONDS = st.floats(0, 40)
LOOKS = st.lists(st.tuples(SECONDS, st.lists(st.sampled_from(EDGES), unique=True), st.floats(0, 20)), max_size=12)
"""Seconds since the look before, the edges of the job that is found then, and its period."""


def at(time: float, edges: list[tuple[int, int]], period: float = 1.0) -> dict[str, LearnedJob]:
    return by_name(dataclasses.replace(job(edges, period=period), begun=time, seen=time)) if edges else {}


@given(LOOKS, SECONDS)
def test_flows_end_when_the_last_job_that_had_them_would_have_expired(
    looks: list[tuple[float, list[tuple[int, int]], float]], rest: float
) -> None:
    planned = at(0.0, EDGES)
    ended, now = EndedFlows(), 0.0
    ended.look(planned, planned)
    last = dict.fromkeys(flows_of(planned), expires(next(iter(planned.values()))))
    absent = set[tuple[int, int, int]]()
    for seconds, edges, period in looks:
        now += seconds
        present = at(now, edges, period)
        ended.look(planned, present)
        absent = flows_of(planned) - flows_of(present)
        last |= {flow: expires(one) for one in present.values() for flow in flows_of({one.name: one})}
        assert ended.at(now) == {flow for flow in absent if now >= last[flow]}
    now += rest
    assert ended.at(now) == {flow for flow in absent if now >= last[flow]}


@given(st.lists(st.floats(0, LEAST_SILENCE - 0.01), max_size=20), st.floats(0, LEAST_SILENCE / SILENT_PERIODS))
def test_a_flow_that_comes_back_in_time_never_ends(silences: list[float], period: float) -> None:
    planned, ended, now = at(0.0, RING, period), EndedFlows(), 0.0
    for silence in silences:
        ended.look(planned, at(now, RING, period))
        now += silence
        ended.look(planned, at(now, RING[:2], period))
        assert not ended.at(now)


def test_other_jobs_do_not_keep_a_flow() -> None:
    planned = at(0.0, RING) | at(0.0, OTHER, 20.0)
    ended = EndedFlows()
    ended.look(planned, planned)
    for now in range(1, 120):
        ended.look(planned, at(float(now), RING))
        assert bool(ended.at(now)) == (now >= SILENT_PERIODS * 20.0)
    assert ended.at(119.0) == flows_of(at(0.0, OTHER))
    ended.look(at(0.0, RING), at(119.0, RING))
    assert not ended.at(1000.0)


def test_a_forgotten_flow_ends_at_the_next_look_unless_it_is_there() -> None:
    planned, ended = at(0.0, RING), EndedFlows()
    ended.look(planned, planned)
    ended.forget(flows_of(planned))
    ended.look(planned, at(1.0, RING[:1]))
    assert ended.at(1.0) == flows_of(at(0.0, RING[1:]))
