"""What is reported of collectives that are sent in rounds, against the simulator and the objective's second reading."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from controller.model.assignment import UNROUTABLE, Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.job import Algorithm, CollectiveCall, Job
from controller.model.queue_pairs import QueuePairs
from controller.model.timing import JobTiming
from controller.model.traffic import Traffic
from controller.planning.make_plan import make_plan
from controller.planning.plan_document import collective_rows
from controller.planning.sending_seconds import collective_seconds, flow_seconds
from controller.planning.survival import Situation
from controller.planning.time_line import time_line
from controller.routing import Options, Result, assign
from controller.routing.objective.fairness import evaluate
from controller.routing.problem.demand import Demand
from controller.routing.problem.rounds import as_sent
from emulation.evaluation.cell import ideal_seconds
from emulation.evaluation.timed_job import TimedJob, simulated_jobs
from emulation.fluid.movers import Allocation
from emulation.fluid.schedule import SimulatedJob, joined
from emulation.fluid.simulator import Simulation, simulate
from tests.unit.laws import examples
from tests.unit.routing import oracle
from tests.unit.routing.instances import random_fabric
from tests.unit.routing.pod_fabrics import random_pods

POLICIES = ("fair", "ecmp", "greedy", "random", "spray", "split")
EXACT = 1e-6


@dataclass(frozen=True, eq=False)
class Drawn:
    """Jobs on a fabric, their flows, and a policy."""

    fabric: Fabric
    jobs: tuple[SimulatedJob, ...]
    traffic: Traffic
    policy: str

    def assignment(self) -> Assignment:
        return assign(self.policy, self.fabric, self.traffic).assignment

    def took(self, assignment: Assignment) -> dict[str, float]:
        """Return the mean seconds of the epochs of each job if links are shared as the objective has it."""
        planned = Result(assignment)
        results = simulate(
            Simulation(
                self.fabric,
                self.jobs,
                lambda *_: planned,
                Allocation.COLLECTIVE,
                frozenset({"arrival"}),
            )
        )
        return {
            job.name: float(np.mean([each.seconds for each in results.epochs if each.job == job.name]))
            for job in self.jobs
        }


def calls_of(
    rng: np.random.Generator, n: int, phases: int, together: int, algorithm: Algorithm
) -> tuple[CollectiveCall, ...]:
    """All-reduces in phases of the first of n ranks; those of a phase have the same ranks."""
    calls = []
    for phase in range(phases):
        many = int(rng.integers(2, n + 1))
        ranks = tuple(rng.permutation(n)[:many].tolist())
        for c in range(together):
            # All halves, and their parts for QPs, are whole bytes: the simulator's levels count these.
            size = int(rng.integers(2**6, 2**10)) << 12
            calls.append(CollectiveCall(f"p{phase}c{c}", "all_reduce", ranks, size, algorithm=algorithm, phase=phase))
    return tuple(calls)


def drawn_fabric(rng: np.random.Generator) -> Fabric:
    return random_pods(rng) if rng.random() < 0.4 else random_fabric(rng)


@st.composite
def drawings(draw: st.DrawFn, *, jobs: int = 1, phases: int = 2, together: int = 1, epochs: int = 1) -> Drawn:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    fabric = drawn_fabric(rng)
    hosts = [host.name for host in fabric.hosts]
    assume(len(hosts) >= 2 * jobs)
    timed = []
    order = rng.permutation(len(hosts)).tolist()
    for j in range(int(rng.integers(1, jobs + 1))):
        own = order[j::jobs]
        n = int(rng.integers(2, len(own) + 1))
        many = int(rng.integers(1, phases + 1))
        job = Job(
            f"j{j}",
            hosts=tuple(hosts[h] for h in own[:n]),
            collectives=calls_of(rng, n, many, int(rng.integers(1, together + 1)), "halving_doubling"),
            weight=float(rng.choice([1, 1, 2])),
        )
        timed.append(TimedJob(job, epochs=epochs))
    made = simulated_jobs(fabric, timed, QueuePairs(int(rng.choice([1, 1, 2]))))
    return Drawn(fabric, made, joined(made)[0], draw(st.sampled_from(POLICIES)))


@settings(max_examples=examples(20, 600), deadline=None)
@given(drawings())
def test_a_job_alone_takes_as_long_as_reported(drawn: Drawn) -> None:
    """On any fabric, with slow and dead cables, under any policy: the sum of the rounds of its collectives."""
    plan = make_plan(drawn.fabric, drawn.traffic, policy=drawn.policy, clock=lambda: 0.0)
    assume(drawn.traffic.n_flows and not (plan.assignment.path == UNROUTABLE).any())
    reported = float(np.nansum(collective_seconds(plan.objective)))
    took = drawn.took(plan.assignment)["j0"]
    assert reported == pytest.approx(took, rel=EXACT)
    alone = float(np.nansum(plan.objective.ideal_seconds))
    assert alone <= took * (1 + EXACT)
    assert ideal_seconds(drawn.fabric, drawn.jobs[0]) == pytest.approx(np.nansum(plan.objective.healthy_seconds))


@settings(max_examples=examples(20, 500), deadline=None)
@given(drawings(jobs=3, phases=1, epochs=3))
def test_no_job_takes_longer_than_the_lowest_level_says(drawn: Drawn) -> None:
    made = drawn.assignment()
    assume(drawn.traffic.n_flows and not (made.path == UNROUTABLE).any())
    objective = evaluate(drawn.fabric, drawn.traffic, made)
    took = drawn.took(made)
    for row, alone in zip(drawn.traffic.collectives, objective.ideal_seconds.tolist(), strict=True):
        if alone == alone:
            most = alone / min(1.0, objective.min_level * row.weight)
            assert alone * (1 - EXACT) <= took[row.job] <= most * (1 + EXACT)


@settings(max_examples=examples(20, 600), deadline=None)
@given(drawings(jobs=4, together=2))
def test_plans_keep_their_bounds_in_each_round(drawn: Drawn) -> None:
    plan = make_plan(drawn.fabric, drawn.traffic, policy=drawn.policy, clock=lambda: 0.0)
    objective, bound = plan.objective, plan.bound
    limit = bound.split if plan.assignment.is_split() else bound.single
    assert limit is not None
    assert objective.min_level <= limit * (1 + EXACT)
    again = evaluate(drawn.fabric, drawn.traffic, plan.assignment)
    # The demand of the policy is that of the report.
    np.testing.assert_allclose(objective.speed, again.speed)
    np.testing.assert_allclose(objective.ideal_seconds, again.ideal_seconds)
    known = ~np.isnan(objective.speed)
    assert (objective.speed[known] <= 1).all()
    lowest = {row.job: row.weight * objective.min_level for row in drawn.traffic.collectives}
    for row, speed in zip(drawn.traffic.collectives, objective.speed.tolist(), strict=True):
        assert speed != speed or speed == 0 or speed >= min(1.0, lowest[row.job]) * (1 - EXACT)


@settings(max_examples=examples(20, 500), deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(POLICIES))
def test_speeds_agree_with_exact_fractions(seed: int, policy: str) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng, symmetric=True, most=3)
    timed = []
    for j in range(int(rng.integers(1, 3))):
        n = int(rng.integers(2, fabric.n_hosts + 1)) if fabric.n_hosts > 1 else 1
        order = rng.permutation(fabric.n_hosts)[:n].tolist()
        calls = calls_of(rng, n, int(rng.integers(1, 3)), int(rng.integers(1, 3)), "halving_doubling")
        timed.append(TimedJob(Job(f"j{j}", hosts=tuple(fabric.hosts[h].name for h in order), collectives=calls)))
    traffic, _ = joined(simulated_jobs(fabric, timed))[:2]
    assume(traffic.n_flows)
    made = assign(policy, fabric, traffic).assignment
    objective = evaluate(fabric, traffic, made)
    assume(objective.exact_phases)
    expected = oracle.speeds_in_rounds(fabric, traffic, made)
    got = {k: speed for k, speed in enumerate(objective.speed.tolist()) if speed == speed}
    assert got == pytest.approx({k: float(speed) for k, speed in expected.items()})
    alone = oracle.seconds_in_rounds(fabric, traffic)
    assert {k: objective.ideal_seconds[k] for k in got} == pytest.approx({k: float(each) for k, each in alone.items()})


def one_job(algorithm: Algorithm, *, dead: int, compute: float = 0.0) -> tuple[Fabric, Drawn]:
    """An all-reduce of 64 hosts, eight a leaf, with 8 spines of which some are dead."""
    fabric = clos(8, 8, 8)
    down = [name for name in fabric.cable_names if name.split("-")[1] in {f"spine{s + 1}" for s in range(dead)}]
    fabric = fabric.without_links(down)
    order = np.random.default_rng(3).permutation(64).tolist()
    timing = JobTiming(((0, compute),)) if compute else None
    call = CollectiveCall("c", "all_reduce", tuple(range(64)), 2**24, algorithm=algorithm)
    job = Job("j0", hosts=tuple(fabric.host_names[h] for h in order), collectives=(call,), timing=timing)
    made = simulated_jobs(fabric, [TimedJob(job)])
    return fabric, Drawn(fabric, made, joined(made)[0], "fair")


def test_a_dead_spine_halves_what_whole_flows_reach() -> None:
    """Eight flows of a round leave a leaf by seven uplinks, so two of them meet."""
    fabric, drawn = one_job("halving_doubling", dead=1)
    plan = make_plan(fabric, drawn.traffic, policy="fair", clock=lambda: 0.0)
    at_once = evaluate(fabric, drawn.traffic, plan.assignment, demand=Demand.of(fabric, drawn.traffic))
    assert plan.objective.min_speed < min(0.65, at_once.min_speed)
    (row,) = collective_rows(drawn.traffic, plan, [0])
    assert row["seconds"] == pytest.approx(drawn.took(plan.assignment)["j0"], rel=EXACT)
    assert row["slowdown"] > 1.5
    assert plan.gap == pytest.approx(0.0, abs=EXACT)
    after = Situation.of(fabric, drawn.traffic, policy="fair").before()
    assert after.speed.tolist() == pytest.approx([1 / row["slowdown"]])


def test_flows_have_the_rates_of_their_rounds() -> None:
    fabric, drawn = one_job("halving_doubling", dead=1)
    made = drawn.assignment()
    objective = evaluate(fabric, drawn.traffic, made)
    seconds = flow_seconds(drawn.traffic, objective)
    rounds = as_sent(drawn.traffic).collective
    took = [seconds[rounds == r] for r in range(6)]
    assert all(np.ptp(each) == 0 for each in took)
    assert sum(each[0] for each in took) == pytest.approx(collective_seconds(objective)[0])


def test_pieces_of_a_tree_are_sent_at_once() -> None:
    """Hosts pass them on, so with many pieces a tree takes as long as all of its flows at once; never less."""
    fabric, drawn = one_job("tree", dead=1)
    made = drawn.assignment()
    reported = float(collective_seconds(evaluate(fabric, drawn.traffic, made))[0])
    call = CollectiveCall("c", "all_reduce", tuple(range(64)), 2**24, algorithm="tree")
    job = Job("j0", hosts=drawn_hosts(drawn), collectives=(call,))
    took = []
    for pieces in (1, 64):
        again = simulated_jobs(fabric, [TimedJob(job, pieces=pieces)])
        took.append(Drawn(fabric, again, drawn.traffic, "fair").took(made)["j0"])
    assert reported <= took[1] * (1 + EXACT) <= reported * 1.1
    assert took[0] > 2 * reported


def drawn_hosts(drawn: Drawn) -> tuple[str, ...]:
    order = np.random.default_rng(3).permutation(64).tolist()
    return tuple(drawn.fabric.host_names[h] for h in order)


@pytest.mark.parametrize("dead", [0, 1])
def test_iterations_are_those_of_rounds(dead: int) -> None:
    fabric, drawn = one_job("halving_doubling", dead=dead, compute=0.01)
    plan = make_plan(fabric, drawn.traffic, policy="ecmp", clock=lambda: 0.0)
    assert plan.times is not None
    (row,) = plan.times.jobs
    took = drawn.took(plan.assignment)["j0"]
    assert row.iteration_seconds == pytest.approx(0.01 + took, rel=EXACT)
    assert row.alone_seconds == pytest.approx(0.01 + plan.objective.ideal_seconds[0])
    assert dict(row.phase_seconds) == pytest.approx({0: took}, rel=EXACT)
    computing, sending = time_line(fabric, drawn.traffic)
    assert computing.end_seconds == sending.begin_seconds == pytest.approx(0.01)
    assert sending.end_seconds == pytest.approx(row.alone_seconds)


def test_options_of_splits_raise_the_reported_speed() -> None:
    fabric, drawn = one_job("halving_doubling", dead=1)
    whole, split = (
        make_plan(fabric, drawn.traffic, policy="fair", options=options, clock=lambda: 0.0)
        for options in (Options(), Options(max_splits=10_000))
    )
    assert split.objective.min_speed > 0.99
    assert whole.objective.min_speed < 0.65
    assert whole.bound.split == split.bound.split == pytest.approx(1.0)
