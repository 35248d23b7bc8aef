"""Every policy by name, and the front door to them all."""

from __future__ import annotations

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.traffic import Traffic
from controller.routing import coloring, ecmp, fair, first_fit, greedy, ilp
from controller.routing.base import Options, Policy, Result
from controller.routing.previous import Previous

POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy("ecmp", "a hash of each flow's 5-tuple, as switches do by themselves", ecmp.assign),
        Policy("greedy", "heaviest leaf first, each flow on its emptiest spine (arXiv 2503.05324)", greedy.assign),
        Policy("coloring", "edge colouring of the leaf multigraph, spines being the colours", coloring.assign),
        Policy("first_fit", "each flow on the first path with room (Hedera's Global First Fit)", first_fit.assign),
        Policy("ilp", "the optimum by integer programming (HiGHS), for small instances", ilp.assign),
        Policy("fair", "the default: the best of these, then a search that raises level after level", fair.assign),
    )
}


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
