"""Expected iterations with links shared flow by flow."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.timing import JobTiming
from controller.model.tolerances import ROUNDING, TOLERANCE
from controller.model.traffic import Collective, Traffic
from controller.routing import assign
from controller.routing.kernels.times.flow_iterations import play
from controller.routing.kernels.times.flow_sharing import FlowLinks, FlowRates, begin, finish, no_rates, share
from controller.routing.problem.demand import Demand
from controller.routing.times import flow_estimate as estimate
from controller.routing.times.expected import expected_seconds, mean_slowdown
from controller.routing.times.flow_problem import flow_iterations, ring_steps
from controller.routing.times.stages import Stages
from tests.unit.laws import examples
from tests.unit.routing.instances import one_path, random_fabric, random_traffic, traffic_of

TENTH = 10**10 // 8  # bytes of 0.1 s at 100 Gbit/s


def computing(*seconds: float) -> list[Collective]:
    return [Collective("abc"[i], "c", timing=JobTiming(((0, each),))) for i, each in enumerate(seconds)]


def slowdown(fabric: Fabric, traffic: Traffic) -> float:
    found = estimate.flow_slowdowns(Stages.of(Demand.of(fabric, traffic)), [one_path(traffic.n_flows)])
    assert found is not None
    return found[0]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(40, 240), deadline=None)
def test_every_flow_has_a_full_link_on_which_none_is_faster_or_its_highest_rate(seed: int) -> None:
    # The condition for max-min fairness (Bertsekas and Gallager, 6.5.2), for rates by weight.
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng)
    traffic = random_traffic(rng, fabric)
    rows = tuple(dataclasses.replace(row, timing=JobTiming(((row.phase, 0.1),))) for row in traffic.collectives)
    stages = Stages.of(Demand.of(fabric, dataclasses.replace(traffic, collectives=rows)))
    problem = flow_iterations(stages, assign("random", fabric, traffic, seed=seed).assignment)
    links, n = problem.links, len(problem.gbit)
    rates = no_rates(n, len(links.capacity))
    for _ in range(3):
        # Flows begin and end; only those that this reaches get other rates.
        changed = np.flatnonzero(rng.random(n) < rng.uniform(0.1, 0.9))
        for r in changed:
            if rates.sends[r]:
                finish(links, rates, r)
            else:
                begin(links, rates, r, 1.0, 0.0)
        rates.changed[: len(changed)] = changed
        share(links, rates, len(changed), 0.0)
        check_rates(links, rates)


def check_rates(links: FlowLinks, rates: FlowRates) -> None:
    active, rate = np.flatnonzero(rates.sends), rates.rate
    on = {
        e: [r for r in active if e in links.flow_link[links.flow_ptr[r] : links.flow_ptr[r + 1]]]
        for e in range(len(links.capacity))
    }
    load = {e: sum(rate[r] for r in rows) for e, rows in on.items()}
    level = rate / links.weight
    for e, capacity in enumerate(links.capacity):
        assert load[e] <= capacity * (1 + 1e-7)
    for r in active:
        assert rates.end[r] * rate[r] == pytest.approx(1.0)
        assert rate[r] <= links.most[r] * (1 + 1e-7)
        assert rate[r] >= links.most[r] * (1 - 1e-7) or any(
            load[e] >= links.capacity[e] * (1 - 1e-7) and level[r] >= max(level[i] for i in on[e]) * (1 - 1e-7)
            for e in links.flow_link[links.flow_ptr[r] : links.flow_ptr[r + 1]]
        )


def test_alone_an_iteration_takes_as_long_as_alone() -> None:
    fabric = clos(1, 2, 1)
    assert slowdown(fabric, traffic_of([(0, 1, TENTH, 0)], computing(0.3))) == pytest.approx(1.0)


def test_two_that_always_send_share_a_link() -> None:
    fabric = clos(1, 2, 2)
    assert slowdown(fabric, traffic_of([(0, 2, TENTH, 0), (1, 3, TENTH, 1)], computing(0, 0))) == pytest.approx(2.0)


def test_in_a_ring_of_which_one_flow_is_slow_no_other_flow_ends_early() -> None:
    # The ring of a sends on both uplinks of each leaf: one is shared with two flows of b, which always sends, the other
    # with c, which begins to send after 0.2 s. By then the second flow of the ring has ended if each flow is by itself,
    # and c takes 0.5 s as alone. In six steps of 0.05 s, the flow shares the link in the first two thirds of each.
    flows = [(0, 5, TENTH, 0), (5, 1, TENTH, 0), (1, 6, TENTH, 0), (6, 0, TENTH, 0)]
    flows += [(2, 7, TENTH, 1), (3, 8, TENTH, 1), (4, 9, TENTH // 2, 2)]
    stages = Stages.of(Demand.of(clos(2, 2, 5), traffic_of(flows, computing(0.3, 0.0, 0.45))))
    plan = dataclasses.replace(one_path(7), path=np.array([0, 0, 1, 1, 0, 0, 1], dtype=np.int32))
    assert ring_steps(stages, 16).tolist() == [6, 1, 1]
    trial = estimate.Trial(plan, np.array([[-0.3, 0.0, -0.25]]), np.zeros(3), 1)
    at_once, in_steps = (trial.play(stages, trial.begins, steps, 10**9)[0] for steps in (1, 16))
    assert (in_steps - at_once) * 3 == pytest.approx((0.25 + 0.2 + 0.5 / 6) / 0.5 - 1.0, abs=1e-6)


def test_a_flow_that_ends_early_leaves_its_link_to_the_others() -> None:
    # Job a sends a long flow on one uplink and a short one, of a fifth, on the uplink that b uses. Together 0.02 s of
    # a's link time: b, which always sends, has 0.18 s of it in each iteration of a, of 0.2 s.
    flows = [(0, 4, TENTH, 0), (1, 5, TENTH // 5, 0), (2, 6, TENTH, 1)]
    fabric = clos(2, 2, 4)
    stages = Stages.of(Demand.of(fabric, traffic_of(flows, computing(0.1, 0.0))))
    plan = dataclasses.replace(one_path(3), path=np.array([0, 1, 1], dtype=np.int32))
    problem = flow_iterations(stages, plan)
    played = play(problem, np.zeros(2), np.zeros(2), 20.0, 10**9)
    assert played.busy / played.sent == pytest.approx([0.1, 0.1 / 0.9], rel=1e-3)


def test_the_times_of_a_plan_are_reported_with_each_flow_at_its_own_rate() -> None:
    # The instance above: taken as one, the flows of a would all take what the short one leaves to b.
    flows = [(0, 4, TENTH, 0), (1, 5, TENTH // 5, 0), (2, 6, TENTH, 1)]
    demand = Demand.of(clos(2, 2, 4), traffic_of(flows, computing(0.1, 0.0)))
    plan = dataclasses.replace(one_path(3), path=np.array([0, 1, 1], dtype=np.int32))
    times = estimate.plan_times(demand, plan)
    assert times is not None
    assert [row.iteration_seconds for row in times.jobs] == pytest.approx([0.2, 0.1 / 0.9], rel=0.02)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(10, 60), deadline=None)
def test_the_slowdown_that_is_reported_is_the_one_by_which_plans_are_compared(seed: int) -> None:
    demand, plans = drawn(seed)
    for plan, slowdown in zip(plans, estimate.flow_slowdowns(Stages.of(demand), plans) or [], strict=True):
        times = estimate.plan_times(demand, plan)
        assert times is not None
        assert times.slowdown == slowdown


def test_times_are_reported_where_each_flow_would_be_too_much_work(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = clos(1, 2, 2)
    demand = Demand.of(fabric, traffic_of([(0, 2, TENTH, 0), (1, 3, TENTH, 1)], computing(0.1, 0.1)))
    monkeypatch.setattr(estimate, "MOST_REPORTED", 10)
    times = estimate.plan_times(demand, one_path(2))
    assert times is not None
    stages = Stages.of(demand)
    assert times.slowdown == mean_slowdown(stages, expected_seconds(stages, one_path(2)))


def test_the_effort_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = clos(1, 2, 2)
    stages = Stages.of(Demand.of(fabric, traffic_of([(0, 2, TENTH, 0), (1, 3, TENTH, 1)], computing(0.1, 0.1))))
    monkeypatch.setattr(estimate, "MOST_COMPARED", 10)
    assert estimate.flow_slowdowns(stages, [one_path(2)]) is None
    monkeypatch.setattr(estimate, "MOST_COMPARED", 2000)
    few = estimate.flow_slowdowns(stages, [one_path(2)])
    monkeypatch.undo()
    assert few != estimate.flow_slowdowns(stages, [one_path(2)])


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(10, 60), deadline=None)
def test_the_fastest_plan_is_the_one_with_the_lowest_slowdown(seed: int) -> None:
    demand, plans = drawn(seed)
    stages = Stages.of(demand)
    slowdowns = estimate.flow_slowdowns(stages, plans)
    assert slowdowns is not None
    assert estimate.fastest(stages, plans) == int(np.argmin(slowdowns))


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(10, 60), deadline=None)
def test_a_plan_that_is_much_faster_is_found_by_few_draws_too(seed: int) -> None:
    demand, plans = drawn(seed)
    stages = Stages.of(demand)
    slowdowns = estimate.flow_slowdowns(stages, plans)
    assert slowdowns is not None
    with pytest.MonkeyPatch.context() as patch:
        one = estimate._Draws.of(stages, plans[0]).play(estimate._offsets(stages)[0], estimate.SHORT, 10**9)
        # Room for a short draw of each, and not for all draws.
        patch.setattr(estimate, "MOST_COMPARED", one * len(plans))
        found = estimate.fastest(stages, plans)
    assert found is not None
    assert slowdowns[found] <= min(slowdowns) * 1.25


def test_plans_that_are_too_much_work_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    demand, plans = drawn(1)
    stages = Stages.of(demand)
    assert estimate.fastest(stages, plans) is not None
    monkeypatch.setattr(estimate, "MOST_COMPARED", 1)
    assert estimate.fastest(stages, plans) is None


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(20, 120), deadline=None)
def test_a_plan_is_unhindered_if_its_slowdown_is_one(seed: int) -> None:
    demand, plans = drawn(seed)
    stages = Stages.of(demand)
    for plan, slowdown in zip(plans, estimate.flow_slowdowns(stages, plans) or [], strict=True):
        # Nearer to 1, a part of the draws may be slower than all of them.
        if abs(slowdown - 1.0) <= ROUNDING or slowdown > 1.0 + 100 * TOLERANCE:
            assert estimate.is_unhindered(stages, plan) == (slowdown <= 1.0 + TOLERANCE)


def drawn(seed: int) -> tuple[Demand, list[Assignment]]:
    """Jobs that compute between their collectives, and plans for them."""
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng)
    traffic = random_traffic(rng, fabric)
    timed = [dataclasses.replace(row, timing=JobTiming(((row.phase, 0.1),))) for row in traffic.collectives]
    demand = Demand.of(fabric, dataclasses.replace(traffic, collectives=tuple(timed)))
    names = ("greedy", "coloring", "first_fit", "random", "ecmp", "fair")
    return demand, [assign(name, fabric, demand.traffic).assignment for name in names]
