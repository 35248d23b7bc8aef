"""Importer ``ibnetdiscover``: the output of OpenIB's ``ibnetdiscover`` for an InfiniBand subnet.

::

    Switch 41 "S-b8599f0300ed5a40"     # "MF0;leaf1:MQM8700/U1" enhanced port 0 lid 1 lmc 0
    [1]    "H-0c42a10300abcdef"[1](..) # "node1 mlx5_0" lid 12 4xHDR
    Ca 1 "H-0c42a10300abcdef"          # "node1 mlx5_0"
    [1](..) "S-b8599f0300ed5a40"[1]    # lid 12 lmc 0 "MF0;leaf1:MQM8700/U1" lid 1 4xHDR

Both ends list a cable; each counts once. A channel adapter is a host; adapters whose description begins with the same
word are NICs of one server, in the order of their names. Speeds are those of the link's width and rate.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

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

_NODE = re.compile(r'(Switch|Ca|Rt)\s+\d{1,4}\s+"([SHR]-[0-9a-fA-F]{1,16})"(?:\s*#\s*"([^"]*)")?')
_LINK = re.compile(r'\[(\d{1,4})\](?:\[ext \d+\])?(?:\([0-9a-fA-F]+\))?\s+"([SHR]-[0-9a-fA-F]{1,16})"\[(\d{1,4})\](.*)')
_SPEED = re.compile(r"\b(\d{1,2})x([A-Z]+\d*)\b")
_SWITCH_NAME = re.compile(r"(?:[A-Z]{2}\d*;)?([^:;]+)")
_AGGREGATION = "Mellanox Technologies Aggregation Node"
"""The adapter of SHARP within a switch."""


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    if any(_NODE.match(line) for line in head.lines):
        return "output of ibnetdiscover: an InfiniBand fabric"
    return ""


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read a fabric.

    Raises:
        InputError: a line is invalid, or the network is not a fabric of two or three layers.
    """
    source = one(sources, "ibnetdiscover")
    nodes: dict[str, tuple[str, str]] = {}
    cables: dict[frozenset[tuple[str, int]], tuple[SourceLine, float | None]] = {}
    current = ""
    for number, text in lines(source):
        place = SourceLine(source, number)
        if match := _NODE.match(text):
            current = match[2].lower()
            nodes[current] = (match[1], match[3] or match[2])
        elif match := _LINK.match(text.strip()):
            if not current:
                raise place.error("there is a cable before the first node", text)
            ends = frozenset({(current, int(match[1])), (match[2].lower(), int(match[3]))})
            cables.setdefault(ends, (place, _speed(match[4])))
    if not nodes:
        raise SourceLine(source, 1).error("no line describes a node of ibnetdiscover ('Switch 41 \"S-..\"')")
    return fabric_of(_graph(source, nodes, cables), request)


def _speed(text: str) -> float | None:
    match = _SPEED.search(text.rpartition('"')[2] or text)
    return None if match is None or match[2] not in LANE_GBPS else int(match[1]) * LANE_GBPS[match[2]]


def _graph(
    source: Source,
    nodes: dict[str, tuple[str, str]],
    cables: dict[frozenset[tuple[str, int]], tuple[SourceLine, float | None]],
) -> Graph:
    graph = Graph("ibnetdiscover", source.name)
    labels: dict[str, str] = {}
    taken: dict[str, str] = {}
    skipped = {guid for guid, (kind, name) in nodes.items() if kind == "Rt" or name.startswith(_AGGREGATION)}
    for guid, (kind, described) in nodes.items():
        if guid in skipped:
            continue
        match = _SWITCH_NAME.match(described)
        name = match[1].strip() if kind == "Switch" and match else described
        if taken.setdefault(name, guid) != guid:
            name = f"{name} {guid[2:]}"
        labels[guid] = name
        (graph.switches if kind == "Switch" else graph.servers)[name] = None
    for ends, (place, gbps) in cables.items():
        guids = [guid for guid, _ in sorted(ends)]
        if len(guids) < 2 or skipped & set(guids):
            continue
        for guid in guids:
            if guid not in labels:
                raise place.error("a cable leads to a node that is not described", guid)
        graph.cables.append(ReadCable(labels[guids[0]], labels[guids[1]], gbps))
    adapters: dict[str, list[str]] = {}
    for name in graph.servers:
        adapters.setdefault(name.split()[0] if name.split() else name, []).append(name)
    for server, names in adapters.items():
        graph.server_of |= {name: (server, rail) for rail, name in enumerate(sorted(names))}
    if skipped:
        graph.notes.append(f"{len(skipped)} routers and aggregation nodes are left out")
    return graph
