"""Offloaded work that takes turns: its order, what it returns, and what a failure costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from controller import ryu_compat

ryu_compat.prepare()

from hypothesis import given, settings  # noqa: E402 (Ryu first)
from hypothesis import strategies as st  # noqa: E402
from ryu.lib import hub  # noqa: E402

from controller.southbound.openflow import in_turn  # noqa: E402
from controller.southbound.openflow.in_turn import InTurn  # noqa: E402
from tests.unit.southbound.plans import patient  # noqa: E402


class Thread:
    """Stands for the thread: counts how often it is entered, and has the event loop go on meanwhile."""

    def __init__(self) -> None:
        self.entered = 0
        self.inside = 0

    def execute(self, function: Callable[..., Any], *args: Any) -> Any:
        self.entered += 1
        self.inside += 1
        assert self.inside == 1
        hub.sleep(0)
        try:
            return function(*args)
        finally:
            self.inside -= 1


@settings(patient)
@given(fails=st.lists(st.booleans(), min_size=1, max_size=30), part=st.sampled_from([0.0, 10.0]))
def test_calls_of_one_moment_are_done_in_their_order_and_each_gets_its_own_outcome(
    fails: list[bool], part: float
) -> None:
    thread, order, outcomes = Thread(), list[int](), dict[int, Any]()
    turns = InTurn(thread.execute)

    def work(number: int) -> int:
        order.append(number)
        if fails[number]:
            raise KeyError(number)
        return -number

    def call(number: int) -> None:
        try:
            outcomes[number] = turns.run(work, number)
        except KeyError as error:
            outcomes[number] = error.args

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_turn, "TOGETHER_SECONDS", part)
        for each in [hub.spawn(call, number) for number in range(len(fails))]:
            each.wait()
    assert order == list(range(len(fails)))
    assert outcomes == {number: (number,) if fails[number] else -number for number in range(len(fails))}
    # Whoever comes while others are at work goes together with all who wait, unless these take too long.
    assert thread.entered <= (2 if part else len(fails))


def test_who_waits_hears_it_when_there_is_no_thread_and_later_calls_are_tried_again() -> None:
    broken = [True]

    def execute(function: Callable[..., Any], *args: Any) -> Any:
        if broken.pop():
            raise OSError("no thread")
        return function(*args)

    turns = InTurn(execute)
    with pytest.raises(OSError, match="no thread"):
        turns.run(len, "abc")
    broken.append(False)
    assert turns.run(len, "abc") == 3
