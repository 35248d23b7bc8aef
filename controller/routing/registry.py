"""All policies by name, and the entry point to them."""

from __future__ import annotations

from controller.model.fabric import Fabric
from controller.model.traffic import Traffic
from controller.routing.base import Options, Policy, Result
from controller.routing.plugins import PolicyRegistry, check_result
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
from controller.routing.problem.previous_plan import PreviousPlan

BUILT_IN: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy(
            "fair",
            "the default: the best of several placements, improved by a search level by level",
            fair.assign,
            True,
        ),
        Policy("ecmp", "a hash of each flow's 5-tuple, as in switches", ecmp.assign),
        Policy(
            "e_ecmp", "a hash of each QP, of which a flow has option qps, as Meta's switches do", e_ecmp.assign, True
        ),
        Policy("path_pinning", "the destination's position in its rack selects the path", path_pinning.assign),
        Policy("random", "each flow on a live path, drawn uniformly", random_path.assign),
        Policy(
            "spray",
            "each flow evenly over all its live paths; a reference that switch rules cannot implement",
            spray.assign,
            True,
            False,
        ),
        Policy("greedy", "heaviest leaf first, each flow on its emptiest spine (arXiv 2503.05324)", greedy.assign),
        Policy("coloring", "edge colouring of the leaf multigraph, spines being the colours", coloring.assign),
        Policy("first_fit", "each flow on the first path with room (Hedera's Global First Fit)", first_fit.assign),
        Policy("annealing", "one path per destination host, by simulated annealing (Hedera)", annealing.assign),
        Policy("ilp", "the optimum by integer programming (HiGHS), for small instances", ilp.assign),
        Policy(
            "ethereal",
            "the remaining flows of each sender cut into equal pieces (arXiv 2407.00550)",
            ethereal.assign,
            True,
        ),
        Policy(
            "split",
            "few flows cut into few pieces, with link loads as under free splitting",
            split.assign,
            True,
        ),
    )
}

POLICIES = PolicyRegistry(BUILT_IN)
"""The built-in policies, then those of installed distributions (entry points of the group ``fairspine.policies``)."""

DRAWING = ("ecmp", "e_ecmp", "random")
"""Policies that choose at random: every seed is another draw, and a single draw is not representative."""


def enforceable() -> tuple[str, ...]:
    """Return the names of the policies whose plans switches can follow."""
    return tuple(name for name, policy in POLICIES.items() if policy.enforceable)


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

    Raises:
        InputError: no policy has this name, or the result of a plug-in is not a valid assignment.
    """
    policy = POLICIES.named(name)
    result = policy.assign(fabric, traffic, seed=seed, previous=previous, options=options)
    if name not in BUILT_IN:
        check_result(policy, fabric, traffic, result)
    return result
