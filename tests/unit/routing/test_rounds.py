"""Rounds of collectives: which flows are in each, and what plans and paces make of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.job import Algorithm, CollectiveCall, Job
from controller.model.timing import JobTiming
from controller.model.traffic import Collective, Traffic
from controller.model.waits import Waits
from controller.routing import Options, assign
from controller.routing.objective.fairness import evaluate
from controller.routing.pacing.paces import wire_paces
from controller.routing.policies.coloring import color_units
from controller.routing.problem.demand import Demand
from controller.routing.problem.rounds import MOST_ROUNDS, by_rounds, steps_of_rounds
from controller.workload.expand import JobTraffic, expand
from emulation.evaluation.steps import schedule_of
from tests.unit.laws import examples

ALGORITHMS: tuple[Algorithm, ...] = ("halving_doubling", "tree")
FABRIC = clos(4, 4, 8)


def reducing(
    fabric: Fabric, algorithm: Algorithm, n: int, seed: int, channels: int | None = None
) -> tuple[Job, Traffic]:
    """A job of one all-reduce over n drawn hosts, and its flows."""
    order = np.random.default_rng(seed).permutation(fabric.n_hosts)[:n]
    call = CollectiveCall("c", "all_reduce", tuple(range(n)), 2**22, algorithm=algorithm, channels=channels)
    job = Job("a", hosts=tuple(fabric.host_names[h] for h in order.tolist()), collectives=(call,))
    return job, of_job(expand(fabric, job))


def of_job(job: JobTraffic) -> Traffic:
    return Traffic(job.src, job.dst, job.bytes, job.collective, job.number, job.udp_src, job.collectives)


@settings(max_examples=examples(30, 300), deadline=None)
@given(st.sampled_from(ALGORITHMS), st.integers(2, 20), st.integers(1, 3), st.integers(0, 9))
def test_flows_of_a_round_wait_for_no_later_round(algorithm: Algorithm, n: int, channels: int, seed: int) -> None:
    job, traffic = reducing(FABRIC, algorithm, n, seed, channels=channels)
    divided = by_rounds(traffic)
    for column in ("src", "dst", "bytes", "number", "udp_src"):
        np.testing.assert_array_equal(getattr(divided, column), getattr(traffic, column))
    assert {row.name for row in divided.collectives} == {"c"}
    phase = divided.phase
    np.testing.assert_array_equal(phase, np.arange(len(phase)))
    assert (np.bincount(divided.collective) > 0).sum() == len(phase)
    schedule = schedule_of(FABRIC, job, traffic)
    first = np.full(traffic.n_flows, schedule.n_groups)
    np.minimum.at(first, schedule.flow, schedule.group)
    reaches = np.zeros((schedule.n_groups, schedule.n_groups), dtype=np.bool_)
    reaches[schedule.before, schedule.after] = True
    for g in range(schedule.n_groups):
        reaches |= reaches[:, [g]] & reaches[[g]]
    for one, other in np.argwhere(reaches[np.ix_(first, first)]).tolist():
        assert divided.collective[one] <= divided.collective[other]
    if algorithm == "halving_doubling":
        sent = [set(divided.collective[schedule.flow[schedule.group == g]].tolist()) for g in range(schedule.n_groups)]
        assert all(len(rounds) == 1 for rounds in sent)


@settings(max_examples=examples(20, 200), deadline=None)
@given(st.integers(1, 4), st.integers(0, 9))
def test_a_plan_is_even_in_each_round(power: int, seed: int) -> None:
    """Where paths of whole flows allow it: on as many spines as hosts a leaf."""
    _, traffic = reducing(clos(8, 4, 8), "halving_doubling", 1 << power, seed)
    fabric = clos(8, 4, 8)
    made = assign("fair", fabric, traffic)
    assert evaluate(fabric, by_rounds(traffic), made.assignment).min_speed == pytest.approx(1.0)
    assert evaluate(fabric, traffic, made.assignment).min_speed == pytest.approx(1.0)


def test_each_round_is_split_after_a_failure() -> None:
    fabric = clos(8, 8, 8)
    _, traffic = reducing(fabric, "halving_doubling", 64, 3)
    failed = fabric.without_links([name for name in fabric.cable_names if name.endswith("spine1")])
    whole, split = (
        evaluate(failed, by_rounds(traffic), assign("fair", failed, traffic, options=options).assignment).speed
        for options in (Options(), Options(max_splits=10_000))
    )
    assert whole.min() == pytest.approx(0.5 * 8 / 7, abs=0.01)
    assert split.min() >= 0.99


def test_rounds_beside_others_of_their_phase_stay_one() -> None:
    both = rows_of([Collective("a", "c", in_turns=True, rounds=((1, 0), (1, 1))), Collective("a", "d")])
    assert by_rounds(both) is both
    apart = rows_of([both.collectives[0], dataclasses.replace(both.collectives[1], phase=1)])
    assert by_rounds(apart).phase.tolist() == [0, 1, 2]


def test_who_has_fewer_rounds_sends_nothing_in_the_last_ones() -> None:
    rows = [
        Collective("a", "c", in_turns=True, rounds=((1, 0), (1, 1))),
        Collective("a", "d", rounds=((1, 0), (1, 1), (1, 2))),
        Collective("a", "e", phase=1),
    ]
    assert by_rounds(rows_of(rows)).phase.tolist() == [0, 1, 0, 1, 2, 3]


def test_many_rounds_stay_one() -> None:
    for jobs in (MOST_ROUNDS // 2, MOST_ROUNDS // 2 + 1):
        rows = [Collective(f"j{j}", "c", in_turns=True, rounds=((1, 0), (1, 1))) for j in range(jobs)]
        traffic = rows_of(rows)
        assert (by_rounds(traffic) is traffic) == (2 * jobs > MOST_ROUNDS)


def test_rounds_that_wait_for_others_stay_one() -> None:
    row = Collective("a", "c", in_turns=True, rounds=((1, 0), (1, 1)))
    waits = rows_of([row, Collective("a", "d", phase=1, waits=Waits(computing=False))])
    assert by_rounds(waits) is waits


def test_computing_stays_before_the_first_round() -> None:
    timing = JobTiming(compute=((0, 1.0), (1, 2.0), (2, 3.0)))
    rows = [
        Collective("a", "c", timing=timing, rounds=((1, 0), (1, 1)), in_turns=True),
        Collective("a", "d", timing=timing, phase=1),
    ]
    made = by_rounds(rows_of(rows))
    assert made.phase.tolist() == [0, 1, 2]
    assert {row.timing for row in made.collectives} == {JobTiming(compute=((0, 1.0), (2, 2.0), (3, 3.0)))}


def rows_of(rows: list[Collective]) -> Traffic:
    """Two flows of each collective."""
    k = np.repeat(np.arange(len(rows)), 2).astype(np.int32)
    one = np.arange(len(k), dtype=np.int32)
    return Traffic(one, one + 8, one.astype(np.int64) + 10**6, k, one % 2, one + 49152, tuple(rows))


def test_rounds_of_a_job_that_meets_no_other_are_paced() -> None:
    fabric = clos(4, 8, 8)
    _, traffic = reducing(fabric, "halving_doubling", 64, 5)
    made = assign("fair", fabric, traffic).assignment
    wire = wire_paces(fabric, traffic, made)
    crossing = made.path >= 0
    assert crossing.sum() > traffic.n_flows / 2
    # Two flows of each round share an uplink.
    assert np.nanmin(wire[crossing]) >= 50.0 * (1 - 1e-6)
    assert (np.isfinite(wire[crossing])).mean() > 0.9


@pytest.mark.parametrize("spines", [2, 8])
def test_a_tree_is_paced_as_hosts_limit_it_not_as_links_between_switches_do(spines: int) -> None:
    """It is not known which of its flows meet there, but each host with two children takes half of the rate of each."""
    fabric = clos(spines, 8, 8)
    _, traffic = reducing(fabric, "tree", 64, 5)
    wire = wire_paces(fabric, traffic, assign("fair", fabric, traffic).assignment)
    assert np.isfinite(wire).mean() > 0.8
    np.testing.assert_allclose(wire[np.isfinite(wire)], 50.0)


@settings(max_examples=examples(20, 200), deadline=None)
@given(st.integers(3, 32), st.integers(1, 2), st.integers(0, 9))
def test_children_of_a_tree_are_paced_to_what_their_parent_takes(n: int, channels: int, seed: int) -> None:
    """A pace is the part of a host's link that a flow has beside those of the same tree."""
    fabric = clos(2, 4, 8)
    _, traffic = reducing(fabric, "tree", n, seed, channels=channels)
    wire = wire_paces(fabric, traffic, assign("fair", fabric, traffic).assignment)
    part = traffic.collectives[0].part_of(traffic.number)
    beside = np.ones(traffic.n_flows, dtype=np.int64)
    for host in (traffic.src, traffic.dst):
        key = part * fabric.n_hosts + host
        np.maximum(beside, np.bincount(key)[key], out=beside)
    paced = np.isfinite(wire)
    np.testing.assert_allclose(wire[paced], 100.0 / beside[paced])


@settings(max_examples=examples(20, 200), deadline=None)
@given(st.sampled_from([2, 3, 4, 8]), st.integers(2, 32), st.integers(0, 9))
def test_steps_of_a_tree_are_spread_beside_its_rounds(spines: int, n: int, seed: int) -> None:
    """No uplink has more than its part of a step, and the rest of two runs of as many flows as there are spines."""
    fabric = clos(spines, 4, 8)
    _, traffic = reducing(fabric, "tree", n, seed)
    divided = by_rounds(traffic)
    step = steps_of_rounds(divided)
    leaf = fabric.host_leaf[traffic.src]
    path = color_units(Demand.of(fabric, divided), seed)
    crossing = np.flatnonzero(fabric.host_leaf[traffic.dst] != leaf)
    assert len(path) == len(crossing)
    group = (divided.collective[crossing] * n + step[crossing]) * fabric.n_leaves + leaf[crossing]
    for each in np.unique(group):
        own = path[group == each]
        assert np.bincount(own).max() <= (len(own) + 2 * (spines - 1)) // spines + 1
    # A flow of a later step waits for one of the step before in its tree.
    part = traffic.collectives[0].part_of(traffic.number)
    for flow in np.flatnonzero(step).tolist():
        heard = step[(traffic.dst == traffic.src[flow]) & (part == part[flow])]
        assert heard.max() == step[flow] - 1
