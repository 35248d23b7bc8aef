"""Planning, comparison of policies, and bounds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from controller.model.fabric import Fabric
from controller.model.job import Job
from controller.model.plan import Bound
from controller.model.traffic import Traffic
from controller.planning.make_plan import make_plan
from controller.routing import POLICIES, Options, PreviousPlan
from controller.routing.objective.bounds import bound as bound_of
from controller.routing.options_text import parse_options
from controller.routing.split_check import check_splits
from fairspine.inputs import traffic as traffic_of
from fairspine.results import PlanResult


def policies() -> Mapping[str, str]:
    """Return the description of each policy, by name: the built-in ones, then those of plug-ins."""
    return {name: policy.description for name, policy in POLICIES.items()}


def plan(
    fabric: Fabric,
    jobs: Traffic | Iterable[Job],
    *,
    policy: str = "fair",
    seed: int = 0,
    previous: PlanResult | PreviousPlan | None = None,
    options: Options | Mapping[str, object] | None = None,
) -> PlanResult:
    """Assign a path to every flow by one policy.

    Args:
        fabric: the fabric to plan on.
        jobs: the jobs, or their traffic.
        policy: the name of the policy.
        seed: the seed of policies that draw.
        previous: the plan in force, for policies that move as few flows as possible.
        options: options of the policy (docs/explanation/policies.md), such as ``{"max_splits": 16}``.

    Raises:
        InputError: no policy or option has this name, a job does not fit the fabric, or its flows cannot be cut.
    """
    flows, chosen = traffic_of(fabric, jobs), options_of(options)
    check_splits(flows.collectives, [policy], chosen)
    before = previous.previous if isinstance(previous, PlanResult) else previous
    made = make_plan(fabric, flows, policy=policy, seed=seed, previous=before, options=chosen, clock=time.perf_counter)
    return PlanResult(fabric, flows.with_classes(made.classes), made, chosen.paces)


def compare(
    fabric: Fabric,
    jobs: Traffic | Iterable[Job],
    policies: Sequence[str] = ("ecmp", "greedy", "fair"),
    *,
    seed: int = 0,
    options: Options | Mapping[str, object] | None = None,
) -> tuple[PlanResult, ...]:
    """Plan the same traffic by several policies and return one result a policy, in the order given.

    Raises:
        InputError: a name is not that of a policy or an option, or a job does not fit the fabric.
    """
    for name in policies:
        POLICIES.named(name)
    flows = traffic_of(fabric, jobs)
    return tuple(plan(fabric, flows, policy=name, seed=seed, options=options) for name in policies)


def bound(fabric: Fabric, jobs: Traffic | Iterable[Job]) -> Bound:
    """Return the upper bounds of ``min_level``: with free splitting, and with one path a flow.

    Raises:
        InputError: a job does not fit the fabric.
    """
    return bound_of(fabric, traffic_of(fabric, jobs))


def options_of(options: Options | Mapping[str, object] | None) -> Options:
    """Return policy options from a mapping; ``None`` as a value means the default.

    Raises:
        InputError: no policy has an option of one of the names, or a value is invalid for it.
    """
    if options is None:
        return Options()
    if isinstance(options, Options):
        return options
    return parse_options([f"{name}={'' if value is None else value}" for name, value in options.items()])
