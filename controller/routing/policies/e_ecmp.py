"""``e_ecmp``: enhanced ECMP, the hash of switches over flows that are cut for several QPs.

Switches hash the destination QP beside the 5-tuple, or a UDP source port that the host derives from the QP numbers, as
Linux does; both give each QP a path of its own ("RDMA over Ethernet for Distributed AI Training at Meta Scale", SIGCOMM
2024). Here each placement unit sends over ``options.qps`` QPs with equal shares. The default is one, since the traffic
of jobs that state their QPs has a flow for each. Hashed are ports as hosts derive them, not those of the traffic: the
controller chooses consecutive ones, which CRC-32 spreads more evenly than chance does.
"""

from __future__ import annotations

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric, IntArray
from controller.model.packets.flow_ports import can_be_split, is_roce
from controller.model.packets.mixing import splitmix64
from controller.model.queue_pairs import udp_source_port
from controller.model.traffic import Traffic, unit_key
from controller.routing.base import Options, Result
from controller.routing.policies.ecmp import hash_units
from controller.routing.problem.demand import NETWORK, Demand
from controller.routing.problem.previous_plan import PreviousPlan


def assign(
    fabric: Fabric,
    traffic: Traffic,
    *,
    seed: int = 0,
    previous: PreviousPlan | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Result:
    """Assign the paths that ``options.hash`` picks for the QPs of each unit; ``seed`` as for ``ecmp``.

    A share is the part of the unit's QPs on that path. QPs that no switch can tell apart (the port of their flow is
    unknown, or another flow of the two hosts has it) take the path of the first. Flows of other protocols have no QPs:
    the hash of their own 5-tuple counts. The two modes of QPs differ in no
    share (see ``model.queue_pairs``).
    """
    demand = Demand.of(fabric, traffic)
    if options.qps == 1:
        return Result(demand.assignment(hash_units(demand, seed, options, _ports(demand, 0))))
    path = np.stack([hash_units(demand, seed, options, _ports(demand, qp)) for qp in range(options.qps)], axis=1)
    first = demand.part_flow[demand.part_ptr[:-1]]
    alike = (np.diff(demand.part_ptr) > 1) | ~can_be_split(traffic.udp_src[first])
    path[alike] = path[alike, :1]
    moving = np.flatnonzero(demand.fixed == NETWORK)
    key = moving[:, None] * fabric.n_paths + path[demand.unit_of_flow[moving]]
    row, qps = np.unique(key, return_counts=True)
    settled = np.flatnonzero(demand.fixed != NETWORK)
    flow = np.concatenate([row // fabric.n_paths, settled]).astype(np.int32)
    order = np.argsort(flow, kind="stable")
    return Result(
        Assignment(
            flow[order],
            np.concatenate([row % fabric.n_paths, demand.fixed[settled]]).astype(np.int32)[order],
            np.concatenate([qps / options.qps, np.ones(len(settled))])[order],
        )
    )


def _ports(demand: Demand, qp: int) -> IntArray:
    """Return ``udp_src`` [U] of one QP of each unit; the QP numbers are drawn, as those of hosts are."""
    flow, traffic = demand.part_flow[demand.part_ptr[:-1]], demand.traffic
    key = unit_key(traffic.src[flow], traffic.dst[flow], traffic.udp_src[flow]).astype(np.uint64)
    drawn = splitmix64(splitmix64(key) + np.uint64(qp))
    pairs = (drawn & np.uint64(0xFFFFFF)).astype(np.int64), (drawn >> np.uint64(40)).astype(np.int64)
    own, ports = traffic.udp_src[flow], udp_source_port(*pairs)
    roce = is_roce(own)
    return ports if roce.all() else np.where(roce, ports, own)
