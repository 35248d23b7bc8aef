"""Quotas of tokens on requests for changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.caller import Caller, Quota, Role
from controller.rest.problems import ProblemError
from controller.rest.serving.change_rates import WINDOW, ChangeRates


@given(st.integers(0, 3), st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40)), max_size=20))
def test_no_window_has_more_changes_than_the_quota_and_what_is_refused_may_be_tried_when_it_says(
    most: int, steps: list[tuple[str, int]]
) -> None:
    rates, now = ChangeRates(), 1000.0
    taken: dict[str, list[float]] = {"a": [], "b": []}
    for name, later in steps:
        now += later
        caller = Caller(name, Role.WRITE, quota=Quota(changes=most))
        recent = [at for at in taken[name] if at > now - WINDOW]
        if len(recent) < most:
            rates.count(caller, now)
            taken[name].append(now)
            continue
        with pytest.raises(ProblemError) as caught:
            rates.count(caller, now)
        assert caught.value.status == 429
        wait = int(dict(caught.value.headers or {})["Retry-After"])
        assert 1 <= wait <= WINDOW
        if most:
            assert len([at for at in taken[name] if at > now + wait - WINDOW]) < most


def test_a_caller_without_a_quota_is_not_counted_and_a_lower_quota_counts_what_was_before() -> None:
    rates = ChangeRates()
    for _ in range(100):
        rates.count(Caller("a", Role.WRITE), 0.0)
    for at in range(5):
        rates.count(Caller("a", Role.WRITE, quota=Quota(changes=5)), float(at))
    with pytest.raises(ProblemError) as caught:
        rates.count(Caller("a", Role.WRITE, quota=Quota(changes=2)), 10.0)
    assert dict(caught.value.headers or {})["Retry-After"] == str(int(3 + WINDOW - 10))
