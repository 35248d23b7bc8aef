"""Cables as one or both of their ends report them, to a network.

Reports are incomplete: a neighbour may name another port than its own report does (an interface, a MAC address), add
its domain to its name, or be of an unknown kind. They also contain what carries no flow of a job: links between two
switches of a layer (MLAG), management networks, loops.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.workload.importers.base import Source
from controller.workload.importers.fabrics.graph import Graph, ReadCable
from controller.workload.importers.fabrics.neighbours.kinds import is_management_port

_SHOWN = 3


class ReportedCable(NamedTuple):
    """A cable as the node of ``here`` reports it.

    Attributes:
        here, there: a node and its port at each end.
        gbps: speed; ``None``: unknown.
        interface: the name of the neighbour's interface, which its port may be; ``None``: unknown.
    """

    here: tuple[str, str]
    there: tuple[str, str]
    gbps: float | None
    interface: str | None


@dataclass(eq=False)
class _Cable:
    """A cable that one or two nodes report; ``ports`` has the names of the interfaces that are known."""

    nodes: set[str]
    ports: dict[str, str] = field(default_factory=dict)
    gbps: float | None = None
    reported_by: set[str] = field(default_factory=set)

    def may_be(self, end: tuple[str, str], nodes: set[str]) -> bool:
        """Return whether a node's port can be an end of it: a node reports each of its ports once."""
        node, port = end
        return self.nodes == nodes and (node not in self.reported_by or self.ports[node] == port)


@dataclass
class Reports:
    """The contents of the files: cables, and which nodes are switches.

    Attributes:
        own: nodes whose own report was read.
    """

    reports: list[ReportedCable] = field(default_factory=list)
    is_switch: dict[str, bool] = field(default_factory=dict)
    own: list[str] = field(default_factory=list)
    _left_out: dict[str, int] = field(default_factory=dict)

    def cable(
        self,
        here: tuple[str, str],
        there: tuple[str, str],
        gbps: float | None = None,
        *,
        is_port: bool = True,
        interface: str | None = None,
    ) -> None:
        """Add a cable; see ``ReportedCable``. ``is_port``: whether the neighbour's port is its interface."""
        self.reports.append(ReportedCable(here, there, gbps, there[1] if is_port else interface))

    def leave_out(self, why: str) -> None:
        """Count a cable that is left out; ``why`` completes 'cables are left out, which'."""
        self._left_out[why] = self._left_out.get(why, 0) + 1

    def nodes(self) -> dict[str, None]:
        """Return the nodes at the ends of cables, in their order."""
        return dict.fromkeys(node for row in self.reports for node, _ in (row.here, row.there))

    def graph(self, what: str, source: Source) -> Graph:
        """Return the network; what carries no flows of jobs is left out, with warnings."""
        graph = Graph(what, source.name, is_reported=True)
        same = self._own_names()
        cables = self._cables(same, graph)
        names = [*(node for one in cables for node in sorted(one.nodes)), *self.own]
        for name in dict.fromkeys(names):
            (graph.switches if self._is_switch(name, same) else graph.servers)[name] = None
        for one in sorted(cables, key=lambda one: sorted(one.nodes)):
            a, b = min(one.nodes), max(one.nodes)
            if a == b:
                self.leave_out("connect two ports of one node")
            elif any(end in graph.switches and is_management_port(one.ports.get(end, "")) for end in (a, b)):
                self.leave_out("lead to management ports of switches")
            else:
                graph.cables.append(ReadCable(a, b, one.gbps, one.ports.get(a), one.ports.get(b)))
        graph.notes += [f"{count} cables are left out, which {why}" for why, count in self._left_out.items()]
        guessed = sorted(name for name in graph.servers if name not in self.is_switch and name not in same.values())
        if guessed:
            graph.warnings.append(
                f"the kind of {len(guessed)} neighbours is unknown, {', '.join(guessed[:_SHOWN])}"
                f"{' ..' * (len(guessed) > _SHOWN)}: they are assumed to be servers"
            )
        return graph

    def _cables(self, same: dict[str, str], graph: Graph) -> list[_Cable]:
        """Return the cables; one that both of its ends report is identified by either end."""
        cables: list[_Cable] = []
        by_end: dict[tuple[str, str], list[_Cable]] = {}
        # Of a port with several neighbours, as behind a hub or of a bridge on a server, the first one counts.
        of_port: dict[tuple[str, str], _Cable] = {}
        shared = 0
        # A description of several ports is the name of none.
        named = Counter((row.there[0], row.interface) for row in dict.fromkeys(self.reports))
        for row in self.reports:
            here, there = ((same.get(node, node), port) for node, port in (row.here, row.there))
            nodes = {here[0], there[0]}
            interface = row.interface if named[row.there[0], row.interface] == 1 else None
            ends = [there, here] if interface is None else [there, (there[0], interface), here]
            one = next((one for end in ends for one in by_end.get(end, ()) if one.may_be(here, nodes)), None)
            if one is None and here in of_port:
                shared += 1
                continue
            if one is None:
                one = _Cable(nodes)
                cables.append(one)
            of_port.setdefault(here, one)
            one.reported_by.add(here[0])
            one.gbps = row.gbps if one.gbps is None else one.gbps
            # A node's own name of its port is better than what its neighbour heard.
            one.ports[here[0]] = here[1]
            if interface is not None:
                one.ports.setdefault(there[0], interface)
            for end in ends:
                rows = by_end.setdefault(end, [])
                if one not in rows:
                    rows.append(one)
        cables = _joined(cables)
        if shared:
            graph.warnings.append(f"{shared} neighbours are left out, because their ports have another one, too")
        return cables

    def _is_switch(self, name: str, same: dict[str, str]) -> bool:
        """Return whether any of a node's names is known as that of a switch."""
        names = [name, *(other for other, one in same.items() if one == name)]
        return any(self.is_switch.get(one, False) for one in names)

    def _own_names(self) -> dict[str, str]:
        """Return the usual name of each node that some name with its domain, and others without it."""
        own = set(self.own)
        names = [*self.own, *self.nodes()]
        short = {name for name in names if "." not in name}
        same: dict[str, str] = {}
        for name in names:
            label, dot, _ = name.partition(".")
            if dot and label in short:
                other = {name: label} if label in own or name not in own else {label: name}
                same |= other
        return same


def _joined(cables: list[_Cable]) -> list[_Cable]:
    """Join cables that each end reports without a name by which the other one knows the port, as with MAC addresses.

    Both ends report all of their cables, so those between two nodes that one end alone reports are those that the
    other end alone reports. Of several the order is unknown, and the names of the interfaces with it.
    """
    alone: dict[tuple[str, ...], dict[str, list[_Cable]]] = {}
    for one in cables:
        if len(one.nodes) == 2 and len(one.reported_by) == 1:
            (reporter,) = one.reported_by
            alone.setdefault(tuple(sorted(one.nodes)), {}).setdefault(reporter, []).append(one)
    gone: set[int] = set()
    for by_reporter in alone.values():
        if len(by_reporter) < 2:
            continue
        first, second = by_reporter.values()
        for one, other in zip(first, second, strict=False):
            gone.add(id(other))
            one.reported_by |= other.reported_by
            one.gbps = other.gbps if one.gbps is None else one.gbps
            (node,) = other.reported_by
            one.ports[node] = other.ports[node]
            if min(len(first), len(second)) > 1:
                del one.ports[node]
    return [one for one in cables if id(one) not in gone]


def stem(source: Source) -> str:
    """Return the name of the node that a file is of: the file's without folders and ending."""
    file = source.name.replace("\\", "/").rpartition("/")[2]
    return file.removesuffix(".gz").rpartition(".")[0] or file
