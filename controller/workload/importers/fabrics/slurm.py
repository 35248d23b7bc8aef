"""Importer ``slurm``: Slurm's ``topology.conf`` and ``topology.yaml``, of topology/tree and topology/block.

A line is a switch: ``SwitchName=leaf1 Nodes=node[001-016]`` has servers below it, ``SwitchName=spine
Switches=leaf[1-4]`` has switches (man topology.conf), or a block of nodes near each other: ``BlockName=b1
Nodes=node[001-018]``. In YAML (man topology.yaml) they are ``tree.switches`` and ``block.blocks`` of one topology;
of several, the default of the cluster counts. The file is for the scheduler: it has neither cables nor speeds. A cable
is assumed for each pair and, where no switch is above the leaves, one that joins them all; a block is taken as a leaf.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from controller.model.errors import InputError
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.documents import items, mapping, yaml_document
from controller.workload.importers.fabrics.graph import Graph, ReadCable, fabric_of, one
from controller.workload.importers.fields import MAX_RANKS, SourceField, SourceLine
from controller.workload.importers.head import Head
from controller.workload.importers.streams import lines
from controller.workload.placement.host_lists import expand

_PAIR = re.compile(r"(\w+)=(\S+)")
_LINES = 200
_OTHERS = frozenset({"blocksizes", "linkspeed"})
"""Keys of lines that describe no switch and no block."""

_Place = SourceLine | SourceField
_NAMES = {"switch": "switchname", "block": "blockname", "children": "switches", "nodes": "nodes"}
"""Keys of topology.yaml in terms of topology.conf."""


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    if any(re.match(r"\s*(SwitchName|BlockName)=\S", line, re.IGNORECASE) for line in head.lines):
        return "Slurm's topology.conf: a fabric without speeds"
    starts = {line.strip(" -").partition(":")[0] for line in head.lines[:200]}
    if "topology" in starts and (starts >= {"tree", "switches"} or starts >= {"block", "blocks"}):
        return "Slurm's topology.yaml: a fabric without speeds"
    return ""


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read a fabric.

    Raises:
        InputError: a line is invalid, or the network is not a fabric of two or three layers.
    """
    source = one(sources, "Slurm")
    graph = Graph("slurm", source.name)
    children: dict[str, list[str]] = {}
    rows = _yaml_rows(source) if _is_yaml(source) else _rows(source)
    blocks = 0
    for place, values in rows:
        if "blockname" not in values and "switchname" not in values:
            if values.keys() & _OTHERS:
                continue
            raise place.error("is not a switch (SwitchName=..) and not a block (BlockName=..)")
        blocks += "blockname" in values
        (name,) = _names(place, values.get("switchname") or values["blockname"])[:1]
        if name in graph.switches:
            raise place.error("this switch is described twice", name)
        graph.switches[name] = None
        for node in _names(place, values.get("nodes", "")):
            if node in graph.servers:
                graph.warnings.append(f"{place}: {node} is below two switches: two NICs are assumed")
            graph.servers[node] = None
            graph.cables.append(ReadCable(name, node))
        if len(graph.cables) > MAX_RANKS:
            raise place.error(f"there are more than {MAX_RANKS} nodes")
        children[name] = _names(place, values.get("switches", ""))
    for name, below in children.items():
        for child in below:
            if child not in graph.switches:
                raise graph.error(f"switch {name} has a switch below it that is not described", child)
            graph.cables.append(ReadCable(child, name))
    if blocks:
        graph.warnings.append(f"the file has {blocks} blocks of nodes and no switches: each block is taken as a leaf")
    if not any(children.values()) and len(graph.switches) > 1:
        leaves = list(graph.switches)
        graph.switches["core"] = None
        graph.cables += [ReadCable(leaf, "core") for leaf in leaves]
        graph.warnings.append(
            f"no switch is above the {len(leaves)} leaves: one ('core') is added, with a cable to each"
        )
    else:
        graph.warnings.append("the file has no cables: one is assumed between each switch and the one above it")
    return fabric_of(graph, request)


def _rows(source: Source) -> Iterator[tuple[_Place, dict[str, str]]]:
    for number, text in lines(source):
        text = text.partition("#")[0].strip()
        if text:
            place = SourceLine(source, number)
            yield place, {key.lower(): value for key, value in _PAIR.findall(text)}


def _is_yaml(source: Source) -> bool:
    return not any("=" in text.partition("#")[0] for _, text in islice(lines(source, cut=True), _LINES))


def _yaml_rows(source: Source) -> Iterator[tuple[_Place, dict[str, str]]]:
    """Yield the rows of the cluster's default topology.

    Raises:
        InputError: there is none, or it is flat; names the field.
    """
    document = yaml_document(source)
    topologies = document if isinstance(document, list) else [document]
    rows = [mapping(row, source, f"[{i}]") for i, row in enumerate(topologies)]
    default = next((i for i, row in enumerate(rows) if row.get("cluster_default") is True), 0)
    if not rows:
        raise InputError("has no topology", source=source.name)
    for plugin, key in (("tree", "switches"), ("block", "blocks")):
        if plugin in rows[default]:
            where = f"[{default}].{plugin}.{key}"
            entries = mapping(rows[default][plugin], source, f"[{default}].{plugin}").get(key)
            for i, value in enumerate(items(entries, source, where)):
                row = mapping(value, source, f"{where}[{i}]")
                yield (
                    SourceField(source, f"{where}[{i}]"),
                    {_NAMES.get(k, k): str(v) for k, v in row.items() if v is not None},
                )
            return
    raise InputError("has no tree and no blocks", source=source.name, field=f"[{default}]", value=rows[default])


def _names(place: _Place, text: str) -> list[str]:
    """Expand a host list.

    Raises:
        InputError: the text is not a host list; names the place.
    """
    try:
        return expand(text)
    except InputError as error:
        raise place.error(error.reason, error.value) from None
