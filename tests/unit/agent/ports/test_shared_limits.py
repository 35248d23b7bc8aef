"""Searches of many hosts at routers with one limit for the probes of all of them, simulated."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from agent.ports.answer_budgets import LEAST_PART, AnswerBudgets
from agent.ports.probe_task import AnswerBudget
from benchmarks.running.port_search_scale import simulate


@given(seed=st.integers(0, 100))
def test_all_flows_have_ports_about_as_soon_as_the_limit_of_routers_allows(seed: int) -> None:
    done = simulate(24, 4, 8, 6.0, seed=seed)
    assert {*done.states} == {"complete"}
    assert max(done.ends) <= 2.5 * done.least
    assert done.refused <= done.sent / 4


@given(
    share=st.floats(0.01, 0.5),
    routers=st.sets(st.sampled_from("abcdefgh"), min_size=1),
    lost=st.floats(0, 1),
    seed=st.integers(0, 1000),
)
def test_a_share_is_kept_and_grows_to_the_rate_of_one_host_at_most(
    share: float, routers: set[str], lost: float, seed: int
) -> None:
    budget, random = AnswerBudget(1000, 1.0, share), Random(seed)
    budgets, now, sent = AnswerBudgets(budget), 0.0, 0
    every = sorted(routers)
    while sent < 60:
        now += budgets.wait(every, now) + 1e-9
        assert budgets.allows(every, now)
        budgets.send(every, now)
        sent += 1
        # Between the share of the worst times and what one host may ask for.
        least, most = share * LEAST_PART * len(every), len(every)
        assert sent <= 1 + len(every) + most * now
        assert now <= sent / least + 1
        if random.random() < lost:
            budgets.lost(every, now)
        else:
            budgets.answered(every, random.choice(every), now)
