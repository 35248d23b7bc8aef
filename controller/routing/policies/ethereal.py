"""``ethereal``: the minimal splitting of "Challenging the Need for Packet Spraying" (arXiv 2407.00550).

Of n equal flows from one sender over s paths, all but n mod s stay whole and take the paths in turn; the n mod s
others are cut into s / gcd(n mod s, s) pieces each, which take the next paths in turn. Every path out of the sender
then carries the same load. Senders begin at different paths, so that flows to one receiver do not share a downlink.
Flows of different sizes are different classes; a path that is not live for a flow is skipped. Where paths have choices
in several tiers, s counts whole paths, and flows that meet in different tiers are different classes, too.
"""

from __future__ import annotations

import numpy as np

from controller.model.fabric import Fabric
from controller.model.traffic import Traffic
from controller.routing.base import Options, Result
from controller.routing.kernels.placing.round_robin import round_robin
from controller.routing.placing.pieces import Pieces
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
    """Assign paths to the pieces of each sending host, or of each sending leaf with ``Options.ethereal_by``."""
    demand = Demand.of(fabric, traffic)
    load = demand.load[demand.part_flow]
    part = np.flatnonzero(load > 0).astype(np.int64)
    flow = demand.part_flow[part]
    sender = traffic.src[flow] if options.ethereal_by == "host" else demand.leaf_src[flow]
    ways, src, dst = fabric.live_ways, demand.leaf_src[flow], demand.leaf_dst[flow]
    order = np.lexsort((part, traffic.bytes[flow], ways.meet(src, dst), sender)).astype(np.int64)
    row, path, share = round_robin(order, sender, traffic.bytes[flow], src, dst, ways)
    pieces = Pieces(part[row], path, load[part[row]] * share).merged().enforceable(demand)
    return Result(pieces.assignment(demand))
