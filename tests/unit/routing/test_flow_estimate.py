"""Expected iterations with links shared flow by flow."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.clos import clos
from controller.model.fabric import Fabric
from controller.model.timing import JobTiming
from controller.model.traffic import Collective, Traffic
from controller.routing import assign
from controller.routing import flow_estimate as estimate
from controller.routing.demand import Demand
from controller.routing.expected import expected_seconds, mean_slowdown
from controller.routing.kernels.flow_iterations import play
from controller.routing.kernels.flow_sharing import FlowLinks, FlowRates, begin, finish, no_rates, share
from controller.routing.stages import Stages
from tests.unit.routing.instances import one_path, random_fabric, random_traffic, traffic_of

TENTH = 10**10 // 8  # bytes of 0.1 s at 100 Gbit/s


def computing(*seconds: float) -> list[Collective]:
    return [Collective("abc"[i], "c", timing=JobTiming(((0, each),))) for i, each in enumerate(seconds)]


def slowdown(fabric: Fabric, traffic: Traffic) -> float:
    found = estimate.flow_slowdowns(Stages.of(Demand.of(fabric, traffic)), [one_path(traffic.n_flows)])
    assert found is not None
    return found[0]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=80, deadline=None)
def test_every_flow_has_a_full_link_on_which_none_is_faster_or_its_highest_rate(seed: int) -> None:
    # The condition for max-min fairness (Bertsekas and Gallager, 6.5.2), for rates by weight.
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng)
    traffic = random_traffic(rng, fabric)
    rows = tuple(dataclasses.replace(row, timing=JobTiming(((row.phase, 0.1),))) for row in traffic.collectives)
    stages = Stages.of(Demand.of(fabric, dataclasses.replace(traffic, collectives=rows)))
    problem = estimate.flow_iterations(stages, assign("random", fabric, traffic, seed=seed).assignment)
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
    on = {e: [r for r in active if e in links.flow_link[links.flow_ptr[r] : links.flow_ptr[r + 1]]]
          for e in range(len(links.capacity))}  # fmt: skip
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


def test_a_flow_that_ends_early_leaves_its_link_to_the_others() -> None:
    # Job a sends a long flow on one uplink and a short one, of a fifth, on the uplink that b uses. Together 0.02 s of
    # a's link time: b, which always sends, has 0.18 s of it in each iteration of a, of 0.2 s.
    flows = [(0, 4, TENTH, 0), (1, 5, TENTH // 5, 0), (2, 6, TENTH, 1)]
    fabric = clos(2, 2, 4)
    stages = Stages.of(Demand.of(fabric, traffic_of(flows, computing(0.1, 0.0))))
    plan = dataclasses.replace(one_path(3), path=np.array([0, 1, 1], dtype=np.int32))
    problem = estimate.flow_iterations(stages, plan)
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
@settings(max_examples=20, deadline=None)
def test_the_slowdown_that_is_reported_is_the_one_by_which_plans_are_compared(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng)
    traffic = random_traffic(rng, fabric)
    timed = [dataclasses.replace(row, timing=JobTiming(((row.phase, 0.1),))) for row in traffic.collectives]
    demand = Demand.of(fabric, dataclasses.replace(traffic, collectives=tuple(timed)))
    plan = assign("first_fit", fabric, demand.traffic).assignment
    times = estimate.plan_times(demand, plan)
    assert times is not None
    assert [times.slowdown] == estimate.flow_slowdowns(Stages.of(demand), [plan])


def test_times_are_reported_where_each_flow_would_be_too_much_work(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = clos(1, 2, 2)
    demand = Demand.of(fabric, traffic_of([(0, 2, TENTH, 0), (1, 3, TENTH, 1)], computing(0.1, 0.1)))
    monkeypatch.setattr(estimate, "MOST_EXAMINED", 10)
    times = estimate.plan_times(demand, one_path(2))
    assert times is not None
    stages = Stages.of(demand)
    assert times.slowdown == mean_slowdown(stages, expected_seconds(stages, one_path(2)))


def test_the_effort_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = clos(1, 2, 2)
    stages = Stages.of(Demand.of(fabric, traffic_of([(0, 2, TENTH, 0), (1, 3, TENTH, 1)], computing(0.1, 0.1))))
    monkeypatch.setattr(estimate, "MOST_EXAMINED", 10)
    assert estimate.flow_slowdowns(stages, [one_path(2)]) is None
    monkeypatch.setattr(estimate, "MOST_EXAMINED", 2000)
    few = estimate.flow_slowdowns(stages, [one_path(2)])
    monkeypatch.undo()
    assert few != estimate.flow_slowdowns(stages, [one_path(2)])
