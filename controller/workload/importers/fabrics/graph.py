"""Switches, servers and cables as other tools name them, to a fabric of two or three layers.

A leaf is a switch with a server below it. If no cable connects two of the other switches, these are spines; else those
with a cable to a leaf are aggregation switches, and those above them cores. A cable between a server and a leaf is a
host (a NIC): the first of a server keeps its name, or all get numbers where there are several. Other networks are
rejected with the name of a switch that does not fit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from controller.model.errors import InputError
from controller.model.fabric_parts import ROLES
from controller.model.files.fabric_forms import INTERFACE_PATTERN, MAX_HOSTS_PER_LEAF
from controller.model.job import Job
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.fields import MAX_RANKS

DEFAULT_GBPS = 100.0
"""Default speed of cables without a speed in the file and without ``--gbps``."""

FIRST_DPID = (1, 1_000_001, 2_000_001)
"""Datapath id of the first switch of each layer, from the leaves up. The files have no OpenFlow datapath ids."""

_INTERFACE = re.compile(INTERFACE_PATTERN)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class ReadCable:
    """A cable between two nodes; the speed and the names of the ports are ``None`` where the file has none."""

    a: str
    b: str
    gbps: float | None = None
    a_port: str | None = None
    b_port: str | None = None


@dataclass
class Graph:
    """The network described by a file.

    Attributes:
        what: the name of the tool, for messages.
        source: the name of the file, for messages.
        switches: names of the switches, in their order.
        servers: names of the servers, in their order.
        server_of: server and rail of a NIC that the file lists as a node; other nodes are their own servers.
        is_reported: whether it is what devices report, with cables that are no part of a fabric (between switches of
            one layer, below switches without another switch), which are left out with a warning.
    """

    what: str
    source: str
    switches: dict[str, None] = field(default_factory=dict)
    servers: dict[str, None] = field(default_factory=dict)
    cables: list[ReadCable] = field(default_factory=list)
    server_of: dict[str, tuple[str, int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    is_reported: bool = False

    def error(self, reason: str, value: object = None) -> InputError:
        """Return an error in this file."""
        return InputError(reason, source=self.source, value=value)


def fabric_of(graph: Graph, request: ImportRequest) -> Imported:
    """Return the fabric, and a job without ranks.

    Raises:
        InputError: the network has not two or three layers.
    """
    document = document_of(graph, request.gbps)
    name = _clean(request.name or graph.what)
    return Imported(Job(name), True, 0, 0, 0, tuple(graph.notes), document, warnings=tuple(graph.warnings))


def document_of(graph: Graph, gbps: float | None = None) -> dict[str, Any]:
    """Return a fabric document, as in a fabric file.

    Args:
        graph: the network.
        gbps: speed of cables without a speed in the file.

    Raises:
        InputError: the network has not two or three layers.
    """
    below, between = _sorted(graph)
    if graph.is_reported:
        below, between = _without_others(graph, below, between)
    if len(graph.switches) == 1 and not between:
        between = [_added_spine(graph)]
    layers = _layers(graph, between, dict.fromkeys(nic.leaf for nic in below))
    if len(below) > MAX_RANKS:
        raise graph.error(f"there are more than {MAX_RANKS} NICs")
    names = _Names(graph)
    # The cable to an added spine is not among these.
    unknown = sum(cable.gbps is None for cable in graph.cables)
    if unknown and gbps is None:
        graph.notes.append(f"{unknown} cables have no speed: {DEFAULT_GBPS:g} Gbit/s is assumed (see --gbps)")
    speed = gbps or DEFAULT_GBPS
    return {
        "switches": [
            {"name": names[switch], "role": role, "dpid": dpid}
            for role, layer, first in zip(ROLES[len(layers)], layers, FIRST_DPID, strict=False)
            for dpid, switch in enumerate(layer, first)
        ],
        "hosts": list(_hosts(graph, below, names, speed)),
        "links": [
            {"a": names[cable.a], "b": names[cable.b], "gbps": speed if cable.gbps is None else cable.gbps}
            | _interface("a_interface", cable.a_port)
            | _interface("b_interface", cable.b_port)
            for cable in between
        ],
    }


class _Nic(NamedTuple):
    """A cable between a leaf and a server."""

    leaf: str
    server: str
    gbps: float | None
    port: str | None
    interface: str | None


def _sorted(graph: Graph) -> tuple[list[_Nic], list[ReadCable]]:
    """Return the NICs, and the cables between switches."""
    below, between = [], []
    for cable in graph.cables:
        ends = [name for name in (cable.a, cable.b) if name in graph.switches]
        if len(ends) == 2:
            between.append(cable)
        elif len(ends) == 1:
            if ends[0] == cable.a:
                below.append(_Nic(cable.a, cable.b, cable.gbps, cable.a_port, cable.b_port))
            else:
                below.append(_Nic(cable.b, cable.a, cable.gbps, cable.b_port, cable.a_port))
        else:
            raise graph.error("a cable connects two nodes that are not switches", f"{cable.a} {cable.b}")
    if not below:
        raise graph.error("no switch has a server below it")
    return below, between


def _without_others(graph: Graph, below: list[_Nic], between: list[ReadCable]) -> tuple[list[_Nic], list[ReadCable]]:
    """Leave out cables within a layer, and switches without another switch, with their servers' cables there."""
    leaves = {nic.leaf for nic in below}
    over_leaves = {name for cable in between for name in (cable.a, cable.b) if {cable.a, cable.b} & leaves} - leaves
    peers = [cable for cable in between if any({cable.a, cable.b} <= layer for layer in (leaves, over_leaves))]
    if peers:
        graph.warnings.append(
            f"{len(peers)} cables between switches of one layer are left out, the first is {peers[0].a} {peers[0].b}: "
            "plans do not use them"
        )
    left_out = set(peers)
    between = [cable for cable in between if cable not in left_out]
    with_others = {name for cable in between for name in (cable.a, cable.b)}
    if not with_others:
        return below, between
    for name in [name for name in graph.switches if name not in with_others]:
        del graph.switches[name]
        lost = sum(nic.leaf == name for nic in below)
        graph.warnings.append(
            f"{name} has no cable to another switch: it is left out, with {lost} cables (is it for management?)"
        )
    return [nic for nic in below if nic.leaf in with_others], between


def _added_spine(graph: Graph) -> ReadCable:
    """Add a spine above the only switch, since a fabric has one; no flow uses it."""
    (leaf,) = graph.switches
    spine = next(name for name in ("spine", "spine.added") if name not in graph.servers and name != leaf)
    graph.switches[spine] = None
    graph.warnings.append(f"there is one switch, {leaf}: {spine!r} is added above it, and no flow uses it")
    return ReadCable(leaf, spine)


def _layers(graph: Graph, between: list[ReadCable], leaves: dict[str, None]) -> list[list[str]]:
    """Return the switches of each layer, from the leaves up.

    Raises:
        InputError: a switch is in no layer, or a cable does not connect a layer with the next one.
    """
    neighbours: dict[str, set[str]] = {name: set() for name in graph.switches}
    for cable in between:
        neighbours[cable.a].add(cable.b)
        neighbours[cable.b].add(cable.a)
    for name, others in neighbours.items():
        if not others and len(neighbours) > 1:
            raise graph.error("this switch has no cable to another switch", name)
    above = [name for name in graph.switches if name not in leaves]
    middle = [name for name in above if neighbours[name] & leaves.keys()]
    tops = [name for name in above if name not in middle]
    layer_of = dict.fromkeys(leaves, 0) | dict.fromkeys(middle, 1) | dict.fromkeys(tops, 2)
    for name in tops:
        if not neighbours[name] & set(middle):
            raise graph.error("four tiers are not supported, only two or three: this switch is above the cores", name)
    for cable in between:
        if layer_of[cable.a] == layer_of[cable.b]:
            raise graph.error(_SAME_LAYER[layer_of[cable.a]], f"{cable.a} {cable.b}")
    return [list(leaves), middle, tops] if tops else [list(leaves), middle]


_SAME_LAYER = (
    "two switches with servers are connected directly; a fabric has spines or aggregation switches between them",
    "two switches above leaves are connected directly; a fabric has cores between them",
    "two switches above aggregation switches are connected directly; four tiers are not supported, only two or three",
)
"""What is wrong with a cable within a layer, from the leaves up."""


class _Names:
    """Unique names that are valid in a fabric file."""

    def __init__(self, graph: Graph) -> None:
        self._by_name: dict[str, str] = {}
        self._taken: set[str] = set()
        for name in (*graph.switches, *graph.servers):
            self._by_name[name] = self.free(name)

    def __getitem__(self, name: str) -> str:
        return self._by_name[name]

    def free(self, name: str) -> str:
        wanted = _clean(name)
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}.{number}"
        self._taken.add(name)
        return name


def _clean(name: str) -> str:
    return _NOT_IN_NAMES.sub("-", name).strip("-")[:56] or "x"


def _hosts(graph: Graph, below: list[_Nic], names: _Names, speed: float) -> Iterable[dict[str, Any]]:
    counts = Counter(nic.server for nic in below)
    seated: dict[str, int] = {}
    rails: dict[str, int] = {}
    order = {leaf: i for i, leaf in enumerate(dict.fromkeys(nic.leaf for nic in below))}
    addresses = _Addresses(below, order)
    for nic in sorted(below, key=lambda nic: order[nic.leaf]):
        server, leaf = nic.server, nic.leaf
        rail = rails.setdefault(server, 0)
        rails[server] += 1
        seated[leaf] = seated.get(leaf, 0) + 1
        name = names.free(f"{server}.{rail}") if counts[server] > 1 else names[server]
        owner, rail = graph.server_of.get(server, (server, rail))
        row: dict[str, Any] = {"name": name, "leaf": names[leaf], "gbps": speed if nic.gbps is None else nic.gbps}
        if counts[owner] > 1 or server in graph.server_of:
            row |= {"server": _clean(owner), "rail": rail}
        yield row | addresses.of(leaf, seated[leaf]) | _interface("interface", nic.port)


def _interface(key: str, port: str | None) -> dict[str, str]:
    """Return the field of an interface, if the name of its port can be one."""
    return {key: port} if port and _INTERFACE.fullmatch(port) else {}


class _Addresses:
    """Addresses of hosts below leaves that are larger than a /24: consecutive in 10.0.0.0/8."""

    def __init__(self, below: list[_Nic], order: dict[str, int]) -> None:
        counts: dict[str, int] = {}
        for nic in below:
            counts[nic.leaf] = counts.get(nic.leaf, 0) + 1
        self._wanted = max(counts.values()) > MAX_HOSTS_PER_LEAF
        self._first: dict[str, int] = {}
        number = 1
        for leaf in order:
            self._first[leaf] = number
            number += counts[leaf]

    def of(self, leaf: str, seat: int) -> dict[str, str]:
        if not self._wanted:
            return {}
        number = self._first[leaf] + seat - 1
        parts = [(number // 62_500) % 250, (number // 250) % 250, number % 250 + 1]
        return {
            "ip": "10." + ".".join(str(part) for part in parts),
            "mac": "02:00:" + ":".join(f"{number >> shift & 255:02x}" for shift in (24, 16, 8, 0)),
        }


def one(sources: Iterable[Source], what: str) -> Source:
    """Return the only source.

    Raises:
        InputError: there is no source, or there are several.
    """
    rows = list(sources)
    if len(rows) != 1:
        raise InputError(
            f"{what} describes one network: import each file separately" if rows else "no file is given",
            source=rows[1].name if rows else "",
        )
    return rows[0]
