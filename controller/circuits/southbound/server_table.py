"""The forwarding of one server as values: addresses at the other ends of its circuits, and routes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from controller.circuits.planning.circuit_plan import ShardPlan
from controller.circuits.planning.routes import tree_hops
from controller.circuits.southbound.addresses import halves, mac, nic_address, prefix, tree_address


class Neighbour(NamedTuple):
    """The Ethernet address of the NIC to which a circuit leads from one of the server's NICs."""

    address: str
    mac: str
    nic: int


class Route(NamedTuple):
    """By which NIC packets to an address or prefix leave; ``via``: that of a neighbour, ``None``: ``to`` is one."""

    to: str
    via: str | None
    nic: int


class Forget(NamedTuple):
    """Only the first tree to a server is left: routes to parts of its prefix go."""

    server: int


TableChange = Neighbour | Route | Forget


@dataclass(frozen=True)
class ServerTable:
    """All that a server forwards by.

    Attributes:
        neighbours: by (address, NIC).
        routes: by what they lead to.
    """

    neighbours: Mapping[tuple[str, int], Neighbour] = field(default_factory=dict)
    routes: Mapping[str, Route] = field(default_factory=dict)

    def after(self, changes: Iterable[TableChange]) -> ServerTable:
        """Return the table after changes, in their order."""
        neighbours, routes = dict(self.neighbours), dict(self.routes)
        for each in changes:
            if isinstance(each, Neighbour):
                neighbours[each.address, each.nic] = each
            elif isinstance(each, Route):
                routes[each.to] = each
            else:
                of_server = prefix(each.server)
                begin = of_server.removesuffix("0/24")
                for to in [to for to in routes if to.startswith(begin) and to != of_server]:
                    del routes[to]
        return ServerTable(neighbours, routes)


class Forwarding:
    """The routes of one server of a shard."""

    def __init__(self, plan: ShardPlan, server: int) -> None:
        """Read the circuits of a server, by its number in the shard."""
        self.plan, self.server = plan, server
        self._circuits = {
            k: (
                int(plan.shard.servers[plan.succ[k, server]]),
                int(plan.ends.receiver[k, server]),
                int(plan.ends.sender[k, server]),
            )
            for k in range(len(plan.succ))
            if plan.succ[k, server] != server
        }

    def neighbours(self) -> Iterator[Neighbour]:
        """Yield the Ethernet address at the other end of each circuit."""
        for after, receiving, nic in self._circuits.values():
            yield Neighbour(nic_address(after, receiving), mac(after, receiving), nic)

    def direct(self) -> Iterator[Route]:
        """Yield the route to the NIC at the other end of each circuit."""
        for after, receiving, nic in self._circuits.values():
            yield Route(f"{nic_address(after, receiving)}/32", None, nic)

    def route(self, tree: int, target: int) -> Route:
        """Return the route by a tree to a server; the first one is for all its addresses."""
        after, receiving, nic = self._circuits[int(self.plan.routes.trees[tree, target, self.server])]
        to = self.plan.shard.servers[target]
        return Route(f"{tree_address(to, tree)}/32" if tree else prefix(to), nic_address(after, receiving), nic)

    def forget(self, target: int) -> Forget:
        """Return the change that leaves only the first tree to a server."""
        return Forget(self.plan.shard.servers[target])


def whole_table(plan: ShardPlan, server: int) -> list[TableChange]:
    """Return all that a server (its number in the shard) needs."""
    state = Forwarding(plan, server)
    trees = np.argwhere(plan.routes.trees[:, :, server] >= 0).tolist()
    return [*state.neighbours(), *state.direct(), *(state.route(tree, target) for tree, target in trees)]


def table_rounds(plan: ShardPlan) -> list[list[Sequence[TableChange]]]:
    """Return changes that bring servers from any routes to those of a plan, without a loop or a loss.

    All servers have to make the changes of a round before one makes those of the next. At first all addresses of a
    server get the first tree to it, those next to it before those farther away: a packet follows the routes of before
    until it meets a server that has the new ones, and from there the new tree, which is complete. Then other trees and
    addresses of NICs get their own routes, in the same order. Circuits of both must be there.

    Returns:
        changes [round][server].
    """
    m = plan.succ.shape[1]
    states = [Forwarding(plan, u) for u in range(m)]
    rounds: list[list[Sequence[TableChange]]] = [[list(state.neighbours()) for state in states]]
    for own in (range(1), range(1, len(plan.routes.trees))):
        hops = [tree_hops(plan.succ, plan.routes.trees[tree]) for tree in own]
        for hop in range(1, 1 + max((int(each.max(initial=0)) for each in hops), default=0)):
            changes: list[list[TableChange]] = [[] for _ in range(m)]
            for tree, each in zip(own, hops, strict=True):
                for target, server in np.argwhere(each == hop).tolist():
                    changes[server].append(states[server].route(tree, target))
                    if not tree:
                        changes[server].append(states[server].forget(target))
            rounds.append(list(changes))
        if own.start == 0:
            rounds.append([list(state.direct()) for state in states])
    return rounds


def line_of(change: TableChange, own: int, interfaces: str) -> list[str]:
    """Return lines for ``ip -batch`` on the server ``own`` (its number in the fabric), whose interfaces are so named.

    Every line replaces what was there.
    """
    if isinstance(change, Forget):
        return [f"route flush root {each}\n" for each in halves(change.server)]
    name = interfaces.format(nic=change.nic)
    if isinstance(change, Neighbour):
        return [f"neigh replace {change.address} lladdr {change.mac} dev {name} nud permanent\n"]
    source = tree_address(own, 0)
    if change.via is None:
        return [f"route replace {change.to} dev {name} src {source}\n"]
    return [f"route replace {change.to} via {change.via} dev {name} onlink src {source}\n"]
