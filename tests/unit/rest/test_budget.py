"""What all clients share."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.rest.budget import Budget
from controller.rest.problems import ProblemError


@given(st.lists(st.tuples(st.integers(0, 12), st.booleans())), st.integers(1, 10))
def test_no_more_is_ever_taken_than_there_is_but_by_one_who_is_alone(wishes: list[tuple[int, bool]], most: int) -> None:
    budget, held = Budget(most, "too much"), 0
    for amount, alone in wishes:
        fits = amount == 0 or held + amount <= most or (alone and held == 0)
        if fits:
            budget.take(amount, alone=alone)
            held += amount
        else:
            with pytest.raises(ProblemError) as caught:
                budget.take(amount, alone=alone)
            assert (caught.value.status, dict(caught.value.headers)) == (503, {"Retry-After": "1"})
            budget.give(held)
            held = 0
        assert budget.used == held


def test_what_is_held_for_a_block_is_given_back_however_it_ends() -> None:
    budget = Budget(1, "too many")
    with contextlib.suppress(ZeroDivisionError), budget.held():
        with pytest.raises(ProblemError), budget.held():
            pass
        raise ZeroDivisionError
    assert budget.used == 0
