"""Importer ``ibnetdiscover``: the output of OpenIB's ``ibnetdiscover`` for an InfiniBand subnet.

::

    Switch 41 "S-b8599f0300ed5a40"     # "MF0;leaf1:MQM8700/U1" enhanced port 0 lid 1 lmc 0
    [1]    "H-0c42a10300abcdef"[1](..) # "node1 mlx5_0" lid 12 4xHDR
    Ca 1 "H-0c42a10300abcdef"          # "node1 mlx5_0"
    [1](..) "S-b8599f0300ed5a40"[1]    # lid 12 lmc 0 "MF0;leaf1:MQM8700/U1" lid 1 4xHDR

and of ``ibnetdiscover -p``, which prints one line for each port::

    CA  134  1 0x7cfe9003003b4bde 4x EDR - SW  1719 10 0x7cfe9003009ce5b0 ( 'node1 mlx5_0' - 'leaf1' )
    SW 2052 37 0x506b4b03005c2740 4x ???                                    'leaf2'

Both ends list a cable; each counts once. A channel adapter is a host. Adapters whose description begins with the same
word are NICs of one server, in the order of their names, unless that word is not a server's name: a description from
the factory, a default host name, or one that several adapters share. Adapters of these are together if they have the
same system image GUID. Speeds are those of the link's width and rate.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.fabrics.graph import Graph, ReadCable, fabric_of, one
from controller.workload.importers.fields import SourceLine
from controller.workload.importers.head import Head
from controller.workload.importers.streams import lines

LANE_GBPS = {
    "SDR": 2.5,
    "DDR": 5.0,
    "QDR": 10.0,
    "FDR10": 10.0,
    "FDR": 14.0,
    "EDR": 25.0,
    "HDR": 50.0,
    "NDR": 100.0,
    "XDR": 200.0,
}
"""Nominal speed of one lane (InfiniBand Architecture Specification, volume 2; IBTA's road map)."""

MOST_LEAVES = 16
"""Most leaves below which one server has adapters."""

_NODE = re.compile(r'(Switch|Ca|Rt)\s+\d{1,4}\s+"([SHR]-[0-9a-fA-F]{1,16})"(?:\s*#\s*"([^"]*)")?')
_LINK = re.compile(r'\[(\d{1,4})\](?:\[ext \d+\])?(?:\([0-9a-fA-F]+\))?\s+"([SHR]-[0-9a-fA-F]{1,16})"\[(\d{1,4})\](.*)')
_SYSTEM = re.compile(r"sysimgguid=0x([0-9a-fA-F]{1,16})")
_END = r"(CA|SW|RT)\s+\d{1,5}\s+(\d{1,4})\s+0x([0-9a-fA-F]{1,16})"
_PORT = re.compile(_END + r"\s+(\d{1,2}x\s+\S+)\s+(?:-\s+" + _END + r"\s+\(\s*'(.*)'\s+-\s+'(.*)'\s*\)|'(.*)')\s*")
_KINDS = {"CA": "Ca", "SW": "Switch", "RT": "Rt"}
_SPEED = re.compile(r"\b(\d{1,2})x\s*([A-Z]+\d*)\b")
_SWITCH_NAME = re.compile(r"(?:[A-Z]{2}\d*;)?([^:;]+)")
_AGGREGATION = "Mellanox Technologies Aggregation Node"
"""The adapter of SHARP within a switch."""
_NO_SERVER = re.compile(
    r"MT\d+\s.*|(.*\s)?(ConnectX|BlueField|InfiniHost)\S*(\s.*)?|.*\bMellanox Technologies\b.*|"
    r"(QLogic|Intel|Voltaire|Cornelis)\s.*|(HCA-|mlx\d_|hfi\d_|ib)\d+|H-[0-9a-f]+|"
    r"(localhost(\.localdomain)?|localhost\d?|ubuntu|debian|centos|rocky|almalinux|rhel|fedora|\(none\)|unknown)(\s.*)?",
    re.IGNORECASE,
)
"""Descriptions that name no server: those of adapters' factories, and machines with the host name of an installer."""


@dataclass
class _Node:
    """A switch (Switch), channel adapter (Ca) or router (Rt).

    Attributes:
        described: its description, else its identifier.
        system: its system image GUID; empty: unknown.
    """

    kind: str
    described: str
    system: str = ""


@dataclass
class _Subnet:
    """Nodes by identifier (``h-..``, ``s-..``), and cables by their two ends, a node's identifier and a port each."""

    nodes: dict[str, _Node] = field(default_factory=dict)
    cables: dict[frozenset[tuple[str, int]], tuple[SourceLine, float | None]] = field(default_factory=dict)


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    if any(_NODE.match(line) or _PORT.fullmatch(line) for line in head.lines):
        return "output of ibnetdiscover: an InfiniBand fabric"
    return ""


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read a fabric.

    Raises:
        InputError: a line is invalid, a server is below more leaves than servers have adapters, or the network is not
            a fabric of two or three layers.
    """
    source = one(sources, "ibnetdiscover")
    subnet = _Subnet()
    current = system = ""
    for number, text in lines(source):
        place = SourceLine(source, number)
        if match := _NODE.match(text):
            current = match[2].lower()
            subnet.nodes[current] = _Node(match[1], match[3] or match[2], system)
            system = ""
        elif match := _SYSTEM.match(text):
            system = match[1].lower()
        elif match := _LINK.match(text.strip()):
            if not current:
                raise place.error("there is a cable before the first node", text)
            ends = frozenset({(current, int(match[1])), (match[2].lower(), int(match[3]))})
            subnet.cables.setdefault(ends, (place, _speed(match[4].rpartition('"')[2] or match[4])))
        elif match := _PORT.fullmatch(text):
            _add_port(subnet, place, match)
    if not subnet.nodes:
        raise SourceLine(source, 1).error("no line describes a node of ibnetdiscover ('Switch 41 \"S-..\"')")
    return fabric_of(_graph(source, subnet), request)


def _add_port(subnet: _Subnet, place: SourceLine, match: re.Match[str]) -> None:
    """Add what a line of ``-p`` says: a node, and the other one if the port has a cable."""
    ends = []
    for kind, port, guid, described in (
        (match[1], match[2], match[3], match[8] if match[5] else match[10]),
        (match[5], match[6], match[7], match[9]),
    ):
        if kind:
            ident = f"{'s' if kind == 'SW' else 'h'}-{guid.lower()}"
            subnet.nodes.setdefault(ident, _Node(_KINDS[kind], described or ident))
            ends.append((ident, int(port)))
    if len(ends) > 1:
        subnet.cables.setdefault(frozenset(ends), (place, _speed(match[4])))


def _speed(text: str) -> float | None:
    match = _SPEED.search(text)
    return None if match is None or match[2] not in LANE_GBPS else int(match[1]) * LANE_GBPS[match[2]]


def _graph(source: Source, subnet: _Subnet) -> Graph:
    graph = Graph("ibnetdiscover", source.name)
    labels: dict[str, str] = {}
    taken: dict[str, str] = {}
    skipped = {
        ident for ident, node in subnet.nodes.items() if node.kind == "Rt" or node.described.startswith(_AGGREGATION)
    }
    for ident, node in subnet.nodes.items():
        if ident in skipped:
            continue
        match = _SWITCH_NAME.match(node.described)
        name = match[1].strip() if node.kind == "Switch" and match else node.described
        if taken.setdefault(name, ident) != ident:
            name = f"{name} {ident[2:]}"
        labels[ident] = name
        (graph.switches if node.kind == "Switch" else graph.servers)[name] = None
    leaves: dict[str, set[str]] = {}
    for ends, (place, gbps) in subnet.cables.items():
        idents = [ident for ident, _ in sorted(ends)]
        if len(idents) < 2 or skipped & set(idents):
            continue
        for ident in idents:
            if ident not in labels:
                raise place.error("a cable leads to a node that is not described", ident)
        graph.cables.append(ReadCable(labels[idents[0]], labels[idents[1]], gbps))
        leaves.setdefault(idents[0], set()).add(idents[1])
    _group(graph, {ident: node for ident, node in subnet.nodes.items() if ident in labels}, labels, leaves)
    if skipped:
        graph.notes.append(f"{len(skipped)} routers and aggregation nodes are left out")
    return graph


def _group(graph: Graph, nodes: dict[str, _Node], labels: dict[str, str], leaves: dict[str, set[str]]) -> None:
    """Say which adapters are in one server.

    Args:
        graph: the network.
        nodes: switches and adapters by identifier.
        labels: the names of these in the graph.
        leaves: the nodes at the other ends of an adapter's cables.

    Raises:
        InputError: a server has adapters below more leaves than is likely.
    """
    adapters = {ident: node for ident, node in nodes.items() if node.kind == "Ca"}
    shared = {
        _first_word(text) for text, count in Counter(node.described for node in adapters.values()).items() if count > 1
    }
    servers: dict[str, list[str]] = {}
    unnamed = []
    for ident, node in adapters.items():
        if _NO_SERVER.fullmatch(node.described) or _first_word(node.described) in shared:
            unnamed.append(node.described)
            # Adapters of one name and without a system image GUID are not known to be together.
            servers.setdefault(f"system-{node.system or ident[2:]}", []).append(ident)
        else:
            servers.setdefault(_first_word(node.described), []).append(ident)
    for server, idents in servers.items():
        below = {leaf for ident in idents for leaf in leaves.get(ident, ())}
        if len(below) > MOST_LEAVES:
            raise graph.error(
                f"the adapters of this server are below {len(below)} switches, more than {MOST_LEAVES}: several "
                "servers seem to have the same name",
                server,
            )
        graph.server_of |= {
            name: (server, rail) for rail, name in enumerate(_in_order(labels[ident] for ident in idents))
        }
    if unnamed:
        graph.warnings.append(
            f"the descriptions of {len(unnamed)} adapters name no server (the first is {unnamed[0]!r}): those with the "
            "same system image GUID are taken as one server"
        )


def _first_word(text: str) -> str:
    return text.split()[0] if text.split() else text


def _in_order(names: Iterable[str]) -> list[str]:
    """Return names so that numbers in them are in order: mlx5_2 before mlx5_10."""
    return sorted(
        names, key=lambda name: [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]
    )
