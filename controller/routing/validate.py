"""Validation of assignments, for every policy and before installation."""

from __future__ import annotations

import numpy as np

from controller.model.assignment import LOCAL, UNROUTABLE, Assignment
from controller.model.fabric import BoolArray, Fabric
from controller.model.packets.flow_ports import can_be_split
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Traffic


class InvalidAssignmentError(ValueError):
    """An assignment that breaks a rule; the message names the rule and the first flow that breaks it."""


def validate_assignment(fabric: Fabric, traffic: Traffic, assignment: Assignment, *, enforceable: bool = True) -> None:
    """Check that every flow has paths that exist, are up and join its leaves, with shares that add up to 1.

    Args:
        fabric: the fabric.
        traffic: the flows.
        assignment: the assignment to check.
        enforceable: also check that switches can carry it out: flows of one placement unit take the same path, and a
            flow whose port is unknown is not split, unless their packets may be spread over several paths.

    Raises:
        InvalidAssignmentError: the first violation.
    """
    flow, path, share = assignment.flow, assignment.path, assignment.share
    n_flows = traffic.n_flows

    def check(good: BoolArray, rule: str) -> None:
        if not good.all():
            row = int(np.argmin(good))
            raise InvalidAssignmentError(f"{traffic.flow_id(int(flow[row]))}: {rule} (path {int(path[row])})")

    if not (len(flow) == len(path) == len(share)):
        raise InvalidAssignmentError("columns of different length")
    if len(flow) and (flow.min() < 0 or flow.max() >= n_flows):
        raise InvalidAssignmentError("a row names a flow that does not exist")
    if (flow[1:] < flow[:-1]).any():
        raise InvalidAssignmentError("rows are not in order of flows")
    if len(np.unique(flow)) < n_flows:
        missing = int(np.setdiff1d(np.arange(n_flows), flow)[0])
        raise InvalidAssignmentError(f"{traffic.flow_id(missing)}: has no row")
    a, b = fabric.host_leaf[traffic.src[flow]], fabric.host_leaf[traffic.dst[flow]]
    hosts_up = fabric.link_up[traffic.src[flow]] & fabric.link_up[fabric.n_hosts + traffic.dst[flow]]
    on_path = path >= 0
    check((path >= UNROUTABLE) & (path < max(fabric.n_paths, 1)), "a path class that does not exist")
    check(~on_path | (a != b), "a path between switches for two hosts of one leaf")
    check((path != LOCAL) | (a == b), "no path for hosts of different leaves")
    check((path == UNROUTABLE) | hosts_up, "a path over a host link that is down")
    check(~on_path | fabric.live_ways.joined(a, b, path), "a path that does not exist or is down")
    pairs, inverse = np.unique(np.stack([a, b], axis=1), axis=0, return_inverse=True)
    joined = np.array([x == y or len(fabric.live_paths(x, y)) > 0 for x, y in pairs.tolist()], dtype=np.bool_)
    if len(flow):
        check((path != UNROUTABLE) | ~(joined[inverse.reshape(-1)] & hosts_up), "unroutable, but there is a live path")
    check((share > 0) & (share <= 1 + TOLERANCE), "a share outside (0, 1]")
    total = np.bincount(flow, weights=share, minlength=n_flows)
    check(np.abs(total[flow] - 1) <= TOLERANCE, "shares that do not add up to 1")
    rows = flow.astype(np.int64) * (fabric.n_paths + 2) + path
    if len(np.unique(rows)) < len(rows):
        raise InvalidAssignmentError("a flow has two rows for one path")
    if not enforceable:
        return
    pieces = np.bincount(flow, minlength=n_flows)[flow]
    check(
        (pieces == 1) | can_be_split(traffic.udp_src[flow]) | traffic.spreadable[flow],
        "a split flow that is not RoCEv2's, or whose port is unknown",
    )
    unit = traffic.unit[flow]
    first = np.full(traffic.n_units, -1, dtype=np.int64)
    first[unit[::-1]] = path[::-1]
    shared = np.bincount(traffic.unit, minlength=traffic.n_units)[unit] > 1
    alone = traffic.spreadable[flow] | ((pieces == 1) & (path == first[unit]))
    check(~shared | alone, "another path than the rest of its placement unit")
