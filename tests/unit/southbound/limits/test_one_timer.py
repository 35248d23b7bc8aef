"""A timer runs its function some time after each request, with one timer at a time."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.southbound.limits.one_timer import LATE, OneTimer


class World:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self._tasks: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def later(self, seconds: float, task: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._tasks, (self.now + seconds, self._number, task))

    def until(self, moment: float) -> None:
        while self._tasks and self._tasks[0][0] <= moment:
            at, _, task = heapq.heappop(self._tasks)
            self.now = max(self.now, at)
            task()
        self.now = max(self.now, moment)


@given(gaps=st.lists(st.floats(0, 9), max_size=60), seconds=st.floats(0.1, 5))
def test_a_run_follows_each_request_in_time_and_there_is_one_timer_at_most(gaps: list[float], seconds: float) -> None:
    world, runs, asked = World(), list[float](), list[float]()
    timer = OneTimer(lambda: runs.append(world.now), seconds, world.later, lambda: world.now)
    for gap in gaps:
        world.until(world.now + gap)
        asked.append(world.now)
        timer()
        assert len(world._tasks) == 1
    world.until(world.now + 2 * seconds + 10)
    assert world._tasks == []
    for moment in asked:
        assert any(-1e-6 <= run - moment - seconds <= LATE + 1e-6 for run in runs)
    assert len(runs) <= len(asked) * (1 + seconds / LATE) + 1


def test_a_timer_goes_on_after_a_run_that_fails() -> None:
    world, runs = World(), []

    def work() -> None:
        runs.append(world.now)
        raise KeyError

    timer = OneTimer(work, 5.0, world.later, lambda: world.now)
    for moment in (5.0, 10.0):
        timer()
        with pytest.raises(KeyError):
            world.until(moment)
    assert runs == [5.0, 10.0]
