"""What a server needs to send and forward on circuits: a file for ``ip -batch``, and the bytes of each of its QPs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from controller.circuits.fabric.optical_fabric import OpticalFabric
from controller.circuits.kernels.routes import LOOSE
from controller.circuits.planning.circuit_plan import ShardPlan
from controller.circuits.planning.routes import tree_hops
from controller.circuits.southbound.addresses import halves, mac, nic_address, prefix, tree_address

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
    state = _Forwarding(plan, server, interfaces)
    yield from state.neighbours()
    yield from state.direct()
    for tree, target in np.argwhere(plan.routes.trees[:, :, server] >= 0).tolist():
        yield state.route(tree, target)


def ip_rounds(plan: ShardPlan, interfaces: str) -> list[list[list[str]]]:
    """Return lines for ``ip -batch`` that bring servers from any routes to those of a plan, without a loop or a loss.

    All servers have to do the lines of a round before one does those of the next. At first all addresses of a server
    get the first tree to it, those next to it before those farther away: a packet follows the routes of before until it
    meets a server that has the new ones, and from there the new tree, which is complete. Then other trees and addresses
    of NICs get their own routes, in the same order. Circuits of both must be there.

    Args:
        plan: of the shard.
        interfaces: as for ``ip_batch``.

    Returns:
        lines [round][server].
    """
    m = plan.succ.shape[1]
    states = [_Forwarding(plan, u, interfaces) for u in range(m)]
    rounds = [[list(state.neighbours()) for state in states]]
    for own in (range(1), range(1, len(plan.routes.trees))):
        hops = [tree_hops(plan.succ, plan.routes.trees[tree]) for tree in own]
        for hop in range(1, 1 + max((int(each.max(initial=0)) for each in hops), default=0)):
            lines: list[list[str]] = [[] for _ in range(m)]
            for tree, each in zip(own, hops, strict=True):
                for target, server in np.argwhere(each == hop).tolist():
                    lines[server].append(states[server].route(tree, target))
                    lines[server] += [] if tree else states[server].forget(target)
            rounds.append(lines)
        if own.start == 0:
            rounds.append([list(state.direct()) for state in states])
    return rounds


class _Forwarding:
    """Lines for the routes of one server of a shard."""

    def __init__(self, plan: ShardPlan, server: int, interfaces: str) -> None:
        self.plan, self.server, self.interfaces = plan, server, interfaces
        self.source = tree_address(plan.shard.servers[server], 0)
        self.circuits = {
            k: (
                int(plan.shard.servers[plan.succ[k, server]]),
                int(plan.ends.receiver[k, server]),
                interfaces.format(nic=int(plan.ends.sender[k, server])),
            )
            for k in range(len(plan.succ))
            if plan.succ[k, server] != server
        }

    def neighbours(self) -> Iterator[str]:
        """Yield the Ethernet address at the other end of each circuit."""
        for after, nic, name in self.circuits.values():
            yield f"neigh replace {nic_address(after, nic)} lladdr {mac(after, nic)} dev {name} nud permanent\n"

    def direct(self) -> Iterator[str]:
        """Yield the route to the NIC at the other end of each circuit."""
        for after, nic, name in self.circuits.values():
            yield f"route replace {nic_address(after, nic)}/32 dev {name} src {self.source}\n"

    def route(self, tree: int, target: int) -> str:
        """Return the route by a tree to a server; the first one is for all its addresses."""
        after, nic, name = self.circuits[int(self.plan.routes.trees[tree, target, self.server])]
        to = self.plan.shard.servers[target]
        where = f"{tree_address(to, tree)}/32" if tree else prefix(to)
        return f"route replace {where} via {nic_address(after, nic)} dev {name} onlink src {self.source}\n"

    def forget(self, target: int) -> list[str]:
        """Return lines that leave only the first tree to a server."""
        return [f"route flush root {each}\n" for each in halves(self.plan.shard.servers[target])]
