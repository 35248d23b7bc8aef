"""Every policy by name, and the front door to them all."""

from __future__ import annotations

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.traffic import Traffic
from controller.routing import (
    annealing,
    coloring,
    ecmp,
    ethereal,
    fair,
    first_fit,
    greedy,
    ilp,
    random_path,
    split,
    spray,
)  # fmt: skip
from controller.routing.base import Options, Policy, Result
from controller.routing.previous import Previous

POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy("fair", "the default: the best known placement, then a search level by level", fair.assign, True),
        Policy("ecmp", "a hash of each flow's 5-tuple, as switches do by themselves", ecmp.assign),
        Policy("random", "each flow on a live path, all equally likely", random_path.assign),
        Policy("spray", "each flow evenly over all its live paths: the reference, no rule does it", spray.assign, True),
        Policy("greedy", "heaviest leaf first, each flow on its emptiest spine (arXiv 2503.05324)", greedy.assign),
        Policy("coloring", "edge colouring of the leaf multigraph, spines being the colours", coloring.assign),
        Policy("first_fit", "each flow on the first path with room (Hedera's Global First Fit)", first_fit.assign),
        Policy("annealing", "one spine a destination host, annealed (Hedera's Simulated Annealing)", annealing.assign),
        Policy("ilp", "the optimum by integer programming (HiGHS), for small instances", ilp.assign),
        Policy("ethereal", "a sender's odd flows cut into equal pieces (arXiv 2407.00550)", ethereal.assign, True),
        Policy("split", "few flows cut in few pieces, links as full as free splitting has them", split.assign, True),
    )
}

ENFORCEABLE = tuple(name for name in POLICIES if name != "spray")
"""Policies whose plans switches can follow: they give flows that a switch cannot tell apart one path, and split no flow
whose source port is unknown. ``spray`` is for ``fairspine plan`` and ``compare`` alone."""

DRAWING = ("ecmp", "random")
"""Policies that leave it to chance: every seed is another draw, and one draw says little."""


def assign(
    name: str,
    fabric: Fabric,
    traffic: Traffic,
    *,
    seed: int = 0,
    previous: Previous | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Result:
    """Paths for every flow by the policy ``name``.

    Raises:
        InputError: no policy has this name.
    """
    if name not in POLICIES:
        raise InputError(f"no policy has this name; there are {', '.join(POLICIES)}", field="policy", value=name)
    return POLICIES[name].assign(fabric, traffic, seed=seed, previous=previous, options=options)
