"""``annealing``: Simulated Annealing of Hedera (Al-Fares et al., NSDI 2010).

As there, a state gives every destination *host* one path class (one core switch), which is a far smaller space than
one for every flow; a step exchanges the classes of two hosts of one leaf, or sends one host to another class. Where
paths have choices in several tiers, a class is a choice in each, of which units that meet below take the first; the
energy is the demand that exceeds capacity, over all links; a worse state is accepted with a probability that falls
with how much worse it is and with the temperature, which falls linearly to zero.
"""

from __future__ import annotations

import numpy as np

from controller.model.fabric import Fabric
from controller.model.traffic import Traffic
from controller.routing.base import Options, Result
from controller.routing.kernels.placing.destination_annealing import anneal
from controller.routing.policies import ecmp
from controller.routing.policies.hedera import unit_demand
from controller.routing.problem.demand import Demand
from controller.routing.problem.previous_plan import PreviousPlan


def assign(
    fabric: Fabric,
    traffic: Traffic,
    *,
    seed: int = 0,
    previous: PreviousPlan | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Result:
    """Assign one path to each unit after ``Options.annealing_rounds`` steps of simulated annealing.

    A unit whose destination's class is not live takes the path that ECMP would give it.
    """
    demand = Demand.of(fabric, traffic)
    ways = fabric.live_ways
    classes = np.arange(ways.first[-1] - ways.first[-2], dtype=np.int32)
    if demand.one_choice:
        classes = np.flatnonzero(fabric.path_type >= 0).astype(np.int32)
    otherwise = ecmp.hash_units(demand, seed, options)
    if not demand.n_units:
        return Result(demand.assignment(otherwise))
    receiver = traffic.dst[demand.part_flow[demand.part_ptr[:-1]]]
    path = anneal(
        demand.unit_src,
        demand.unit_dst,
        receiver,
        fabric.host_leaf,
        unit_demand(demand, options),
        classes,
        ways,
        fabric.link_gbps,
        otherwise,
        options.annealing_rounds,
        seed & 0xFFFFFFFF,
    )
    return Result(demand.assignment(path))
