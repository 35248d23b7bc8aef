"""Plans of learned jobs change if flows are in no plan, or if it pays; never because estimates vary."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from controller.learning.acting import Need, need, pays
from tests.unit.learning.ring_jobs import OTHER, RING, by_name, job


@given(st.integers(990, 1010), st.floats(0.95, 1.05))
def test_estimates_that_vary_change_nothing(size: int, period: float) -> None:
    assert need(by_name(job(RING)), by_name(job(RING, size, period))) is Need.NONE


def test_flows_in_no_plan_are_planned_now() -> None:
    planned = by_name(job(RING))
    for present in (
        by_name(job(RING), job(OTHER)),
        by_name(job([(1, 3), (3, 2), (2, 1)])),
        by_name(job([*RING, (1, 3)])),
    ):
        assert need(planned, present) is Need.NOW


def test_planned_jobs_that_have_ended_make_no_other_job_move_unless_it_pays() -> None:
    assert need(by_name(job(RING), job(OTHER)), by_name(job(RING))) is Need.IF_IT_PAYS
    assert need(by_name(job(RING)), {}) is Need.IF_IT_PAYS


def test_what_only_changes_a_value_is_planned_if_it_pays() -> None:
    planned = by_name(job(RING))
    for present in (job(RING, 1200), job(RING, period=1.5), job(RING[:2])):
        assert need(planned, by_name(present)) is Need.IF_IT_PAYS


def test_other_source_ports_are_other_flows() -> None:
    before = job(RING)
    (group,) = before.groups
    moved = tuple(key._replace(udp_src=key.udp_src + 100) for key in group.qps)
    after = dataclasses.replace(before, groups=(dataclasses.replace(group, qps=moved),))
    assert after.name == before.name
    assert need(by_name(before), by_name(after)) is Need.NOW


@given(st.floats(0.1, 1), st.floats(0.1, 1), st.integers(0, 100), st.floats(0, 0.5))
def test_a_plan_pays_only_if_it_is_better_and_moves_something(
    kept: float, new: float, moved: int, price: float
) -> None:
    if pays(kept, new, moved, 100, price):
        assert new > kept
        assert moved
        assert not pays(new, kept, moved, 100, price)
        assert pays(kept, new, 1, 100, price)
