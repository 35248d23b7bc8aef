"""The memory budget that all HTTP clients share."""

from __future__ import annotations

import contextlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.rest.problems import ProblemError
from controller.rest.serving.budget import Budget

CLIENTS = st.sampled_from("abc")


@given(st.lists(st.tuples(CLIENTS, st.integers(0, 12), st.booleans())), st.integers(1, 20))
def test_a_client_never_takes_more_than_it_leaves_free_but_one_who_is_alone(
    wishes: list[tuple[str, int, bool]], most: int
) -> None:
    budget, held = Budget(most, "too much"), Counter[str]()
    for who, amount, alone in wishes:
        free = most - held.total()
        if amount == 0 or held[who] + amount <= free or (alone and held.total() == 0):
            budget.take(amount, who=who, alone=alone)
            held[who] += amount
        else:
            with pytest.raises(ProblemError) as caught:
                budget.take(amount, who=who, alone=alone)
            assert (caught.value.status, dict(caught.value.headers or {})) == (503, {"Retry-After": "1"})
            for name, count in held.items():
                budget.give(count, who=name)
            held.clear()
        assert budget.used == held.total()


@given(st.integers(1, 20), st.integers(1, 10))
def test_greedy_clients_get_equal_shares_and_leave_one_for_the_next(clients: int, each: int) -> None:
    budget = Budget((clients + 1) * each, "too much")
    held: Counter[int] = Counter()
    wanting = set(range(clients))
    while wanting:
        for client in sorted(wanting):
            try:
                budget.take(who=str(client))
                held[client] += 1
            except ProblemError:
                wanting.discard(client)
    assert max(held.values()) - min(held.values()) <= 1
    budget.take(who="one more")


def test_what_is_held_for_a_block_is_given_back_however_it_ends() -> None:
    budget = Budget(2, "too many")
    with contextlib.suppress(ZeroDivisionError), budget.held():
        with pytest.raises(ProblemError), budget.held():
            pass
        raise ZeroDivisionError
    assert budget.used == 0
