"""Importer ``netq``: the topology graph of NVIDIA NetQ, as its interface and Topograph export it (JSON).

``nodes`` are in tiers (``compounded_nodes``) with names and ``device_type``, ``links`` between two nodes have one or
more cables (``compounded_links``) with the interface at each end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from controller.model.errors import InputError
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.documents import items, json_document, mapping
from controller.workload.importers.fabrics.graph import fabric_of, one
from controller.workload.importers.fabrics.neighbours.kinds import is_switch_port
from controller.workload.importers.fabrics.neighbours.reports import Reports
from controller.workload.importers.head import Head

_DEPTH = 20


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    return "a topology graph of NetQ: a fabric" if head.keys >= {"links", "compounded_links", "interfaces"} else ""


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read a fabric.

    Raises:
        InputError: names the field, or the network is not a fabric of two or three layers.
    """
    source = one(sources, "NetQ")
    document = json_document(source)
    graphs = document if isinstance(document, list) else [document]
    reports = Reports()
    names: dict[str, str] = {}
    ends: list[tuple[tuple[str, str], tuple[str, str]]] = []
    for g, value in enumerate(graphs):
        graph = mapping(value, source, f"[{g}]")
        for node in _nodes(graph.get("nodes"), source, f"[{g}].nodes", _DEPTH):
            names[str(node.get("id"))] = str(node.get("name") or node.get("id"))
            kind = str(node.get("device_type", ""))
            if kind in ("switch", "host", "server"):
                reports.is_switch[names[str(node.get("id"))]] = kind == "switch"
        ends += _cables(graph.get("links"), source, f"[{g}].links")
    if not ends:
        raise InputError("has no links with interfaces (links.compounded_links)", source=source.name)
    for pair in ends:
        here, there = ((names.get(node, node), port) for node, port in pair)
        for name, port in (here, there):
            if is_switch_port(port):
                reports.is_switch.setdefault(name, True)
        reports.cable(here, there)
    # A device that is known by its neighbours only is no switch that NetQ manages.
    reports.is_switch = dict.fromkeys(names.values(), False) | reports.is_switch
    return fabric_of(reports.graph("netq", source), request)


def _nodes(value: Any, source: Source, where: str, depth: int) -> Iterator[dict[str, Any]]:
    """Yield the devices of all tiers."""
    for i, row in enumerate(items(value, source, where)):
        node = mapping(row, source, f"{where}[{i}]")
        below = node.get("compounded_nodes")
        if below is not None and depth:
            yield from _nodes(below, source, f"{where}[{i}].compounded_nodes", depth - 1)
        elif node.get("node_type", "device") == "device":
            yield node


def _cables(value: Any, source: Source, where: str) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    for i, row in enumerate(items(value, source, where)):
        link = mapping(row, source, f"{where}[{i}]")
        for k, part in enumerate(items(link.get("compounded_links", [link]), source, f"{where}[{i}].compounded_links")):
            place = f"{where}[{i}].compounded_links[{k}].interfaces"
            rows = items(mapping(part, source, place).get("interfaces"), source, place)
            both = [mapping(end, source, place) for end in rows]
            if len(both) != 2 or not all(isinstance(end.get("node"), str) for end in both):
                raise InputError("are not the two ends of a cable", source=source.name, field=place, value=rows)
            here, there = ((str(end["node"]), str(end.get("interface") or f"link {i}.{k}")) for end in both)
            yield here, there
