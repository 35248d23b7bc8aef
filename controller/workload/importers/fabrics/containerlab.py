"""Importer ``containerlab``: topologies of containerlab (``*.clab.yml``, https://containerlab.dev/manual/topo-def-file/).

Nodes of kind ``linux`` are servers unless their image is a router's (FRR, SONiC, ..), all others are switches. A node's
kind and image are its own, its group's, its kind's or the default.
Links have two endpoints, ``node:interface`` or a mapping with ``node``; links to the lab's own host, its management
network or a macvlan are left out. The file has no speeds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from controller.model.errors import InputError
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.documents import mapping, yaml_document
from controller.workload.importers.fabrics.graph import Graph, ReadCable, fabric_of, one
from controller.workload.importers.head import Head

_OUTSIDE = ("host", "mgmt-net", "macvlan", "dummy", "vxlan", "vxlan-stitch")
_SERVER_KINDS = ("linux", "k8s-kind", "generic_vm")
_ROUTER_IMAGES = re.compile(
    r"\b(frr(outing)?|sonic|vyos|bird2?|gobgp|cumulus|openwrt|quagga|holo|bmv2|stratum)\b", re.I
)
"""Images of routers that run as a node of kind ``linux``; the last part of an image's name counts, too."""


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    starts = {line.split(":")[0].strip() for line in head.lines}
    if starts >= {"topology", "nodes"} and ("endpoints" in head.text or "kind:" in head.text):
        return "a containerlab topology: a fabric"
    return ""


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read a fabric.

    Raises:
        InputError: the file is not a topology of containerlab, or not a fabric of two or three layers.
    """
    source = one(sources, "containerlab")
    document = mapping(yaml_document(source), source, "")
    topology = mapping(document.get("topology"), source, "topology")
    nodes = mapping(topology.get("nodes"), source, "topology.nodes")
    graph = Graph(str(document.get("name") or "containerlab"), source.name)
    for name, row in nodes.items():
        node = mapping(row or {}, source, f"topology.nodes.{name}")
        kind, image = (_setting(topology, node, key) for key in ("kind", "image"))
        is_server = kind in _SERVER_KINDS and not _ROUTER_IMAGES.search(re.sub(r"[-_]", " ", image))
        (graph.servers if is_server else graph.switches)[str(name)] = None
    links = topology.get("links") or []
    if not isinstance(links, list):
        raise InputError("is not a list", source=source.name, field="topology.links", value=links)
    outside = 0
    for i, row in enumerate(links):
        ends = _ends(row, source, f"topology.links[{i}]")
        if any(end in _OUTSIDE and end not in nodes for end in ends):
            outside += 1
            continue
        for end in ends:
            if end not in nodes:
                raise InputError("no node has this name", source=source.name, field=f"topology.links[{i}]", value=end)
        graph.cables.append(ReadCable(ends[0], ends[1]))
    if outside:
        graph.notes.append(f"{outside} links leave the lab and are left out")
    return fabric_of(graph, request)


def _setting(topology: dict[str, Any], node: dict[str, Any], key: str) -> str:
    """Return a node's kind or image; empty: none is given."""
    kind = _setting(topology, node, "kind") if key != "kind" else None
    for row in (
        node,
        (topology.get("groups") or {}).get(node.get("group")),
        (topology.get("kinds") or {}).get(kind),
        topology.get("defaults"),
    ):
        if isinstance(row, dict) and row.get(key):
            return str(row[key])
    return ""


def _ends(row: Any, source: Source, where: str) -> list[str]:
    ends = row.get("endpoints") if isinstance(row, dict) else None
    if isinstance(row, dict) and ends is None and row.get("type") in _OUTSIDE:
        return ["host", "host"]
    names = [
        str(end.get("node")) if isinstance(end, dict) else str(end).partition(":")[0]
        for end in (ends if isinstance(ends, list) else [])
    ]
    if len(names) != 2:
        raise InputError("a link must have two endpoints", source=source.name, field=where, value=row)
    return names
