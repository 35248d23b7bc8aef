"""Failure analysis: every outcome is the plan that the controller would make, and the worst come first."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.cli.local.survive import _Pool
from controller.model.choices.failure_kind import FailureKind
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.traffic import Collective, Traffic
from controller.planning.make_plan import make_plan
from controller.planning.survival import (
    Situation,
    Survival,
    pairs,
    single_failures,
    survive,
    worst_sequence,
)
from tests.unit.laws import examples
from tests.unit.routing.instances import random_fabric, random_traffic, traffic_of
from tests.unit.routing.pod_fabrics import fat_tree, random_pods
from tests.unit.strategies import fabrics

KINDS = tuple(FailureKind)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    fabric = random_pods(rng) if draw(st.booleans()) else random_fabric(rng)
    return Situation.of(fabric, random_traffic(rng, fabric), policy="fair")


def speeds_of_plan(situation: Situation, left: Fabric) -> list[float]:
    """Return the slowest speed of each job by the plan's own objective and its slowdown against the healthy fabric."""
    plan = make_plan(left, situation.traffic, policy=situation.policy, previous=situation.previous, clock=lambda: 0.0)
    objective = plan.objective
    slowest: dict[str, float] = dict.fromkeys(situation.traffic.jobs, np.nan)
    for k, collective in enumerate(situation.traffic.collectives):
        speed = objective.speed[k]
        if np.isnan(speed):
            continue
        if speed > 0:
            speed *= objective.healthy_seconds[k] / objective.ideal_seconds[k]
        slowest[collective.job] = np.fmin(slowest[collective.job], speed)
    return list(slowest.values())


@settings(max_examples=examples(20, 120), deadline=None)
@given(situation=situations(), data=st.data())
def test_an_outcome_is_what_a_new_plan_for_the_remaining_fabric_gives(
    situation: Situation, data: st.DataObject
) -> None:
    failures = single_failures(situation.fabric, KINDS)
    if not failures:
        return
    failure = data.draw(st.sampled_from(failures))
    left = situation.fabric.without_links(failure.cables)
    np.testing.assert_allclose(situation.after(failure).speed, speeds_of_plan(situation, left), rtol=1e-9)


@settings(max_examples=examples(15, 90), deadline=None)
@given(situation=situations(), seed=st.integers(0, 2**32 - 1))
def test_outcomes_are_one_a_failure_with_the_worst_first(situation: Situation, seed: int) -> None:
    every = single_failures(situation.fabric, KINDS)
    # Each costs a plan, and large fabrics have hundreds.
    failures = [every[at] for at in np.random.default_rng(seed).permutation(len(every))[:12]]
    found = survive(situation, failures)
    assert sorted(str(outcome.failure) for outcome in found.outcomes) == sorted(map(str, failures))
    lowest = [outcome.min_speed for outcome in found.outcomes]
    assert all(a <= b + 1e-8 for a, b in pairwise(lowest))
    assert found.below(2.0) == len(failures)
    assert found.below(0.0) == 0


@given(fabric=fabrics())
def test_each_live_cable_fails_once_by_itself_and_once_with_its_spine(fabric: Fabric) -> None:
    live = sorted(name for name, cable in zip(fabric.cable_names, fabric.cables, strict=True) if cable.up)
    for kind in (FailureKind.CABLE, FailureKind.SPINE, FailureKind.UPLINKS):
        assert sorted(c for failure in single_failures(fabric, [kind]) for c in failure.cables) == live
    together = single_failures(fabric, [FailureKind.CABLE, FailureKind.UPLINKS])
    assert len({failure.cables for failure in together}) == len(together)


def test_in_three_layers_cores_aggregation_switches_and_cables_of_both_tiers_fail() -> None:
    fabric = fat_tree(4)
    of = {kind: single_failures(fabric, [kind]) for kind in FailureKind}
    assert {kind.value: len(failures) for kind, failures in of.items()} == {
        "cable": 32,
        "spine": 0,
        "aggregation": 8,
        "core": 4,
        "uplinks": 32,
    }
    (first,) = (each for each in of[FailureKind.AGGREGATION] if each.names == ("agg1",))
    assert set(first.cables) == {"leaf1-agg1", "leaf2-agg1", "agg1-core1", "agg1-core3"}
    assert all(len(each.cables) == 4 for each in of[FailureKind.CORE])


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_what_is_drained_in_three_layers_is_out_of_use_until_a_failure_leaves_nothing_else(seed: int) -> None:
    fabric = fat_tree(4)
    traffic = random_traffic(np.random.default_rng(seed), fabric)
    situation = dataclasses.replace(
        Situation.of(fabric, traffic, policy="fair"), drained=frozenset({"agg1", "core1", "core2"})
    )
    for failure in single_failures(fabric, [FailureKind.AGGREGATION, FailureKind.CORE]):
        assert situation.after(failure).unroutable == 0


@given(fabric=fabrics())
def test_a_pair_joins_two_failures_of_which_neither_contains_the_other(fabric: Fabric) -> None:
    single = single_failures(fabric, [FailureKind.CABLE, FailureKind.SPINE])[:12]
    for pair in pairs(single):
        one, other = (next(f for f in single if f.names == (name,)) for name in pair.names)
        assert set(pair.cables) == set(one.cables) | set(other.cables)
        assert set(one.cables) - set(other.cables)
        assert set(other.cables) - set(one.cables)


@settings(max_examples=examples(12, 75), deadline=None)
@given(situation=situations(), speed=st.sampled_from([0.1, 0.3, 0.6, 0.9]))
def test_a_sequence_of_failures_ends_with_the_first_that_leaves_a_job_below_the_speed(
    situation: Situation, speed: float
) -> None:
    failures = single_failures(situation.fabric, [FailureKind.SPINE])
    sequence = worst_sequence(situation, failures, speed, most=4)
    assert len(sequence) <= 4
    assert all(outcome.min_speed >= speed for outcome in sequence[:-1])
    assert [len(outcome.failure.names) for outcome in sequence] == list(range(1, len(sequence) + 1))
    if len(sequence) < min(4, len(failures)):
        assert (sequence[-1] if sequence else situation.before()).min_speed < speed


def test_a_leaf_that_loses_its_last_spine_stops_its_job_and_no_other() -> None:
    fabric = clos(2, 3, 2)
    traffic = _rings(fabric, {"alpha": (0, 2), "beta": (2, 4)})
    situation = Situation.of(fabric.without_links(["leaf1-spine1"]), traffic, policy="fair")
    found = survive(situation, single_failures(situation.fabric, [FailureKind.CABLE]))
    worst = found.outcomes[0]
    assert str(worst.failure) == "leaf1-spine2"
    assert worst.speed.tolist() == [0.0, 1.0]
    assert worst.unroutable == 2


def test_processes_give_the_outcomes_that_this_one_gives() -> None:
    fabric = clos(8, 64, 1)
    traffic = _rings(fabric, {"alpha": tuple(range(0, 64, 2)), "beta": tuple(range(1, 64, 2))})
    situation = Situation.of(fabric, traffic, policy="fair")
    # More than 500, the number from which on other processes are started.
    failures = single_failures(fabric, [FailureKind.CABLE]) + pairs(single_failures(fabric, [FailureKind.CABLE])[:24])
    assert len(failures) > 500
    here, elsewhere = survive(situation, failures), survive(situation, failures, _Pool(2))
    assert _table(here) == _table(elsewhere)


def test_a_failure_of_an_unknown_cable_is_refused() -> None:
    fabric = clos(2, 2, 1)
    with pytest.raises(KeyError):
        fabric.without_links(["leaf9-spine1"])


def _table(found: Survival) -> list[tuple[str, list[float], int, int]]:
    return [(str(o.failure), o.speed.tolist(), o.unroutable, o.moved) for o in found.outcomes]


def _rings(fabric: Fabric, jobs: dict[str, tuple[int, ...]]) -> Traffic:
    """Return one ring of 1 GB a flow for each job, over these hosts."""
    flows = [
        (src, dst, 10**9, k)
        for k, hosts in enumerate(jobs.values())
        for src, dst in zip(hosts, hosts[1:] + hosts[:1], strict=True)
    ]
    assert max(max(hosts) for hosts in jobs.values()) < fabric.n_hosts
    return traffic_of(flows, [Collective(name, "ring") for name in jobs])
