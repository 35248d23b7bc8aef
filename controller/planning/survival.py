"""Failure analysis: the effect of each single failure, or each pair of failures, on each job.

For every failure the controller's own reaction is computed: a new plan on the remaining fabric, near the plan
before the failure. Nothing is estimated from link loads.

The chain of values: ``Fabric`` -> ``Failure`` (names) -> ``Outcome`` (speeds by job) -> ``Survival`` (all outcomes,
with the speeds before any failure to compare with).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from controller.model.assignment import UNROUTABLE
from controller.model.choices.failure_kind import FailureKind
from controller.model.fabric import Fabric, FloatArray
from controller.model.traffic import Traffic
from controller.planning.drain import Drain, drain, without_drained
from controller.planning.plane_drain import on_planes_in_use
from controller.routing import Options, PreviousPlan, assign
from controller.routing.objective.fairness import of_collectives
from controller.routing.objective.incidence import Incidence
from controller.routing.problem.demand import Demand, on_healthy
from controller.routing.problem.rounds import as_sent, summed


@dataclass(frozen=True)
class Failure:
    """Parts of a fabric that fail at the same time.

    Attributes:
        kinds: the kind of each part.
        names: the name of each part: ``leaf1-spine2``, ``spine3``; ``leaf1-spine2:*`` for all parallel cables.
        cables: the names of all cables that go down.
    """

    kinds: tuple[FailureKind, ...]
    names: tuple[str, ...]
    cables: tuple[str, ...]

    def __str__(self) -> str:
        """Return the names of the parts, joined by ``+``."""
        return " + ".join(self.names)

    def with_other(self, other: Failure) -> Failure:
        """Return both failures at the same time."""
        cables = tuple(dict.fromkeys((*self.cables, *other.cables)))
        return Failure(self.kinds + other.kinds, self.names + other.names, cables)


@dataclass(frozen=True, eq=False)
class Outcome:
    """The plan after a failure.

    Attributes:
        speed: [J] of each job, in the order of ``Traffic.jobs``: the speed of its slowest collective, where 1 is the
            time that this collective takes alone on the fabric with everything up. 0: a flow has no path left. NaN: the
            job has nothing on the network.
        unroutable: flows without a path.
        moved: flows that leave the path that they had before the failure.
    """

    failure: Failure
    speed: FloatArray
    unroutable: int
    moved: int

    @property
    def min_speed(self) -> float:
        """The speed of the slowest job; 1 where no job is on the network."""
        return 1.0 if np.isnan(self.speed).all() else float(np.nanmin(self.speed))


@dataclass(frozen=True, eq=False)
class Survival:
    """All outcomes.

    Attributes:
        jobs: names, in the order of every ``speed``.
        before: the present fabric without a further failure.
        outcomes: one for each failure; lowest ``min_speed`` first, then lowest mean speed, then by name.
    """

    jobs: tuple[str, ...]
    before: Outcome
    outcomes: tuple[Outcome, ...]

    def below(self, speed: float) -> int:
        """Return how many failures leave some job below a speed."""
        return sum(outcome.min_speed < speed for outcome in self.outcomes)


@dataclass(frozen=True, eq=False)
class Situation:
    """A plan in force, and all inputs of plans after failures.

    It can be pickled, so that other processes can compute outcomes.

    Attributes:
        previous: the plan in force, which plans after failures stay near.
        healthy_seconds: [K] the time that each collective takes alone on the fabric with everything up.
        drained: ids of cables, switches, pods and planes that are drained; what is drained comes back into use where a
            failure leaves nothing else.
    """

    fabric: Fabric
    traffic: Traffic
    policy: str
    seed: int
    options: Options
    previous: PreviousPlan
    healthy_seconds: FloatArray
    drained: frozenset[str] = frozenset()

    @staticmethod
    def of(
        fabric: Fabric,
        traffic: Traffic,
        *,
        policy: str,
        seed: int = 0,
        options: Options = Options(),  # noqa: B008 (frozen)
        previous: PreviousPlan | None = None,
    ) -> Situation:
        """Plan for the present fabric and take that plan as the one in force.

        Args:
            fabric: the present fabric.
            traffic: the flows.
            policy: the name of the policy.
            seed: the seed of the policy.
            options: the options of the policy.
            previous: a plan that this first one stays near.

        Raises:
            InputError: no policy has this name.
        """
        result = assign(policy, fabric, traffic, seed=seed, previous=previous, options=options)
        in_force = PreviousPlan.of(fabric, traffic, result.assignment)
        parts = as_sent(traffic)
        healthy_seconds = summed(traffic, parts, on_healthy(fabric, parts).ideal_seconds)
        return Situation(fabric, traffic, policy, seed, options, in_force, healthy_seconds)

    def before(self) -> Outcome:
        """Return the state without a further failure."""
        return self.after(Failure((), (), ()))

    def after(self, failure: Failure) -> Outcome:
        """Plan for the fabric that a failure leaves.

        Bounds are not computed: they take longer than the plan, and 2,000 of them are of no use.
        """
        left = self.fabric.without_links(failure.cables) if failure.cables else self.fabric
        aside = drain(left, self.drained) if self.drained else Drain()
        left = without_drained(left, aside)
        traffic, before = on_planes_in_use(left, self.traffic, aside.ports), self.previous
        result = assign(self.policy, left, traffic, seed=self.seed, previous=before, options=self.options)
        parts = as_sent(traffic)
        demand = Demand.of(left, parts)
        level, _ = Incidence.of(demand, result.assignment).levels(demand)
        speed = of_collectives(traffic, demand, np.minimum(level * parts.weight, 1.0))
        speed = speed * self.healthy_seconds / summed(traffic, parts, demand.ideal_seconds)
        has_flows = np.bincount(traffic.collective, minlength=len(traffic.collectives)) > 0
        # A collective with a flow without a path has no level; its speed is 0.
        speed[np.isnan(speed) & has_flows] = 0.0
        was = before.single_paths(traffic)
        now = PreviousPlan.of(left, traffic, result.assignment).single_paths(traffic)
        return Outcome(
            failure,
            _by_job(traffic, speed),
            unroutable=int((result.assignment.path == UNROUTABLE).sum()),
            moved=int((((was >= 0) & (was != now)) | (traffic.src != self.traffic.src)).sum()),
        )


Outcomes = Callable[[Situation, Sequence[Failure]], Iterable[Outcome]]
"""The computation of outcomes: in this process or in others, in any order."""


def one_by_one(situation: Situation, failures: Sequence[Failure]) -> Iterator[Outcome]:
    """Compute outcomes in this process."""
    return (situation.after(failure) for failure in failures)


def all_at_once(situation: Situation, failures: Sequence[Failure]) -> list[Outcome]:
    """Compute outcomes in this process before returning; to be called in another one."""
    return list(one_by_one(situation, failures))


def single_failures(fabric: Fabric, kinds: Iterable[FailureKind]) -> list[Failure]:
    """Return each failure of one part that is up, in the order of kinds and of the fabric.

    Kinds of switches that the fabric does not have have no failures. Parallel cables between two switches are left out
    if they are one cable and ``CABLE`` is among the kinds.
    """
    kinds = tuple(dict.fromkeys(kinds))
    live = [(name, cable) for name, cable in zip(fabric.cable_names, fabric.cables, strict=True) if cable.up]
    role = {name: fabric.roles[layer] for name, layer in fabric.layer_of.items()}
    failures: list[Failure] = []
    for kind in kinds:
        parts: dict[str, list[str]] = {}
        for name, cable in live:
            if kind is FailureKind.CABLE:
                own = [name]
            elif kind is FailureKind.UPLINKS:
                own = [f"{cable.lower}-{cable.upper}:*"]
            else:
                own = [switch for switch in (cable.lower, cable.upper) if role[switch] == kind.value]
            for part in own:
                parts.setdefault(part, []).append(name)
        failures += [
            Failure((kind,), (part,), tuple(cables))
            for part, cables in parts.items()
            if kind is not FailureKind.UPLINKS or FailureKind.CABLE not in kinds or len(cables) > 1
        ]
    return failures


def pairs(failures: Sequence[Failure]) -> list[Failure]:
    """Return every two failures at the same time, without those of which one part contains the other."""
    return [
        one.with_other(other)
        for one, other in combinations(failures, 2)
        if not (set(one.cables) <= set(other.cables) or set(other.cables) <= set(one.cables))
    ]


def survive(situation: Situation, failures: Sequence[Failure], outcomes: Outcomes = one_by_one) -> Survival:
    """Plan anew after each failure.

    Args:
        situation: the plan in force and its inputs.
        failures: the failures to analyse.
        outcomes: computes the outcomes: ``one_by_one``, or a pool of processes.
    """
    before = situation.before()
    by_harm = sorted(outcomes(situation, failures), key=_severity)
    return Survival(situation.traffic.jobs, before, tuple(by_harm))


def worst_sequence(
    situation: Situation,
    failures: Sequence[Failure],
    speed: float,
    *,
    most: int,
    outcomes: Outcomes = one_by_one,
) -> list[Outcome]:
    """Apply the failure with the worst outcome, then the worst one after it, until some job is below a speed.

    The number of failures that the jobs tolerate is at most one less than the length of a sequence whose last outcome
    is below ``speed``: the search is greedy, so a shorter sequence may exist, but this one is always valid.

    Args:
        situation: the plan in force and its inputs.
        failures: the failures to choose from.
        speed: the speed below which no job should fall.
        most: the most failures in the sequence; if it ends there, the last outcome is not below ``speed``.
        outcomes: computes the outcomes; see ``survive``.

    Returns:
        The outcome after each failure; empty where some job is below the speed already, or nothing can fail.
    """
    if situation.before().min_speed < speed:
        return []
    sequence: list[Outcome] = []
    happened: Failure | None = None
    left = list(failures)
    while left and len(sequence) < most:
        candidates = left if happened is None else [happened.with_other(failure) for failure in left]
        worst = min(outcomes(situation, candidates), key=_severity)
        sequence.append(worst)
        if worst.min_speed < speed:
            break
        happened = worst.failure
        left = [failure for failure in left if not set(failure.cables) <= set(happened.cables)]
    return sequence


def _severity(outcome: Outcome) -> tuple[float, float, str]:
    mean = 1.0 if np.isnan(outcome.speed).all() else float(np.nanmean(outcome.speed))
    # Rounded, so that equal failures are in the order of their names whatever the last digits are.
    return round(outcome.min_speed, 9), round(mean, 9), str(outcome.failure)


def _by_job(traffic: Traffic, speed: FloatArray) -> FloatArray:
    """Return the lowest speed [J] of each job's collectives [K], without those that are not on the network."""
    lowest = np.full(len(traffic.jobs), np.inf)
    known = ~np.isnan(speed)
    np.minimum.at(lowest, traffic.job_index[known], speed[known])
    lowest[np.isinf(lowest)] = np.nan
    return lowest
