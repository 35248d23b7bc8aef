"""All policies by name, and the entry point to them.

The built-in ones are modules of ``policies``; a distribution registers another one as follows
(``examples/policy-plugin`` is a complete example)::

    [project.entry-points."fairspine.policies"]
    shortest = "my_package.shortest:POLICY"

The entry point's object is a ``Policy``, and its ``name`` is the entry point's.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from controller.model.assignment import Assignment
from controller.model.choices.plugin_registry import PluginRegistry
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.plan import Bound
from controller.model.traffic import Traffic
from controller.routing.base import Options, Policy, Result
from controller.routing.placing.path_weights import with_path_weights
from controller.routing.policies import (
    annealing,
    coloring,
    e_ecmp,
    ecmp,
    ethereal,
    fair,
    first_fit,
    greedy,
    ilp,
    path_pinning,
    random_path,
    split,
    spray,
)
from controller.routing.problem.demand import Demand
from controller.routing.problem.previous_plan import PreviousPlan
from controller.routing.problem.rounds import as_sent, by_rounds
from controller.routing.validate import InvalidAssignmentError, validate_assignment

BUILT_IN: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy(
            "fair",
            "the default: the best of several placements, improved by a search level by level",
            fair.assign,
            splits=True,
            split_option="max_splits",
            advises_shifts=True,
        ),
        Policy("ecmp", "a hash of each flow's 5-tuple, as in switches", ecmp.assign, draws=True),
        Policy(
            "e_ecmp",
            "a hash of each QP, of which a flow has option qps, as Meta's switches do",
            e_ecmp.assign,
            splits=True,
            split_option="qps",
            cuts_messages=True,
            draws=True,
        ),
        Policy("path_pinning", "the destination's position in its rack selects the path", path_pinning.assign),
        Policy("random", "each flow on a live path, drawn uniformly", random_path.assign, draws=True),
        Policy(
            "spray",
            "each flow evenly over all its live paths; hosts carry it out for jobs with order: any",
            spray.assign,
            splits=True,
            enforceable=False,
            cuts_messages=True,
            spreads_evenly=True,
        ),
        Policy("greedy", "heaviest leaf first, each flow on its emptiest spine (arXiv 2503.05324)", greedy.assign),
        Policy("coloring", "edge colouring of the leaf multigraph, spines being the colours", coloring.assign),
        Policy(
            "first_fit",
            "each flow on the first path with room (Hedera's Global First Fit)",
            first_fit.assign,
            estimates_demand=True,
        ),
        Policy(
            "annealing",
            "one path per destination host, by simulated annealing (Hedera)",
            annealing.assign,
            estimates_demand=True,
        ),
        # Warming up leaves it out, since HiGHS would take a quarter of the time.
        Policy(
            "ilp",
            "the optimum by integer programming (HiGHS), for small instances",
            ilp.assign,
            own_kernels=False,
        ),
        Policy(
            "ethereal",
            "the remaining flows of each sender cut into equal pieces (arXiv 2407.00550)",
            ethereal.assign,
            splits=True,
            cuts_messages=True,
        ),
        Policy(
            "split",
            "few flows cut into few pieces, with link loads as under free splitting",
            split.assign,
            splits=True,
        ),
    )
}

GROUP = "fairspine.policies"
"""The group of the entry points of plug-ins."""

POLICIES = PluginRegistry(Policy, GROUP, BUILT_IN)
"""The built-in policies, then those of installed distributions."""


def enforceable() -> tuple[str, ...]:
    """Return the names of the policies whose plans switches can follow."""
    return tuple(name for name, policy in POLICIES.items() if policy.enforceable)


def followed() -> tuple[str, ...]:
    """Return the names of the policies whose plans switches can follow, or hosts that spread packets."""
    return tuple(name for name, policy in POLICIES.items() if policy.enforceable or policy.spreads_evenly)


def advising() -> tuple[str, ...]:
    """Return the names of the policies that advise when the iterations of jobs begin."""
    return tuple(name for name, policy in POLICIES.items() if policy.advises_shifts)


def estimating() -> tuple[str, ...]:
    """Return the names of the policies that Hedera's loop can run."""
    return tuple(name for name, policy in POLICIES.items() if policy.estimates_demand)


def draws(name: str) -> bool:
    """Return whether ``name`` is a policy that chooses at random."""
    return name in POLICIES and POLICIES[name].draws


def assign(
    name: str,
    fabric: Fabric,
    traffic: Traffic,
    *,
    seed: int = 0,
    previous: PreviousPlan | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Result:
    """Assign paths to every flow by the policy ``name``.

    Flows whose packets may take several paths at once get a weight per path, whatever the policy, beside the paths of
    the others; under a policy that spreads all flows, all get what it gives them.

    Raises:
        InputError: no policy has this name, or the result of a plug-in is not a valid assignment.
    """
    policy = POLICIES.named(name)
    kept, planned = None, traffic
    if traffic.some_any_order and not policy.spreads_evenly and traffic.spreadable.any():
        kept = np.flatnonzero(~traffic.spreadable)
        planned = traffic.of_flows(kept)
    if planned.n_flows or not traffic.n_flows:
        in_rounds = by_rounds(planned)
        result = policy.assign(fabric, in_rounds, seed=seed, previous=previous, options=options)
        sent = as_sent(planned)
        if len(in_rounds.collectives) != len(sent.collectives):
            # What the policy has proved is of other rounds than those that count, and its demand, too.
            status = "ok" if result.status == "optimal" else result.status
            result = dataclasses.replace(result, bound=Bound(), status=status, demand=None)
        if name not in BUILT_IN:
            _check_result(policy, fabric, planned, result)
    else:
        result = Result(Assignment.single(np.zeros(0, dtype=np.int32)))
    return result if kept is None else _with_weights(fabric, traffic, result, kept)


def _with_weights(fabric: Fabric, traffic: Traffic, result: Result, flows: NDArray[np.int64]) -> Result:
    """Return the result for all flows; it is of ``flows`` alone, and the others get a weight per path beside them.

    Its bounds hold: the lowest level of all flows is at most that of some.
    """
    demand, part = Demand.of(fabric, as_sent(traffic)), result.assignment
    rest = np.setdiff1d(np.arange(traffic.n_flows), flows)
    flow = np.concatenate([flows[part.flow], rest])
    order = np.argsort(flow, kind="stable")
    path = np.concatenate([part.path, demand.fixed[rest]])[order]
    share = np.concatenate([part.share, np.ones(len(rest))])[order]
    assignment = with_path_weights(demand, Assignment(flow[order].astype(np.int32), path.astype(np.int32), share))
    status = "ok" if result.status == "optimal" else result.status
    return Result(assignment, result.bound, status, result.schedule, demand, result.classes)


def _check_result(policy: Policy, fabric: Fabric, traffic: Traffic, result: object) -> None:
    """Check the result of a plug-in before it is used for computing or installing.

    Raises:
        InputError: it is no ``Result``, breaks a rule of assignments, or splits flows though the policy declares that
            it does not.
    """
    try:
        if not isinstance(result, Result) or not isinstance(result.assignment, Assignment):
            raise InvalidAssignmentError(f"returned {type(result).__name__}, not fairspine.Result")
        validate_assignment(fabric, traffic, result.assignment, enforceable=policy.enforceable)
        if result.assignment.is_split() and not policy.splits:
            raise InvalidAssignmentError("a flow is split, but the policy declares that it does not split flows")
    except InvalidAssignmentError as error:
        raise InputError(f"its result cannot be used: {error}", field="policy", value=policy.name) from None
