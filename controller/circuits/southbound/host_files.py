"""What a server needs to send and forward on circuits: a file for ``ip -batch``, and the bytes of each of its QPs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from controller.circuits.fabric.optical_fabric import OpticalFabric
from controller.circuits.kernels.routes import LOOSE
from controller.circuits.planning.circuit_plan import ShardPlan
from controller.circuits.southbound.addresses import mac, nic_address, tree_address
from controller.circuits.southbound.server_table import line_of, table_rounds, whole_table

SYSCTLS = (
    "net.ipv4.ip_forward=1",
    "net.ipv4.conf.all.rp_filter=0",
    "net.ipv4.conf.default.rp_filter=0",
    "net.ipv4.conf.all.send_redirects=0",
    "net.ipv4.conf.default.send_redirects=0",
)
"""Settings of a server: it forwards, also packets whose answers leave by another NIC, and those that leave by the NIC
by which they came. An interface has the larger of its own value and that of ``all``."""
COLUMNS = ("phase", "destination", "address", "interface", "bytes")


class QueuePair(NamedTuple):
    """What a server sends to one address in one phase (counted from 0).

    Attributes:
        phase: index of the phase.
        destination: number of the server in the shard.
        address: of the destination; it decides the path.
        nic: by which the bytes leave.
        bytes: of one iteration.
    """

    phase: int
    destination: int
    address: str
    nic: int
    bytes: int


def queue_pairs(plan: ShardPlan, server: int) -> list[QueuePair]:
    """Return what a server (its number in the shard) sends to each address; the bytes of a pair add up to its own.

    Rings that are pinned to circuits use addresses of NICs, all else uses those of trees.
    """
    demand, routes = plan.shard.demand, plan.routes
    by_trees = demand.messages[:, server].copy()
    pairs: list[QueuePair] = []
    for ring in routes.rings:
        group = demand.groups[ring.group]
        if server not in ring.order:
            continue
        after = ring.order[(ring.order.index(server) + 1) % len(ring.order)]
        if ring.layer == LOOSE:
            by_trees[group.slot, after] += ring.share * group.edge_bytes
            continue
        address = nic_address(plan.shard.servers[after], int(plan.ends.receiver[ring.layer, server]))
        nic = int(plan.ends.sender[ring.layer, server])
        pairs.append(QueuePair(group.slot, after, address, nic, round(ring.share * group.edge_bytes)))
    for phase, destination in np.argwhere(by_trees > 0).tolist():
        shares = routes.shares[phase if len(routes.shares) > 1 else 0, :, destination]
        # Rounded sums, so that no byte is lost between the trees.
        ends = np.round(np.cumsum(shares) * by_trees[phase, destination]).astype(np.int64)
        for tree, size in enumerate(np.diff(ends, prepend=0).tolist()):
            if size > 0:
                nic = int(plan.ends.sender[routes.trees[tree, destination, server], server])
                address = tree_address(plan.shard.servers[destination], tree)
                pairs.append(QueuePair(phase, destination, address, nic, size))
    return sorted(pairs)


def qp_table(fabric: OpticalFabric, plan: ShardPlan, server: int, interfaces: str) -> Iterator[str]:
    """Yield the lines of ``queue_pairs`` as CSV, with names for numbers (``COLUMNS``)."""
    yield ",".join(COLUMNS) + "\n"
    for pair in queue_pairs(plan, server):
        name = fabric.servers[plan.shard.servers[pair.destination]]
        yield f"{pair.phase},{name},{pair.address},{interfaces.format(nic=pair.nic)},{pair.bytes}\n"


def ip_batch(plan: ShardPlan, server: int, interfaces: str) -> Iterator[str]:
    """Yield the lines of a server's file for ``ip -batch``: its addresses, neighbours and routes.

    Neighbours are permanent, since an answer to ARP would have to come back by another circuit. Every line replaces
    what was there.

    Args:
        plan: the plan of the shard.
        server: the number of the server in the shard.
        interfaces: pattern of the names of interfaces, with ``{nic}``.
    """
    own = plan.shard.servers[server]
    for nic in range(len(plan.succ)):
        name = interfaces.format(nic=nic)
        yield f"link set dev {name} address {mac(own, nic)}\n"
        yield f"link set dev {name} up\n"
    # All addresses of a prefix on lo are the server's own.
    yield f"address replace {tree_address(own, 0)}/24 dev lo\n"
    for change in whole_table(plan, server):
        yield from line_of(change, own, interfaces)


def ip_rounds(plan: ShardPlan, interfaces: str) -> list[list[list[str]]]:
    """Return the lines for ``ip -batch`` of ``table_rounds``: [round][server]."""
    servers = plan.shard.servers
    return [
        [
            [line for change in changes for line in line_of(change, servers[u], interfaces)]
            for u, changes in enumerate(turn)
        ]
        for turn in table_rounds(plan)
    ]
