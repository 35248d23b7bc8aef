"""The float of tasks, against the length of the graph with longer tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.workload.importers.float_time import NO_LANE, Task, float_times

SECONDS = st.sampled_from((0.0, 0.25, 0.5, 1.0, 4.0))


@st.composite
def graphs(draw: st.DrawFn) -> list[Task]:
    """Tasks that wait for earlier ones only."""
    rows = draw(
        st.lists(st.tuples(SECONDS, st.integers(NO_LANE, 1), st.sets(st.integers(1, 4), max_size=3)), max_size=9)
    )
    return [
        Task(seconds, lane, tuple(i - back for back in sorted(before) if back <= i))
        for i, (seconds, lane, before) in enumerate(rows)
    ]


def length(tasks: list[Task]) -> float:
    """Return when all tasks have ended, with lanes in the order of the tasks."""
    ends: list[float] = []
    free: dict[int, float] = {}
    for task in tasks:
        begin = max([free.get(task.lane, 0.0), *(ends[other] for other in task.after)])
        ends.append(begin + task.seconds)
        if task.lane != NO_LANE:
            free[task.lane] = ends[-1]
    return max(ends, default=0.0)


@given(graphs())
def test_a_task_may_take_longer_by_its_float_and_by_no_more(tasks: list[Task]) -> None:
    whole, floats = float_times(tasks)
    assert whole == pytest.approx(length(tasks))
    for i, spare in enumerate(floats):
        for added in (spare, spare + 0.125):
            longer = [*tasks[:i], Task(tasks[i].seconds + added, tasks[i].lane, tasks[i].after), *tasks[i + 1 :]]
            assert length(longer) == pytest.approx(whole + added - spare)


@given(graphs())
def test_tasks_that_run_as_soon_as_they_can_take_no_less_than_a_lane_or_a_chain(tasks: list[Task]) -> None:
    whole, floats = float_times(tasks, in_order=False)
    lanes = {task.lane for task in tasks} - {NO_LANE}
    chain = length([Task(task.seconds, NO_LANE, task.after) for task in tasks])
    assert whole >= max([chain, *(sum(task.seconds for task in tasks if task.lane == lane) for lane in lanes)])
    assert whole <= sum(task.seconds for task in tasks)
    assert all(0 <= spare <= whole for spare in floats)
    # Greedy scheduling leaves no lane idle while one of its tasks could run (Graham 1966).
    assert whole <= chain + sum(task.seconds for task in tasks if task.lane != NO_LANE)


def test_a_task_that_can_begin_runs_before_one_that_stands_before_it_and_waits() -> None:
    tasks = [Task(1.0, 0, (1,)), Task(5.0, 1), Task(2.0, 0)]
    assert float_times(tasks) == (8.0, [0.0, 0.0, 0.0])
    assert float_times(tasks, in_order=False) == (6.0, [0.0, 0.0, 3.0])


def test_tasks_in_a_circle_have_no_float() -> None:
    whole, floats = float_times([Task(1.0, 0), Task(after=(2,)), Task(after=(1,)), Task(2.0, 0)])
    assert (whole, floats) == (3.0, [0.0] * 4)
